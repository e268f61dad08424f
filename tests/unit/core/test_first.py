"""The phase that prepares the worktree: all wait for it, and nothing is stale because of it."""

import random
from collections.abc import Sequence

import pytest

from adw.core.compile import compile_graph
from adw.core.cut import cut, only
from adw.core.decide import Decision, Fold, decide, from_marks, only_marks
from adw.core.first import SETUP, after_setup
from adw.core.graph import Graph, Phase, Repair, from_json, to_json
from tests.unit.core.histories import Entry
from tests.unit.core.test_decide_random import tape_of
from tests.unit.core.worlds import run_random

PHASES = (
    Phase("plan"),
    Phase("look", writes=False),
    Phase("build", needs=("plan",)),
    Phase("test", needs=("build",), repair=Repair("fix", 2)),
    Phase("fix"),
)
LIMITS = {"timeout_s": 60.0, "memory_bytes": 1 << 30, "log_bytes": 1 << 20}


def graph() -> Graph:
    return compile_graph("w", after_setup(PHASES, "npm ci", LIMITS), 4, SETUP)


def entry(
    phase: str, attempt: int = 1, *, success: bool = True, reason: str | None = None
) -> Entry:
    return Entry(phase, attempt, success, reason)


def decided(graph: Graph, history: Sequence[Entry]) -> Decision:
    return decide(graph, Fold.of(graph, history), (), 0.0, lambda _p, _e: True)


def starts(graph: Graph, *history: Entry) -> list[str]:
    return [start.phase for start in decided(graph, history).starts]


def test_it_is_the_first_and_what_needed_nothing_needs_it() -> None:
    found = graph()

    assert found.order[0] == found.first == SETUP
    assert {name: phase.needs for name, phase in found.phases.items()} == {
        "setup": (),
        "plan": ("setup",),
        "look": ("setup",),
        "build": ("plan",),
        "test": ("build",),
        "fix": (),
    }
    first = found.phases[SETUP]
    assert (first.argv, first.writes) == (("sh", "-euc", "npm ci"), True)
    assert {name: getattr(first, name) for name in LIMITS} == LIMITS


def test_it_runs_alone_before_all_others() -> None:
    assert starts(graph()) == ["setup"]
    assert starts(graph(), entry("setup")) == ["plan", "look"]
    assert starts(graph(), entry("setup", success=False, reason="exit")) == []


def test_that_it_ran_again_makes_nothing_stale() -> None:
    done = [entry(name) for name in ("setup", "plan", "look", "build")]
    again = [entry("setup", 0, success=False, reason="invalidated")]

    assert starts(graph(), *done, *again) == ["setup"]
    assert starts(graph(), *done, *again, entry("setup", 2)) == ["test"]


def test_a_start_from_it_is_a_start_from_the_beginning() -> None:
    found = graph()
    history = [entry(name) for name in ("setup", "plan", "look", "build", "test")]

    marks = from_marks(found, Fold.of(found, history), SETUP)

    assert marks == ["setup", "plan", "look"]
    assert starts(
        found, *history, *(entry(m, 0, success=False, reason="invalidated") for m in marks)
    ) == ["setup"]


def test_one_phase_alone_has_it_before_and_only_that_phase_is_started_again() -> None:
    alone = only(graph(), "build")
    history = [entry("setup"), entry("build")]

    assert (alone.order, alone.phases["build"].needs) == (("setup", "build"), ("setup",))
    assert starts(alone) == ["setup"]
    assert only_marks(alone, Fold.of(alone, history), 0.0, lambda _p, _e: True) == ["build"]
    assert only(graph(), SETUP).order == ("setup",)


def test_it_is_kept_by_a_pin_and_by_a_cut() -> None:
    found = graph()

    assert from_json(to_json(found)) == found
    assert cut(found, {"until": "plan"}).order == ("setup", "plan")
    assert cut(found, {"until": "plan"}).first == SETUP


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happened_the_others_are_decided_as_without_it(seed: int) -> None:
    """A history with successes of `setup` strewn in decides as the same one without."""
    world = run_random(tape_of(seed))
    plain = world.graph
    phases = after_setup(list(plain.phases.values()), "npm ci", {})
    found = compile_graph("w", phases, plain.max_parallel, SETUP)
    random_ = random.Random(seed)
    strewn = [entry("setup")]
    for each in world.history:
        strewn.append(each)
        if random_.random() < 0.3:
            strewn.append(entry("setup", sum(e.phase == "setup" for e in strewn) + 1))

    expected = decide(plain, Fold.of(plain, world.history), world.running, world.now, world.holds)
    got = decide(found, Fold.of(found, strewn), world.running, world.now, world.holds)

    assert (got.starts, got.skips, got.wake_at) == (
        expected.starts, expected.skips, expected.wake_at,
    )  # fmt: skip
    assert got.closing == expected.closing
    # The detail of a view that is done is a position.
    states = {name: (view.state, view.repair) for name, view in got.phases.items()}
    del states[SETUP]
    assert states == {name: (view.state, view.repair) for name, view in expected.phases.items()}
