"""Which fault or hostile input a test shows, and how many points it tried: the catalogue's numbers.

`@pytest.mark.fault("F1", by="…")` and `@pytest.mark.hostile("H9")` name rows of the catalogue
(`tests/faults/catalogue.py`). What a test counts travels with its report, so that the process
that runs the tests sees the numbers of all its workers.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

MARKS: Final = ("fault", "hostile")
_PROPERTY: Final = "adw-counted"


class PointsWithoutEffect(AssertionError):
    """A sweep is void where the fault that it was to inject never came."""


class PointsFailed(AssertionError):
    """Some points of a sweep ended wrongly."""


@dataclass
class Counted:
    """What one test counts; `counted(…)` may be called more than once."""

    properties: list[tuple[str, object]] = field(default_factory=list)

    def __call__(
        self,
        points: int,
        fired: int,
        passed: int,
        *,
        what: str = "",
        wrong: Sequence[str] = (),
    ) -> None:
        """Tell and keep the numbers of a sweep.

        Args:
            points: Places at which a fault was to be injected.
            fired: Those at which it was.
            passed: Those after which everything held.
            what: Of what the points are, for people.
            wrong: What was wrong, one text a point.

        Raises:
            PointsWithoutEffect: `fired` is less than `points`, or there are none.
            PointsFailed: `passed` is less than `points`, or something is wrong.
        """
        print(f"{what or 'sweep'}: {points} points, {fired} fired, {passed} passed")
        self.properties.append((_PROPERTY, [points, fired, passed]))
        told = "\n\n".join([f"{len(wrong)} of {points} wrong ({what})", *wrong])
        if wrong or passed < points <= fired:
            raise PointsFailed(told)
        if fired < points or points == 0:
            raise PointsWithoutEffect(f"{fired} of {points} fired\n{told}")


_current = Counted()


def begin(counted: Counted) -> None:
    """Have `tally` count for this test."""
    global _current
    _current = counted


def tally(
    points: int, fired: int, *, what: str = "", wrong: Sequence[str] = (), passed: int | None = None
) -> None:
    """Count for the test that runs just now, from functions that several tests share.

    Args:
        points: As of `Counted`.
        fired: As of `Counted`.
        what: As of `Counted`.
        wrong: As of `Counted`.
        passed: Absent: all points but one for each text in `wrong`.
    """
    if passed is None:
        passed = max(0, points - len(wrong))
    _current(points, fired, passed, what=what, wrong=wrong)


def mark(items: Sequence[pytest.Item]) -> None:
    """Have each marked test's report carry its marks."""
    for item in items:
        for name in MARKS:
            for each in item.iter_markers(name):
                rows = {"rows": list(each.args), "by": each.kwargs.get("by", "")}
                item.user_properties.append((name, json.dumps(rows)))


class Collected:
    """What the marked tests of a session counted: written as JSON when it ends."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.tests: list[dict[str, Any]] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take in one test when its body has ended, or was skipped or broken before."""
        if report.when == "call" or (report.when == "setup" and not report.passed):
            kept = report.user_properties
            marks = [(name, json.loads(str(text))) for name, text in kept if name in MARKS]
            counts = [value for name, value in kept if name == _PROPERTY]
            for name, mark in marks:
                self.tests.append(
                    {
                        "test": report.nodeid,
                        "kind": name,
                        **mark,
                        "counts": counts or [[1, 1, int(report.passed)]],
                        "outcome": report.outcome,
                    }
                )

    def pytest_sessionfinish(self) -> None:
        """Write what was collected."""
        with open(self.path, "w", encoding="utf-8") as file:
            json.dump(self.tests, file, indent=1)
