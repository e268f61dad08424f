"""What goes to stdout and stderr: JSON, plain lines, escaped text of strangers."""

import contextlib
import errno
import json
import os
import re
import stat
import sys
from typing import Any, Final

from adw.errors import AdwError

# C0, DEL and C1, bidirectional controls (Unicode TR 9), lone surrogates; and what is not seen, so
# that two names which look alike are told apart: zero-width, line and tag characters.
_UNSAFE: Final = re.compile(
    "[\\x00-\\x1f\\x7f-\\x9f\\xad\\u061c\\u200b\\u200e\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff"
    "\\ud800-\\udfff\\U000e0000-\\U000e01ef]"
)


def print_json(value: Any) -> None:
    """Print one JSON document, the only thing on stdout."""
    text = json.dumps(value, ensure_ascii=False, indent=2) + "\n"
    if sys.stdout.isatty():  # JSON escapes C0 alone
        text = _UNSAFE.sub(lambda m: m[0] if m[0] == "\n" else json.dumps(m[0])[1:-1], text)
    # Bytes of a path that are no UTF-8 become `\udcff`, which JSON knows too.
    put(text.encode("utf-8", "backslashreplace").decode())


def print_bytes(data: bytes) -> None:
    """Print bytes as they are: a path for `$(…)`, a file, a patch; on a terminal, escaped."""
    sys.stdout.flush()
    if sys.stdout.isatty():
        text = data.decode("utf-8", "backslashreplace")
        data = escaped(text, keep="\n\t").encode("utf-8", "backslashreplace")
    put(data)


def put(what: str | bytes) -> None:
    """Write to stdout at once.

    Raises:
        BrokenPipeError: The reader has left; so has a terminal that was closed, which the kernel
            tells by EIO, as it does a disk that fails.
        OSError: It cannot be written otherwise.
    """
    try:
        if isinstance(what, str):
            sys.stdout.write(what)
            sys.stdout.flush()
        else:
            sys.stdout.buffer.write(what)
            sys.stdout.buffer.flush()
    except OSError as error:
        closed = error.errno == errno.EIO and stat.S_ISCHR(os.fstat(sys.stdout.fileno()).st_mode)
        if not closed and not isinstance(error, BrokenPipeError):
            raise
        silence_stdout()  # what is still in its buffer would fail once more at the end
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)) from error


def silence_stdout() -> None:
    """Send what is still written to stdout nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, sys.stdout.fileno())
    os.close(null)


def print_error(error: AdwError, *, as_json: bool) -> int:
    """Print an expected error; returns its exit code."""
    with contextlib.suppress(OSError):  # where nobody reads it the exit code still tells
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
