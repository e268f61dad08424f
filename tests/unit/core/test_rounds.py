"""A round ends when there is something new to act on, and not when something went wrong."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.core.compile import compile_graph
from adw.core.graph import Phase, Repair
from adw.core.rounds import round_of
from tests.unit.core.histories import Entry, history

GRAPH = compile_graph(
    "w",
    [
        Phase("plan"),
        Phase("build", needs=("plan",)),
        Phase("lint", needs=("plan",)),
        Phase("test", needs=("build",), repair=Repair("fix", 3)),
        Phase("review", needs=("test",), repair=Repair("fix", 3, "test")),
        Phase("comment", needs=("review",)),
        Phase("fix"),
    ],
    2,
)


def of(text: str, phase: str = "comment", repairs: str | None = None) -> int:
    """The round of what starts after a history."""
    return round_of(GRAPH, history(text) if text else [], phase, repairs)


DONE = "plan ok, build ok, test ok, review ok"


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        ("", 1),
        (DONE, 1),
        (f"{DONE}, comment exit", 1),
        (f"{DONE}, comment lost, comment interrupted", 1),
        (f"{DONE}, comment exit, comment invalidated", 1),
        (f"{DONE}, comment spawn_failed", 1),
        (f"{DONE}, comment ok", 1),
        # A person's `--from comment`, and what is beside or below, change nothing.
        (f"{DONE}, comment ok, comment invalidated", 1),
        (f"{DONE}, comment exit, lint ok", 1),
        # Failures and skips of what it needs are no new result.
        (f"{DONE}, comment exit, review exit, test skipped", 1),
        (f"{DONE}, comment ok, review exit, review ok", 2),
        (f"{DONE}, comment ok, plan ok", 2),
        (f"{DONE}, comment ok, plan ok, build ok, test ok, review ok", 2),
        (f"{DONE}, comment ok, review ok, comment lost", 2),
        (f"{DONE}, comment ok, review ok, comment lost, comment exit, test ok", 3),
        # A repair, for what it needs or for another repair's owner.
        (f"{DONE}, comment ok, review exit, fix ok>review", 2),
        (f"{DONE}, comment ok, review exit, fix exit>review", 1),
        (f"{DONE}, comment ok, fix ok", 1),
    ],
)
def test_a_new_result_above_begins_a_round_and_nothing_else(before: str, expected: int) -> None:
    assert of(before) == expected


@pytest.mark.parametrize(
    ("before", "owner", "expected"),
    [
        ("plan ok, build ok, test exit", "test", 1),
        ("plan ok, build ok, test exit, fix exit>test", "test", 1),
        ("plan ok, build ok, test exit, fix lost>test, fix exit>test", "test", 1),
        ("plan ok, build ok, test exit, fix ok>test, test exit", "test", 2),
        ("test exit, fix lost>test, test invalidated", "test", 1),
        # Two owners share a repair phase: never a number between them.
        ("test exit, review exit, fix lost>test", "review", 2),
        ("test exit, review exit, fix lost>test, fix lost>review", "test", 1),
        ("test exit, review exit, fix lost>test, fix lost>review", "review", 2),
        ("test exit, review exit, fix ok>test, fix ok>review, test exit", "test", 3),
        ("test exit, fix exit", "test", 2),
    ],
)
def test_a_repair_phase_has_a_round_for_each_call(before: str, owner: str, expected: int) -> None:
    assert of(before, "fix", owner) == expected


def test_a_repair_of_the_phase_itself_begins_a_round_of_it() -> None:
    assert of("plan ok, build ok, test exit", "test") == 1
    assert of("plan ok, build ok, test exit, fix ok>test", "test") == 2


def test_a_repair_phase_that_a_person_names_alone_stays_in_its_round() -> None:
    assert of("fix exit, test ok, fix exit", "fix") == 1


NAMES = ["plan", "build", "test", "review", "comment", "lint", "other"]
ENTRIES = st.builds(
    Entry,
    phase=st.sampled_from(NAMES),
    attempt=st.integers(0, 3),
    success=st.booleans(),
    reason=st.none(),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, max_size=30))
def test_rounds_only_grow_and_are_no_more_than_the_attempts(entries: list[Entry]) -> None:
    rounds = [round_of(GRAPH, entries[:n], "comment") for n in range(len(entries) + 1)]
    tried = [
        sum(e.phase == "comment" and e.attempt > 0 for e in entries[:n]) for n in range(len(rounds))
    ]

    assert rounds[0] == 1
    assert all(0 <= b - a <= 1 for a, b in pairwise(rounds))
    assert all(found <= count + 1 for found, count in zip(rounds, tried, strict=True))
