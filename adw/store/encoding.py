"""Text and JSON as the bytes of a file: UTF-8, whatever is in them.

Paths of this system may hold bytes that are no UTF-8; Python has them as lone surrogates, which a
plain `encode` refuses. Strangers' JSON may hold lone surrogates of its own.
"""

import json
from typing import Any


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """A value as JSON; a lone surrogate is written as an escape, which reads back as the same."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return text.encode("utf-8", "backslashreplace")


def text_bytes(text: str) -> bytes:
    """A text in UTF-8; the bytes of a path that are no UTF-8 stay what they are."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, from a stranger's JSON
        return text.encode("utf-8", "backslashreplace")
