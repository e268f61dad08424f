"""The worked table of the rule, row by row."""

import pytest

from adw.core.decide import Fold, resume_marks
from adw.core.graph import Graph
from tests.support.oracle import Oracle
from tests.unit.core.histories import (
    always,
    decided,
    ga,
    history,
    live,
    lp,
    lt,
    never,
    sd,
    starts,
    w2,
    wh,
)  # fmt: skip

RED_TEST = "plan ok, build ok, test exit, fix ok>test, test exit, fix ok>test, test exit"
GREEN_AT_LAST = "plan ok, build ok, test exit, fix ok>test, test exit, fix ok>test, test ok"
LOOPS = (
    "build ok, lint exit, fmt ok>lint, build ok, lint ok, test exit, fix ok>test, build ok,"
    " lint exit, fmt ok>lint, build ok, lint ok, test exit, fix ok>test, build ok, lint exit"
)
ROWS: dict[str, tuple[Graph, str, dict[str, object]]] = {
    "01-repair-phases-are-no-roots": (sd(), "", {"starts": "plan"}),
    "02-a-repair-gives-fresh-attempts": (
        sd(),
        "plan ok, build ok, test timeout@100, test timeout@110, fix ok>test, test timeout@120",
        {"now": 121, "wake_at": 125},
    ),
    "03-two-fixes-three-tests": (sd(), RED_TEST, {"closing": "failed", "marks": "test"}),
    "04-a-mark-gives-fresh-rounds": (
        sd(),
        RED_TEST + ", test invalidated",
        {"starts": "test"},
    ),
    "05-a-failed-repair-is-what-a-resume-marks": (
        sd(),
        "plan ok, build ok, test exit/a, fix ok>test, test exit/b, fix exit>test",
        {"closing": "failed", "marks": "fix"},
    ),
    "06-free-entries-burn-no-attempt": (
        sd(),
        "plan ok, build ok, test lost, test interrupted, test rate_limited@900",
        {"now": 100, "wake_at": 900},
    ),
    "07-lost-three-times-in-a-row": (
        sd(),
        "plan ok, build ok, test lost, test lost, test lost",
        {"closing": "failed", "marks": "test"},
    ),
    "08-patch-leads-back-to-test": (
        sd(),
        "plan ok, build ok, test exit, fix ok>test, test ok, review exit, patch ok>review",
        {"starts": "test"},
    ),
    "09-an-outer-round-restarts-the-inner-count": (
        sd(),
        (
            "plan ok, build ok, test exit, fix ok>test, test exit, fix ok>test, test ok, review exit,"
            " patch ok>review, test exit"
        ),
        {"starts": "fix>test"},
    ),
    "10-a-rerun-upstream-makes-all-downstream-stale": (
        sd(),
        "plan ok, build ok, test ok, review ok, commit exit, build invalidated",
        {"starts": "build"},
    ),
    "11-what-works-on-the-old-result-ends-first": (
        sd(),
        "plan ok, build ok, test ok, build invalidated",
        {"running": "review", "starts": ""},
    ),
    "12-a-failure-does-not-stop-other-branches": (
        lt(),
        "build ok, lint exit, test ok, docs exit",
        {"starts": "fix>lint docs"},
    ),
    "13-a-sibling-keeps-its-result-over-a-repair": (
        lt(),
        "build ok, lint exit, test ok, docs exit, docs exit, fix ok>lint, lint ok",
        {"starts": "ship"},
    ),
    "14-its-own-success-does-not-restart-rounds": (lp(), LOOPS, {"starts": "test"}),
    "15-verified-again-before-the-gate-is-asked": (
        ga(),
        "build ok, test ok, gate rejected, rework ok>gate, build ok",
        {"starts": "test"},
    ),
    "16-an-approval-is-for-one-build": (
        ga(),
        "build ok, test ok, gate ok, build invalidated, build ok, test ok",
        {"closing": "held", "marks": ""},
    ),
    "17-a-false-when-is-recorded": (wh(), "a ok", {"holds": never, "skips": "b"}),
    "18-the-verdict-is-asked-again": (
        wh(),
        "a ok, b skipped, c ok, a invalidated, a ok",
        {"starts": "b"},
    ),
    "19-results-are-kept-by-name": (
        w2(),
        "plan ok, build ok, test ok, review ok",
        {"starts": "prepare"},
    ),
    "20-nothing-starts-after-a-cancel": (
        sd(),
        "plan ok, build ok, test cancelled",
        {"closing": "cancelled", "marks": "test"},
    ),
}


@pytest.mark.parametrize("row", ROWS)
def test_worked_table(row: str) -> None:
    graph, past, want = ROWS[row]
    now = float(str(want.get("now", 0)))
    holds = never if want.get("holds") is never else always
    running = str(want.get("running", ""))

    found = decided(graph, past, running=running, now=now, holds=holds)

    assert " ".join(starts(found)) == want.get("starts", "")
    assert " ".join(found.skips) == want.get("skips", "")
    assert found.wake_at == want.get("wake_at")
    assert found.closing == want.get("closing")
    if "marks" in want:
        marks = resume_marks(graph, Fold.of(graph, history(past)), now, holds)
        assert " ".join(marks) == want["marks"]


@pytest.mark.parametrize("row", ROWS)
def test_the_oracle_agrees_with_the_table(row: str) -> None:
    graph, past, want = ROWS[row]
    now = float(str(want.get("now", 0)))
    holds = never if want.get("holds") is never else always

    found = Oracle(graph, history(past), live(str(want.get("running", ""))), now, holds).decide()

    assert " ".join(p + (f">{o}" if o else "") for p, _, o in found.starts) == want.get(
        "starts", ""
    )
    assert " ".join(found.skips) == want.get("skips", "")
    assert found.wake_at == want.get("wake_at")
    assert found.closing == want.get("closing")
