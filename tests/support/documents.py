"""The files of a run as `docs/reference/run-directory.md` lists them, and their schemas.

The page is the only list: a file that it does not name, or whose content its schema does not take,
is a fault.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator

from adw.model.schemas import schema

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "run-directory.md"
_PARTS: Final = {
    "<child>": r"[^/]+-[1-9]\d*",
    "<name>": r"[a-z][a-z0-9_]*",
    "<id>": r"[0-9a-f]{64}",
    "<seq>": r"\d{6}",
    "<n>": r"[1-9]\d*",
    "<kind>": r"[a-z_]+",
    "<file>": r"[^/]+",
    "…": r".+",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the page's table."""

    path: str
    kind: str
    schema: str | None

    def takes(self, path: str) -> bool:
        """Whether it is about this file, named relative to the run's directory."""
        parts = re.split("(<[a-z]+>|…)", self.path)
        pattern = "".join(_PARTS.get(part) or re.escape(part) for part in parts)
        return re.fullmatch(pattern, path) is not None


@cache
def rows() -> tuple[Row, ...]:
    """The table of the page."""
    found = []
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| `"):
            named = None if cells[5] == "none" else cells[5]
            found.append(Row(cells[0].strip("`"), cells[3], named))
    return tuple(found)


def files_of(run_dir: Path) -> Iterator[str]:
    """All files of a run, relative to its directory, but for those that are being written."""
    for path in sorted(run_dir.rglob("*")):
        being_written = path.name.startswith(".") and path.name.endswith(".tmp")
        if not path.is_dir() and not being_written:
            yield path.relative_to(run_dir).as_posix()


def row_of(path: str) -> Row | None:
    """The first row about a file: `requests/applied/` and such stand for themselves."""
    return next((row for row in rows() if row.takes(path)), None)


def documents(run_dir: Path) -> Iterator[tuple[str, str, Any]]:
    """Each JSON document with a schema: where it is, the schema's name, and the document."""
    for path in files_of(run_dir):
        row = row_of(path)
        if row is None or row.schema is None:
            continue
        data = (run_dir / path).read_bytes()
        if path.endswith(".jsonl"):
            for number, raw in enumerate(filter(None, data.split(b"\n")), 1):
                yield f"{path}:{number}", row.schema, json.loads(raw)
        else:
            yield path, row.schema, json.loads(data)


@cache
def validator(name: str) -> Draft202012Validator:
    """Judges by the schema that `adw schema NAME` prints."""
    return Draft202012Validator(schema(name))


def faults(run_dir: Path) -> list[str]:
    """What is wrong with the files of a run; empty: nothing."""
    found = [f"{path}: not on the page" for path in files_of(run_dir) if row_of(path) is None]
    for where, name, document in documents(run_dir):
        found += [f"{where}: {error.message}" for error in validator(name).iter_errors(document)]
    return found
