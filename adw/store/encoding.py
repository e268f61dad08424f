"""Text and JSON as the bytes of a file: UTF-8, whatever is in them.

Paths of this system may hold bytes that are no UTF-8; Python has them as lone surrogates, which a
plain `encode` refuses. Strangers' JSON may hold lone surrogates of its own. What cannot be JSON is
refused here, before any file is opened.
"""

import json
from collections.abc import Mapping
from typing import Any, Final


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """A value as JSON; a lone surrogate is written as an escape, which reads back as the same.

    Args:
        value: What JSON knows; dates and instants are written as ISO 8601 has them.
        indent: Spaces a level; None: one line.

    Raises:
        ValueError: Something in it is no JSON: an object, NaN, an endless number, a circle.
    """
    text = (_Encoder(indent) if indent else _LINE).encode(value)
    return text.encode("utf-8", "backslashreplace")


class _Encoder(json.JSONEncoder):
    def __init__(self, indent: int | None) -> None:
        super().__init__(ensure_ascii=False, allow_nan=False, indent=indent, default=_plain)


def _plain(value: object) -> str:
    """A date or instant as text; found by its method, as `datetime` costs time to import."""
    iso = getattr(value, "isoformat", None)
    if iso is None:
        message = f"a value of type `{type(value).__name__}` is no JSON"
        raise ValueError(message)
    return str(iso())


_LINE: Final = _Encoder(None)


def text_bytes(text: str) -> bytes:
    """A text in UTF-8; the bytes of a path that are no UTF-8 stay what they are."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # half of a surrogate pair, from a stranger's JSON
        return text.encode("utf-8", "backslashreplace")


def fits(value: object, types: Mapping[str, tuple[type, ...]]) -> bool:
    """Whether parsed JSON is an object that has these keys, with values of exactly these types."""
    return isinstance(value, dict) and all(
        type(value.get(name)) in allowed for name, allowed in types.items()
    )
