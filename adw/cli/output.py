"""What goes to stdout and stderr: JSON, plain lines, escaped text of strangers."""

import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

from adw.errors import AdwError

# C0, DEL and C1, bidirectional overrides and isolates (Unicode TR 9), lone surrogates.
_UNSAFE: Final = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069\\ud800-\\udfff]")


def print_json(value: Mapping[str, Any]) -> None:
    """Print one JSON document, the only thing on stdout."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    # Bytes of a path that are no UTF-8 become `\udcff`, which JSON knows too.
    sys.stdout.write(text.encode("utf-8", "backslashreplace").decode())
    sys.stdout.flush()


def print_bytes(data: bytes) -> None:
    """Print bytes as they are: a path for `$(…)`, a file, a patch."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def print_error(error: AdwError, *, as_json: bool) -> int:
    """Print an expected error; returns its exit code."""
    if as_json:
        print_json(error.as_json())
    else:
        sys.stderr.write(escaped(error.render(), keep="\n") + "\n")
    return int(error.exit_code)


def say(line: str) -> None:
    """One line for people on stderr."""
    sys.stderr.write(escaped(line) + "\n")


def escaped(text: str, keep: str = "") -> str:
    """Text that cannot steer a terminal: C0, C1 and bidirectional controls are shown as escapes.

    Args:
        text: Anything, an issue's title or a phase's output.
        keep: Control characters to leave as they are.
    """
    if text.isascii() and text.isprintable():
        return text
    return _UNSAFE.sub(lambda m: m[0] if m[0] in keep else _shown(m[0]), text)


def _shown(char: str) -> str:
    return char.encode("unicode_escape").decode()


def color_wanted(stream: Any) -> bool:
    """Whether a stream is a terminal that wants colour (`NO_COLOR` honoured)."""
    return bool(stream.isatty()) and not os.environ.get("NO_COLOR")


def table(rows: list[list[str]]) -> str:
    """Left-aligned columns, two spaces apart."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
