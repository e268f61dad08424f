"""What all documents share: strict types, no unknown keys, frozen values, JSON without traps."""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict


class Document(BaseModel):
    """A strict, frozen document."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid")


class DuplicateKey(ValueError):
    """A JSON object with one key twice; Python's parser would keep the last silently."""


def parse_json(data: bytes) -> Any:
    """Parse JSON as RFC 8259 means it.

    Args:
        data: UTF-8 without a byte order mark.

    Raises:
        ValueError: Not JSON; a duplicate key; NaN or Infinity; nested too deeply.
    """
    try:
        return json.loads(
            data.decode("utf-8"), object_pairs_hook=_no_duplicates, parse_constant=_no_constant
        )
    except RecursionError:
        message = "nested too deeply"
        raise ValueError(message) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        message = f"the key `{twice}` occurs twice"
        raise DuplicateKey(message)
    return found


def _no_constant(text: str) -> Any:
    message = f"`{text}` is not a JSON number"
    raise ValueError(message)
