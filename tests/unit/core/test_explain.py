"""Why: each state in plain words."""

import pytest

from adw.core.decide import Fold, decide
from adw.core.explain import why
from adw.core.graph import Graph, Output, Phase, Retry
from tests.unit.core.histories import (
    always,
    ga,
    graph,
    history,
    live,
    lt,
    never,
    sd,
    wh,
)  # fmt: skip
from tests.unit.core.test_decide_random import tape_of
from tests.unit.core.worlds import run_random


def lines(
    shape: Graph, past: str, phase: str, *, running: str = "", now: float = 0.0, when: bool = True
) -> list[str]:
    fold = Fold.of(shape, history(past))
    found = decide(shape, fold, live(running), now, always if when else never)
    return why(shape, fold, found, phase)


AT = "1970-01-01T00:00:00Z"
RED = "plan ok, build ok, test exit"
TWO_FIXES = f"{RED}, fix ok>test, test exit, fix ok>test, test exit"


def test_pending_names_the_need_and_what_is_behind_it() -> None:
    assert lines(sd(), TWO_FIXES, "review") == ["it needs `test`, which is failed (rounds)"]
    assert lines(sd(), TWO_FIXES, "commit") == [
        "it needs `review`, which is pending",
        "behind that: `test` is failed (rounds)",
    ]


def test_what_a_phase_owes_is_told_where_it_did_not_bring_it() -> None:
    owes = Output("report", "out/*.json", root="artifacts")
    shape = graph(Phase("test", retry=Retry(3), outputs=(Output("plan", "specs/*.md"), owes)))
    owed = "it owes `plan` (worktree: specs/*.md), `report` (artifacts: out/*.json)"

    assert lines(shape, "test missing_output", "test")[-2:] == ["tries: 1 of 3 used", owed][::-1]
    assert owed in lines(shape, "test missing_output, test contract", "test")
    assert owed not in lines(shape, "test exit", "test")
    assert owed not in lines(shape, "test missing_output, test ok", "test")


def test_pending_tells_a_stale_result() -> None:
    past = "plan ok, build ok, test ok, review ok, build invalidated"
    assert lines(sd(), past, "review")[-1] == (
        "its last result is stale: something that it needs is to run again"
    )


def test_pending_under_what_runs() -> None:
    past = "plan ok, build ok, test ok, build invalidated"
    assert lines(sd(), past, "build", running="review")[0] == (
        "it starts again once what works on its old result has ended"
    )


def test_ready() -> None:
    assert lines(sd(), "", "plan") == ["all that it needs is settled: it starts next"]
    assert lines(lt(1), "build ok", "docs") == [
        "it may start; 1 at a time is the limit (`max_parallel`)"
    ]
    assert lines(wh(), "a ok", "b", when=False) == [
        "its `when` is false, so it is skipped: issue_class == 'bug'"
    ]
    assert lines(lt(), "build ok, test cancelled", "docs")[0] == (
        "the run is cancelled: nothing starts before a resume"
    )


def test_ready_again_lists_what_used_up_nothing() -> None:
    assert lines(sd(), "plan interrupted, plan lost", "plan")[1:] == [
        f"attempt 1: interrupted at {AT}, which uses up nothing",
        f"attempt 2: lost at {AT}, which uses up nothing",
    ]


def test_running() -> None:
    assert lines(sd(), "", "plan", running="plan") == ["an attempt of it is running"]


def test_wait_says_until_when_and_why() -> None:
    assert lines(sd(), "plan rate_limited@900", "plan")[0] == (
        "it was rate limited and waits until 1970-01-01T00:15:00Z; no attempt is used up"
    )
    past = "plan ok, build ok, test timeout@100"
    assert lines(sd(), past, "test", now=101) == [
        "it failed (timeout) and is tried again at 1970-01-01T00:01:45Z",
        "attempt 1: timeout at 1970-01-01T00:01:40Z",
        "tries: 1 of 2 used",
        "repair rounds: 0 of 2 used",
    ]


