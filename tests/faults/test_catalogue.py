"""Every row of the catalogue is shown by a marked test, or says why it is not yet."""

import re
from pathlib import Path

from tests.faults import catalogue
from tests.faults.not_yet import NOT_YET
from tests.faults.rows import FAULTS, HOSTILE

TESTS = Path(__file__).parents[1]


def marked() -> set[str]:
    """Rows that any test names in a mark."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        text = path.read_text("utf-8")
        if re.search(r"mark\.(fault|hostile)\(", text):
            found.update(re.findall(r'"([FH]\d+)"', text))
    return found


def test_every_row_is_shown_or_says_why_not() -> None:
    rows = {*FAULTS, *HOSTILE}
    assert rows - marked() - set(NOT_YET) == set()
    assert marked() | set(NOT_YET) <= rows


def test_the_pages_have_a_line_for_every_row() -> None:
    for kind, page in catalogue.PAGES.items():
        found = re.findall(r"^\| ([FH]\d+) \|", page.read_text("utf-8"), re.MULTILINE)
        assert found == list(catalogue.TITLES[kind])


def test_a_row_that_failed_or_was_not_shown_is_told() -> None:
    good = {"kind": "fault", "rows": list(FAULTS), "by": "x", "test": "t::a", "outcome": "passed"}
    tests = [
        {**good, "counts": [[3, 3, 3]]},
        {**good, "rows": ["F1"], "counts": [[2, 1, 1]]},
        {**good, "rows": ["F2"], "counts": [[1, 1, 1]], "outcome": "failed"},
    ]
    told = catalogue.faults_in(tests)
    assert told[:2] == [
        "F1: 5 points, 4 fired, 4 passed",
        "F2: 4 points, 4 fired, 3 passed",
    ]
    assert all("no test shows it" in line for line in told[2:])
    assert len(told) == 2 + len(set(HOSTILE) - set(NOT_YET))
