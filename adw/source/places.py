"""Values with the place of each, for error messages, and the limits that all files keep."""

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from adw.errors import WorkflowError

MAX_BYTES: Final = 8 << 20
MAX_DEPTH: Final = 64
MAX_ENTRIES: Final = 10_000  # of one mapping or list; a run's history could not hold more
MAX_NODES: Final = 500_000
MAX_DIGITS: Final = 40

Path = tuple[str | int, ...]

_KINDS: Final = {
    dict: "a mapping", list: "a list", str: "a string", bool: "a boolean", int: "a number",
    float: "a number", type(None): "nothing",
}  # fmt: skip


class Place(NamedTuple):
    """Where a value stands; lines and columns count from 1."""

    line: int
    column: int
    key_line: int
    key_column: int
    raw: str | None = None
    """The text of an unquoted scalar, as it was written."""


class Source:
    """A parsed file that can tell where each of its values stands."""

    def __init__(
        self, data: bytes, file: str, value: Any, places: Callable[[], dict[Path, Place]]
    ) -> None:
        self.data = data
        self.file = file
        self.value = value
        self._find = places
        self._places: dict[Path, Place] | None = None

    def place(self, path: Sequence[str | int]) -> Place:
        """The place of the value at `path`, or of the nearest thing around it that exists."""
        if self._places is None:
            self._places = self._find()
        at = tuple(path)
        while at and at not in self._places:
            at = at[:-1]
        return self._places.get(at) or Place(1, 1, 1, 1)

    def fault(
        self, path: Sequence[str | int], detail: str, *, key: bool = False, **more: str | None
    ) -> WorkflowError:
        """An error at the value at `path`, or with `key` at its key.

        Args:
            path: Keys and indices from the root.
            detail: The message.
            key: Point at the key in place of the value.
            more: `reason` and `fix` of the error.
        """
        place = self.place(path)
        line, column = (place.key_line, place.key_column) if key else (place.line, place.column)
        return WorkflowError(file=self.file, line=line, column=column, detail=detail, **more)


def shown(value: object, limit: int = 60) -> str:
    """A value as an error message shows it: escaped and shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = value if isinstance(value, str) else repr(value)
    escaped = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text[: limit + 1])
    return escaped if len(escaped) <= limit else escaped[: limit - 1] + "…"


def kind_of(value: object) -> str:
    """What a value is, in words of the file's language."""
    return _KINDS[type(value)]