def test_repairing_says_by_whom_and_in_which_round() -> None:
    assert lines(sd(), RED, "test")[:2] == [
        "it failed and `fix` repairs it: round 1 of 2",
        "a successful repair leads back to `test`",
    ]
    past = "build ok, lint exit, test exit"
    assert "`fix` works for `lint` at the moment" in lines(lt(), past, "test", running="fix>lint")
    past = f"{RED}, fix rate_limited>test@900"
    assert "`fix` waits until 1970-01-01T00:15:00Z" in lines(sd(), past, "test", now=1)


def test_done_skipped_excused() -> None:
    assert lines(sd(), "plan lost, plan ok", "plan")[0] == (
        "it succeeded in attempt 2, and nothing that it needs has run again since"
    )
    assert lines(ga(), "build ok, test ok, gate ok", "gate")[0].startswith("it succeeded in")
    assert lines(wh(), "a ok, b skipped", "b") == ["its `when` was false: issue_class == 'bug'"]
    assert lines(lt(), "build ok, docs exit, docs exit", "docs") == [
        "it failed for good (exit): no try and no repair is left",
        "it has `allow_failure`, so the run goes on without it",
        f"attempt 1: exit at {AT}",
        f"attempt 2: exit at {AT}",
        "tries: 2 of 2 used",
    ]


def test_failed_says_why_and_what_a_resume_does() -> None:
    assert lines(sd(), TWO_FIXES, "test") == [
        "it still fails after 2 repairs by `fix`, the limit",
        "a resume starts `test` again with fresh counts and keeps what is settled",
        f"attempt 3: exit at {AT}",
        "tries: 1 of 2 used",
        "repair rounds: 2 of 2 used",
    ]
    assert lines(sd(), f"{RED}, fix exit>test", "test")[:2] == [
        "its repair phase `fix` failed (exit)",
        "a resume starts `fix` again with fresh counts and keeps what is settled",
    ]
    assert lines(sd(), "plan spawn_failed", "plan")[:2] == [
        "it failed for good: the program could not be started",
        "such a failure is neither retried nor repaired",
    ]
    shape = graph(Phase("a"), Phase("b"))
    assert lines(shape, "a exit", "a")[1] == (
        "other phases go on first; then a resume can start it again"
    )


def test_held_says_what_a_person_is_to_do() -> None:
    assert lines(ga(), "build ok, test ok", "gate") == ["a person is needed: approve or reject it"]
    assert lines(sd(), "plan budget", "plan")[:2] == [
        "a person is needed: a budget is used up",
        "a resume starts `plan` again with fresh counts and keeps what is settled",
    ]
    assert lines(sd(), f"{RED}, fix blocked>test", "test")[0] == (
        "its repair phase `fix` is held: the attempt said that it needs a person"
    )


def test_a_repair_phase_is_explained_through_its_owners() -> None:
    past = "build ok, lint exit, test exit, fix exit>lint"
    assert lines(lt(), past, "fix", running="fix>test") == [
        "it is a repair phase: it runs only when it is called, by `lint`, `test`",
        "it is running for `test`",
        "`lint` failed because it failed",
        "rounds for `lint`: 0 of 2 used",
        f"for `lint`, attempt 1: exit at {AT}",
        "`test` calls it",
        "rounds for `test`: 0 of 2 used",
    ]


def test_long_pasts_are_cut() -> None:
    past = ", ".join(["plan interrupted"] * 20)
    found = lines(sd(), past, "plan")
    assert found[1] == "12 earlier attempts not shown"
    assert len(found) == 10


@pytest.mark.parametrize("block", range(2))
def test_every_phase_of_any_run_can_be_explained(block: int) -> None:
    for seed in range(block * 20, block * 20 + 20):
        world = run_random(tape_of(seed), length=15)
        found = world.decide()
        for name in world.graph.phases:
            assert all(why(world.graph, world.fold, found, name))
