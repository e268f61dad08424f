"""JSON: read by the standard library, gone over again only where a place must be told."""

import bisect
import json
import math
import re
from typing import Any, Final

from adw.errors import WorkflowError
from adw.model.base import parse_json
from adw.source.places import (
    MAX_DEPTH,
    MAX_DIGITS,
    MAX_ENTRIES,
    MAX_NODES,
    Path,
    Place,
    Source,
    shown,
)

_INTEGER: Final = re.compile(r"-?[0-9]+\Z")
_NUMBER: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?\Z")
_TOKEN: Final = re.compile(r'[\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"]+')


def parse_json_text(text: str, data: bytes, file: str, *, strict: bool) -> Source:
    """Read a whole text.

    Args:
        text: The decoded file.
        data: Its bytes, kept in the result.
        file: Its name, for messages.
        strict: Tell what is not JSON as a fault of the file, with its place.

    Raises:
        WorkflowError: Refused; with the place.
        json.JSONDecodeError: Not JSON, and not `strict`.
    """
    try:
        value = parse_json(text.encode())
        ok = _fits(value)
    except json.JSONDecodeError as error:
        if not strict:
            raise
        detail = f"not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}"
        raise WorkflowError(
            file=file, line=error.lineno, column=error.colno, detail=detail
        ) from None
    except ValueError:
        value, ok = None, False
    if not ok:
        _JsonReader(text, file, record=False).places()  # finds the same fault and its place
        raise WorkflowError(file=file, line=1, column=1, detail="not valid JSON")
    return Source(data, file, value, lambda: _JsonReader(text, file, record=True).places())


def _fits(value: Any) -> bool:
    """Whether a parsed value keeps the limits that YAML keeps while reading."""
    level, depth, nodes = [value], 0, 0
    while level:
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if len(item) > MAX_ENTRIES or not all(_encodes(key) for key in item):
                    return False
                below.extend(item.values())
            elif isinstance(item, list):
                if len(item) > MAX_ENTRIES:
                    return False
                below.extend(item)
            elif not _scalar_fits(item):
                return False
        nodes += len(level)
        depth += 1
        level = below
    return depth <= MAX_DEPTH + 1 and nodes <= MAX_NODES


def _scalar_fits(item: Any) -> bool:
    if isinstance(item, str):
        return _encodes(item)
    if isinstance(item, float):
        return math.isfinite(item)
    return not isinstance(item, int) or abs(item) < 10**MAX_DIGITS


def _encodes(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class _JsonReader:
    """Goes over text that is JSON but for what `parse_json` and `_fits` refuse."""

    def __init__(self, text: str, file: str, *, record: bool) -> None:
        self._record = record
        self._nodes = 0
        self._text = text
        self._file = file
        self._tokens = _TOKEN.finditer(text)
        self._places: dict[Path, Place] = {}
        self._starts = [0, *(m.end() for m in re.finditer("\n", text))]

    def places(self) -> dict[Path, Place]:
        """The place of each value.

        Raises:
            WorkflowError: The first thing that is refused.
        """
        self._value(self._take(), (), None, 1)
        return self._places

    def _take(self) -> re.Match[str]:
        return next(self._tokens)

    def _value(
        self, token: re.Match[str], path: Path, key: re.Match[str] | None, depth: int
    ) -> None:
        self._nodes += 1
        text = token.group()
        if self._record:
            here = self._where(token)
            raw = None if text[0] in '"[{' else text
            self._places[path] = Place(*here, *(self._where(key) if key else here), raw)
        if text in {"[", "{"}:
            if depth > MAX_DEPTH:
                raise self._refuse(token, f"nested deeper than {MAX_DEPTH} levels")
            self._inside(text == "{", path, depth)
        elif text[0] == '"':
            self._string(token)
        elif text not in {"true", "false", "null"}:
            self._number(token)
        if self._nodes > MAX_NODES:
            raise self._refuse(token, f"more than {MAX_NODES} values in one file")

    def _inside(self, mapping: bool, path: Path, depth: int) -> None:  # noqa: FBT001
        count, seen = 0, set[str]()
        while (token := self._take()).group() not in {"]", "}"}:
            if token.group() == ",":
                continue
            if count >= MAX_ENTRIES:
                raise self._refuse(token, f"more than {MAX_ENTRIES} entries in one mapping or list")
            if mapping:
                name = self._string(token)
                if name in seen:
                    raise self._refuse(token, f"the key `{shown(name)}` occurs twice")
                seen.add(name)
                self._take()  # the colon
                inner = (*path, name) if self._record else path
                self._value(self._take(), inner, token, depth + 1)
            else:
                self._value(token, (*path, count), None, depth + 1)
            count += 1

    def _string(self, token: re.Match[str]) -> str:
        text: str = json.loads(token.group(), strict=False)
        if not _encodes(text):
            raise self._refuse(token, "half of a surrogate pair is found")
        return text

    def _number(self, token: re.Match[str]) -> None:
        text = token.group()
        if _INTEGER.match(text):
            if len(text) > MAX_DIGITS:
                raise self._refuse(token, f"a number of {len(text)} digits is too long")
        elif not _NUMBER.match(text) or not math.isfinite(float(text)):
            raise self._refuse(token, f"`{shown(text)}` is not a finite number")

    def _where(self, token: re.Match[str]) -> tuple[int, int]:
        line = bisect.bisect_right(self._starts, token.start())
        return line, token.start() - self._starts[line - 1] + 1

    def _refuse(self, token: re.Match[str], detail: str) -> WorkflowError:
        line, column = self._where(token)
        return WorkflowError(file=self._file, line=line, column=column, detail=detail)
