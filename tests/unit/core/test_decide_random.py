"""Random runs against the oracle, with everything that persons and crashes do to a run."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.core.cut import affected_by
from adw.core.decide import Fold, decide
from adw.core.graph import Graph
from tests.unit.core.histories import Entry
from tests.unit.core.worlds import Tape, World, random_graph, run_random

TAPES = st.binary(max_size=250)


def tape_of(seed: int) -> bytes:
    return random.Random(seed).randbytes(250)


def check_run(data: bytes) -> None:
    """After any past, one resume and then successes end it; then `--from` runs exactly its part."""
    world = run_random(data)
    world.finish()
    done = len(world.history)
    phase = world.graph.order[world.tape.pick(len(world.graph.order))]
    world.again_from(phase)
    world.finish()
    again = [e.phase for e in world.history[done:] if e.reason != "invalidated"]
    assert sorted(again) == sorted(affected_by(world.graph, phase) & set(world.graph.order))


@settings(max_examples=150, deadline=None)
@given(TAPES)
def test_every_decision_is_the_oracles(data: bytes) -> None:
    check_run(data)


@pytest.mark.parametrize("block", range(4))
def test_every_decision_of_seeded_runs_is_the_oracles(block: int) -> None:
    for seed in range(block * 25, block * 25 + 25):
        check_run(tape_of(seed))


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_every_decision_of_many_seeded_runs_is_the_oracles() -> None:
    for seed in range(1_000, 21_000):
        check_run(tape_of(seed))


def run_to_the_end(graph: Graph, outcomes: bytes, crashes: bytes) -> World:
    """One at a time; the n-th true outcome of a phase is the same with and without crashes."""
    world = World(graph, Tape(crashes))
    tried: dict[str, int] = {}
    free = 0
    for _ in range(400):
        decision = decide(graph, world.fold, (), 0.0, world.holds)
        for name in decision.skips:
            world.note(name, "skipped")
        if decision.skips:
            continue
        if decision.closing:
            return world
        (start,) = decision.starts
        world.start(decision)
        live = world.running[0]
        if free < 2 and world.tape.chance(3):
            free += 1
            world.end(live, ("lost", "interrupted")[world.tape.pick(2)])
            continue
        free = 0
        at = tried[start.phase] = tried.get(start.phase, -1) + 1
        place = list(graph.phases).index(start.phase) + 7 * at
        byte = outcomes[place % len(outcomes)] if outcomes else 0
        world.end(live, ("ok", "exit", "ok", "exit/a", "timeout", "missing_output")[byte % 6])
    raise AssertionError("endless")


def without_free(history: list[Entry]) -> list[tuple[object, ...]]:
    kept = [e for e in history if e.reason not in {"lost", "interrupted", "rate_limited"}]
    return [(e.phase, e.success, e.reason, e.repairs, e.signature) for e in kept]


def check_crash(shape: bytes, outcomes: bytes, crashes: bytes) -> None:
    graph = random_graph(Tape(shape), plain=True)
    quiet = run_to_the_end(graph, outcomes, b"")
    crashed = run_to_the_end(graph, outcomes, crashes)
    assert without_free(quiet.history) == without_free(crashed.history)
    assert quiet.decide().closing == crashed.decide().closing


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60), st.binary(max_size=40), st.binary(max_size=80))
def test_crashes_change_nothing_but_free_entries(
    shape: bytes, outcomes: bytes, crashes: bytes
) -> None:
    check_crash(shape, outcomes, crashes)


@pytest.mark.parametrize("block", range(2))
def test_crashes_of_seeded_runs_change_nothing(block: int) -> None:
    for seed in range(block * 100, block * 100 + 100):
        source = random.Random(seed)
        check_crash(source.randbytes(60), source.randbytes(40), source.randbytes(80))


@settings(max_examples=100, deadline=None)
@given(TAPES)
def test_completions_in_the_other_order_give_the_same_starts(data: bytes) -> None:
    world = run_random(data)
    world.start(world.decide())
    if len(world.running) < 2:
        return
    one, two = world.running[:2]
    world.end(one, "exit")
    world.end(two, "ok")
    *past, first, second = world.history
    swapped = Fold.of(world.graph, [*past, second, first])
    found = decide(world.graph, world.fold, world.running, world.now, world.holds)
    other = decide(world.graph, swapped, world.running, world.now, world.holds)
    assert (found.starts, found.skips, found.closing) == (other.starts, other.skips, other.closing)
