"""The tables of faults and hostile inputs; `python -m tests.faults.catalogue` makes them anew.

It runs every test that is marked `fault` or `hostile` and writes what they counted into
docs/explanation/crash-model.md and docs/explanation/hostile-inputs.md. With `--from FILE …` it
takes what earlier runs of pytest wrote with `--counted FILE`; with `--check` it writes nothing and
fails where a row was not shown, where a point did not fire, or where a test was red.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.faults.not_yet import NOT_YET
from tests.faults.rows import FAULTS, HOSTILE

ROOT: Final = Path(__file__).parents[2]
PAGES: Final = {
    "fault": ROOT / "docs" / "explanation" / "crash-model.md",
    "hostile": ROOT / "docs" / "explanation" / "hostile-inputs.md",
}
TITLES: Final = {"fault": FAULTS, "hostile": HOSTILE}
_BEGIN: Final = "<!-- made by python -m tests.faults.catalogue -->"
_END: Final = "<!-- end -->"


@dataclass
class Row:
    """What all tests of one row did."""

    ways: list[str] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    tests: int = 0
    points: int = 0
    fired: int = 0
    passed: int = 0

    def add(self, test: Mapping[str, Any]) -> None:
        """Count one test."""
        if test["by"] and test["by"] not in self.ways:
            self.ways.append(test["by"])
        self.files.add(test["test"].partition("::")[0])
        self.tests += 1
        for points, fired, passed in test["counts"]:
            self.points += points
            self.fired += fired
            self.passed += passed if test["outcome"] == "passed" else 0

    @property
    def whole(self) -> bool:
        """Whether every point fired and passed."""
        return 0 < self.points == self.fired == self.passed


def rows_of(tests: Iterable[Mapping[str, Any]], kind: str) -> dict[str, Row]:
    """Sum up the tests of a kind, row by row, in the catalogue's order."""
    rows = {name: Row() for name in TITLES[kind]}
    for test in tests:
        if test["kind"] == kind:
            for name in test["rows"]:
                rows[name].add(test)
    return rows


def table(rows: Mapping[str, Row], kind: str) -> str:
    """Write the table in Markdown."""
    what, head = ("Fault", "Injected by") if kind == "fault" else ("Input", "Tests")
    out = [
        f"| # | {what} | {head} | Tests | Points | Fired | Passed | Result |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, row in rows.items():
        how = "; ".join(row.ways) if kind == "fault" else ", ".join(map(_short, sorted(row.files)))
        numbers = f"{row.tests} | {row.points:,} | {row.fired:,} | {row.passed:,}"
        out.append(f"| {name} | {TITLES[kind][name]} | {how} | {numbers} | {_result(name, row)} |")
    return "\n".join(out)


def _short(path: str) -> str:
    return f"`{path.removeprefix('tests/')}`"


def _result(name: str, row: Row) -> str:
    if row.whole:
        return "holds"
    return NOT_YET.get(name, "not shown") if row.points == 0 else "FAILED"


def faults_in(tests: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is missing or red, one line each."""
    found = []
    for kind in PAGES:
        for name, row in rows_of(tests, kind).items():
            if row.points == 0 and name not in NOT_YET:
                found.append(f"{name}: no test shows it")
            elif row.points and not row.whole:
                found.append(f"{name}: {row.points} points, {row.fired} fired, {row.passed} passed")
    return found


def write(tests: Sequence[Mapping[str, Any]]) -> None:
    """Put the tables into their pages."""
    for kind, page in PAGES.items():
        text = page.read_text("utf-8")
        before, _, rest = text.partition(_BEGIN)
        after = rest.partition(_END)[2]
        made = table(rows_of(tests, kind), kind)
        page.write_text(f"{before}{_BEGIN}\n\n{made}\n\n{_END}{after}", "utf-8")


def run() -> list[dict[str, Any]]:
    """Run all marked tests; what they counted."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "counted.json"
        words = ["-m", "fault or hostile", "--timeout", "1100", "--counted", str(path)]
        subprocess.run([sys.executable, "-m", "pytest", "-q", *words], cwd=ROOT, check=False)
        return load([path])


def load(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """What pytest wrote with `--counted`; a test that is in several files counts once."""
    found = {}
    for path in paths:
        for test in json.loads(path.read_text("utf-8")):
            found[test["test"], test["kind"], test["by"], *test["rows"]] = test
    return list(found.values())


def main() -> int:
    """Answer the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--from", dest="files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--check", action="store_true", help="write nothing")
    given = parser.parse_args()
    tests = load(given.files) if given.files else run()
    if not given.check:
        write(tests)
    wrong = faults_in(tests)
    points, fired, passed = (
        sum(count[n] for test in tests if test["kind"] == "fault" for count in test["counts"])
        for n in range(3)
    )
    print(f"faults: {points:,} points, {fired:,} fired, {passed:,} passed")
    print("\n".join(wrong) or "every row is shown, or says why not")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
