"""YAML, read event by event.

What is refused (aliases, anchors, tags, duplicate keys, depth, size) is refused where it stands,
before anything is built from it. Scalars follow the YAML 1.2 core schema: null, true, false,
decimal, 0o and 0x integers, floats; all else is a string (`on`, `no`, `12:30:45`, dates). Mapping
keys are always strings. Places are worked out by a second pass, made only once a fault has to be
told.
"""

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from adw.errors import WorkflowError
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

if TYPE_CHECKING:
    import yaml

_INTEGER: Final = re.compile(r"[-+]?[0-9]+\Z")
_BASED: Final = re.compile(r"0o[0-7]+\Z|0x[0-9a-fA-F]+\Z")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_ENDLESS: Final = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")
_WORDS: Final = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_MAYBE_NUMBER: Final = frozenset("+-.0123456789")


def parse_yaml_text(
    text: str, data: bytes, file: str, first_line: int, *, may_be_empty: bool
) -> Source:
    """Read one document; None where there is none and `may_be_empty`.

    Raises:
        WorkflowError: Not YAML, or refused; with the place.
    """

    def places() -> dict[Path, Place]:
        found: dict[Path, Place] = {}
        _YamlReader(text, file, first_line, found).document(may_be_empty=may_be_empty)
        return found

    value = _YamlReader(text, file, first_line, None).document(may_be_empty=may_be_empty)
    return Source(data, file, value, places)


class _YamlReader:
    """Builds one document from the parser's events; recursion is bounded by MAX_DEPTH."""

    def __init__(
        self, text: str, file: str, first_line: int, places: dict[Path, Place] | None
    ) -> None:
        import yaml

        parser = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
        self._yaml = yaml
        self._text = text
        self._file = file
        self._line = first_line
        self._next: Callable[[], Any] = parser(text.encode()).get_event
        self._places = places
        self._nodes = 0

    def document(self, *, may_be_empty: bool) -> Any:
        """The one document of the stream."""
        try:
            self._next()  # start of the stream
            start = self._next()
            if type(start) is self._yaml.StreamEndEvent:
                if may_be_empty:
                    return None
                raise self._refuse(start, "the file is empty")
            value = self._value(self._next(), (), None, 1)
            self._next()  # end of the document
            more = self._next()
            if type(more) is not self._yaml.StreamEndEvent:
                raise self._refuse(more, "a second document is found, one is expected")
        except self._yaml.YAMLError as error:
            raise self._syntax(error) from None
        return value

    def _value(self, event: Any, path: Path, key: Any, depth: int) -> Any:
        self._nodes += 1
        kind = type(event)
        if kind is self._yaml.AliasEvent:
            raise self._refuse(event, f"the alias `*{shown(event.anchor)}` is not allowed")
        if event.anchor is not None:
            raise self._refuse(event, f"the anchor `&{shown(event.anchor)}` is not allowed")
        if event.tag is not None:
            tag = event.tag.replace("tag:yaml.org,2002:", "!!")
            raise self._refuse(event, f"the tag `{shown(tag)}` is not allowed")
        if self._places is not None:
            self._record(event, path, key)
        if kind is self._yaml.ScalarEvent:
            return self._resolve(event) if event.implicit[0] else event.value
        if depth > MAX_DEPTH:
            raise self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        if kind is self._yaml.MappingStartEvent:
            return self._mapping(path, depth)
        return self._sequence(path, depth)

    def _mapping(self, path: Path, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        end = self._yaml.MappingEndEvent
        while type(key := self._next()) is not end:
            if type(key) is not self._yaml.ScalarEvent:
                raise self._refuse(key, "a key that is not plain text is not allowed")
            if key.anchor is not None or key.tag is not None:
                raise self._refuse(key, "an anchor or tag on a key is not allowed")
            name = key.value
            if name in found:
                raise self._refuse(key, f"the key `{shown(name)}` occurs twice")
            self._bound(key, len(found))
            inner = path if self._places is None else (*path, name)
            found[name] = self._value(self._next(), inner, key, depth + 1)
        return found

    def _sequence(self, path: Path, depth: int) -> list[Any]:
        found: list[Any] = []
        end = self._yaml.SequenceEndEvent
        while type(event := self._next()) is not end:
            self._bound(event, len(found))
            inner = path if self._places is None else (*path, len(found))
            found.append(self._value(event, inner, None, depth + 1))
        return found

    def _bound(self, event: Any, count: int) -> None:
        if count >= MAX_ENTRIES:
            raise self._refuse(event, f"more than {MAX_ENTRIES} entries in one mapping or list")
        if self._nodes > MAX_NODES:
            raise self._refuse(event, f"more than {MAX_NODES} values in one file")

    def _resolve(self, event: Any) -> Any:
        """The value of a plain scalar by the core schema."""
        text: str = event.value
        if text[:1] not in _MAYBE_NUMBER:
            return _WORDS.get(text, text)
        if _INTEGER.match(text) or _BASED.match(text):
            if len(text) > MAX_DIGITS:
                raise self._refuse(event, f"a number of {len(text)} digits is too long")
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        if _FLOAT.match(text) or _ENDLESS.match(text):
            number = float(text) if _FLOAT.match(text) else math.inf
            if not math.isfinite(number):
                raise self._refuse(event, f"`{shown(text)}` is not a finite number")
            return number
        return text

    def _record(self, event: Any, path: Path, key: Any) -> None:
        assert self._places is not None
        mark = event.start_mark
        first = key.start_mark if key is not None else mark
        plain = type(event) is self._yaml.ScalarEvent and event.implicit[0]
        self._places[path] = Place(
            mark.line + self._line,
            mark.column + 1,
            first.line + self._line,
            first.column + 1,
            event.value if plain else None,
        )

    def _refuse(self, event: Any, detail: str) -> WorkflowError:
        mark = event.start_mark
        return WorkflowError(
            file=self._file, line=mark.line + self._line, column=mark.column + 1, detail=detail
        )

    def _syntax(self, error: "yaml.YAMLError") -> WorkflowError:
        mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line, column = (mark.line, mark.column) if mark else (0, 0)
        lines = self._text.split("\n")
        problem: str = getattr(error, "problem", None) or str(error)
        if (
            "nesting depth" in problem
        ):  # the parser's own limit, met before ours while it looks ahead
            problem = f"nested deeper than {MAX_DEPTH} levels"
        tab = mark is not None and line < len(lines) and lines[line][column : column + 1] == "\t"
        return WorkflowError(
            file=self._file,
            line=line + self._line,
            column=column + 1,
            detail=f"not valid YAML: {problem}",
            reason=getattr(error, "context", None),
            fix="indent with spaces, YAML does not take tabs" if tab else None,
        )
