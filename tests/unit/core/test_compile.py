"""Compiling: shape, order, and every refusal."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.core.compile import GraphFault, Kind, compile_graph
from adw.core.cut import affected_by, cut_until, ends_first, only, required
from adw.core.decide import Live
from adw.core.graph import Graph, Output, Phase, Repair, Retry, from_json, to_json
from tests.support.oracle import Oracle
from tests.unit.core.histories import graph, lp, lt, sd
from tests.unit.core.worlds import Tape, random_graph

FIX = Phase("fix")


def fault(*phases: Phase, max_parallel: int = 2) -> tuple[str, str, str, tuple[str, ...]]:
    with pytest.raises(GraphFault) as found:
        compile_graph("w", phases, max_parallel)
    return found.value.kind, found.value.phase, found.value.key, found.value.names


REFUSED: dict[str, tuple[list[Phase], tuple[str, str, str, tuple[str, ...]]]] = {
    "no-phase": ([], ("empty", "", "phases", ())),
    "name": ([Phase("Build")], ("name", "Build", "", ())),
    "twice": ([Phase("a"), Phase("a")], ("duplicate", "a", "", ())),
    "unknown-need": ([Phase("a", needs=("b",))], ("unknown_phase", "a", "needs", ("b",))),
    "unknown-repair": (
        [Phase("a", repair=Repair("b", 1))],
        ("unknown_phase", "a", "repair.phase", ("b",)),
    ),
    "unknown-target": (
        [Phase("a", repair=Repair("fix", 1, "b")), FIX],
        ("unknown_phase", "a", "repair.back_to", ("b",)),
    ),
    "no-attempts": ([Phase("a", retry=Retry(0))], ("bound", "a", "retry.attempts", ())),
    "case-F8-no-bound": (
        [Phase("a", repair=Repair("fix", 0)), FIX],
        ("unbounded_repair", "a", "repair.rounds", ()),
    ),
    "needs-itself": ([Phase("a", needs=("a",))], ("cycle", "a", "needs", ("a",))),
    "cycle-of-two": (
        [Phase("z"), Phase("b", needs=("a",)), Phase("a", needs=("b",))],
        ("cycle", "b", "needs", ("b", "a")),
    ),
    "repair-phase-with-needs": (
        [Phase("a", repair=Repair("fix", 1)), Phase("fix", needs=("a",))],
        ("repair_phase", "fix", "needs", ("a",)),
    ),
    "repair-phase-with-when": (
        [Phase("a", repair=Repair("fix", 1)), Phase("fix", when="x")],
        ("repair_phase", "fix", "when", ("a",)),
    ),
    "repair-phase-with-repair": (
        [Phase("a", repair=Repair("fix", 1)), Phase("fix", repair=Repair("b", 1)), Phase("b")],
        ("repair_phase", "fix", "repair", ("a",)),
    ),
    "repair-phase-may-not-fail": (
        [Phase("a", repair=Repair("fix", 1)), Phase("fix", allow_failure=True)],
        ("repair_phase", "fix", "allow_failure", ("a",)),
    ),
    "repair-phase-is-a-gate": (
        [Phase("a", repair=Repair("fix", 1)), Phase("fix", gate=True)],
        ("repair_phase", "fix", "approve", ("a",)),
    ),
    "repairs-itself": (
        [Phase("a", repair=Repair("a", 1))],
        ("repair_phase", "a", "repair", ("a",)),
    ),
    "repair-phase-is-needed": (
        [Phase("a", repair=Repair("fix", 1)), FIX, Phase("b", needs=("fix",))],
        ("needs_repair_phase", "b", "needs", ("fix", "a")),
    ),
    "target-is-not-needed": (
        [Phase("a"), Phase("b", repair=Repair("fix", 1, "a")), FIX],
        ("back_to", "b", "repair.back_to", ("a",)),
    ),
    "target-is-the-owner": (
        [Phase("b", repair=Repair("fix", 1, "b")), FIX],
        ("back_to", "b", "repair.back_to", ("b",)),
    ),
    "target-is-downstream": (
        [Phase("a", repair=Repair("fix", 1, "b")), Phase("b", needs=("a",)), FIX],
        ("back_to", "a", "repair.back_to", ("b",)),
    ),
    "target-is-a-repair-phase": (
        [Phase("a", repair=Repair("fix", 1, "fix")), FIX],
        ("back_to", "a", "repair.back_to", ("fix",)),
    ),
    "output-of-two-phases": (
        [Phase("a", outputs=(Output("o", "x"),)), Phase("b", outputs=(Output("o", "y"),))],
        ("output_twice", "b", "outputs", ("o", "a")),
    ),
    "unknown-input": (
        [Phase("a", outputs=(Output("o", "x"),)), Phase("b", needs=("a",), inputs=("p",))],
        ("unknown_input", "b", "inputs", ("p", "o")),
    ),
    "input-of-a-sibling": (
        [Phase("a", outputs=(Output("o", "x"),)), Phase("b", inputs=("o",))],
        ("input_not_needed", "b", "inputs", ("o", "a", "b")),
    ),
    "input-from-downstream": (
        [Phase("b", inputs=("o",)), Phase("a", needs=("b",), outputs=(Output("o", "x"),))],
        ("input_not_needed", "b", "inputs", ("o", "a", "b")),
    ),
    "input-of-its-own": (
        [Phase("a", inputs=("o",), outputs=(Output("o", "x"),))],
        ("input_not_needed", "a", "inputs", ("o", "a", "a")),
    ),
    "input-of-a-repair-that-one-owner-lacks": (
        [
            Phase("a", outputs=(Output("o", "x"),)),
            Phase("b", needs=("a",), repair=Repair("fix", 1)),
            Phase("c", repair=Repair("fix", 1)),
            Phase("fix", inputs=("o",)),
        ],
        ("input_not_needed", "fix", "inputs", ("o", "a", "c")),
    ),
    "input-from-a-repair": (
        [
            Phase("a", repair=Repair("fix", 1)),
            Phase("b", needs=("a",), inputs=("o",)),
            Phase("fix", outputs=(Output("o", "x"),)),
        ],
        ("input_not_needed", "b", "inputs", ("o", "fix", "b")),
    ),
    "fault-24-reset-beside-a-sibling": (
        [Phase("a", on_retry="reset"), Phase("b")],
        ("reset_beside", "a", "on_retry", ("b",)),
    ),
    "fault-24-reset-beside-a-reader": (
        [Phase("a", on_retry="reset", writes=False), Phase("b", writes=False)],
        ("reset_beside", "a", "on_retry", ("b",)),
    ),
    "fault-24-reset-beside-a-siblings-repair": (
        [
            Phase("a", on_retry="reset"),
            Phase("b", writes=False, repair=Repair("fix", 1)),
            FIX,
        ],
        ("reset_beside", "a", "on_retry", ("b",)),
    ),
    "fault-24-a-repair-phase-resets-beside-its-owners-sibling": (
        [Phase("a", repair=Repair("fix", 1)), Phase("b"), Phase("fix", on_retry="reset")],
        ("reset_beside", "fix", "on_retry", ("b",)),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    phases, want = REFUSED[case]
    assert fault(*phases) == want


def test_no_room_for_a_single_attempt_is_refused() -> None:
    assert fault(Phase("a"), max_parallel=0) == ("bound", "", "max_parallel", ())


def test_a_reset_is_accepted_where_every_phase_comes_before_or_after() -> None:
    shape = graph(
        Phase("a"),
        Phase("left", needs=("a",)),
        Phase("right", needs=("a",)),
        Phase("b", needs=("left", "right"), on_retry="reset", repair=Repair("fix", 1)),
        Phase("fix", on_retry="reset"),
        Phase("c", needs=("b",)),
    )
    assert shape.phases["b"].on_retry == "reset"


def test_a_reset_is_accepted_beside_what_only_reads() -> None:
    assert graph(Phase("a", on_retry="reset"), Phase("b", writes=False)).order == ("a", "b")


def test_an_input_may_come_from_far_above_and_reach_a_repair_through_every_owner() -> None:
    shape = graph(
        Phase("a", outputs=(Output("o", "x"), Output("unused", "y"))),
        Phase("b", needs=("a",)),
        Phase("c", needs=("b",), inputs=("o",), repair=Repair("fix", 1)),
        Phase("d", needs=("b",), repair=Repair("fix", 1)),
        Phase("fix", inputs=("o",), outputs=(Output("more", "z"),)),
    )
    assert shape.phases["fix"].inputs == ("o",)
    assert from_json(to_json(shape)) == shape


@pytest.mark.parametrize("length", [2, 5_000])
def test_a_cycle_is_named_with_its_phases_in_order(length: int) -> None:
    """Each needs the next, the last needs the first; the rest of the graph is not named."""
    ring = [Phase(f"p{i}", needs=(f"p{(i + 1) % length}", "root")) for i in range(length)]
    kind, phase, key, names = fault(Phase("root"), *ring, Phase("after", needs=("p0",)))
    assert (kind, phase, key) == ("cycle", "p0", "needs")
    assert names == tuple(f"p{i}" for i in range(length))


def test_order_is_the_declared_one_where_needs_leave_a_choice() -> None:
    shape = graph(Phase("z"), Phase("late", needs=("last",)), Phase("b"), Phase("a"), Phase("last"))
    assert shape.order == ("z", "b", "a", "last", "late")


def test_repair_phases_are_not_in_the_order() -> None:
    assert sd().order == ("plan", "build", "test", "review", "commit")
    assert sd().owners == {"fix": ("test",), "patch": ("review",)}
    assert lt().owners == {"fix": ("lint", "test")}


def test_enclosing_loops() -> None:
    assert sd().enclosing == {"test": ("review",)}
    assert lp().enclosing == {}


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_shape_is_the_oracles(data: bytes) -> None:
    shape = random_graph(Tape(data))
    oracle = Oracle(shape, [])
    for name in shape.order:
        later = {other for other in shape.order if name in oracle.needs(other)}
        assert set(shape.dependents[name]) <= later
        assert affected_by(shape, name) & set(shape.order) == {name} | later
        if shape.phases[name].repair:
            assert sorted(shape.enclosing.get(name, ())) == sorted(oracle.enclosing(name))
    for need, name in ((n, p) for p in shape.order for n in shape.phases[p].needs):
        assert shape.order.index(need) < shape.order.index(name)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80))
def test_json_gives_an_equal_graph(data: bytes) -> None:
    shape = random_graph(Tape(data))
    assert from_json(to_json(shape)) == shape


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=80), st.integers(0, 5))
def test_until_is_what_compiling_only_those_phases_gives(data: bytes, at: int) -> None:
    shape = random_graph(Tape(data))
    name = shape.order[at % len(shape.order)]
    cut = cut_until(shape, name)
    again = compile_graph(shape.name, list(cut.phases.values()), shape.max_parallel)
    assert cut == Graph(**{**{f: getattr(again, f) for f in again.__slots__}, "order": cut.order})
    assert set(cut.order) == {name} | Oracle(shape, []).needs(name)


def test_until_keeps_the_repair_phases_of_what_it_keeps() -> None:
    cut = cut_until(sd(), "test")
    assert (cut.order, list(cut.phases)) == (
        ("plan", "build", "test"),
        ["plan", "build", "test", "fix"],
    )
    assert cut.enclosing == {}


def test_only_is_the_phase_alone() -> None:
    alone = only(sd(), "review")
    assert alone.order == ("review",)
    assert (alone.phases["review"].needs, alone.phases["review"].repair) == ((), None)


def test_a_person_cannot_start_from_a_repair_phase() -> None:
    with pytest.raises(GraphFault) as found:
        required(lt(), "fix")
    assert (found.value.kind, found.value.names) == (Kind.NOT_A_START, ("lint", "test"))
    with pytest.raises(GraphFault) as unknown:
        cut_until(lt(), "shp")
    assert unknown.value.kind == Kind.UNKNOWN_PHASE


def test_from_ends_what_works_on_old_results_and_no_repair_for_others() -> None:
    assert affected_by(lt(), "test") == {"test", "ship", "fix"}
    running = [Live("fix", 1, "lint"), Live("docs", 1)]
    assert ends_first(lt(), running, "test") == []
    running = [Live("fix", 1, "test"), Live("ship", 1), Live("docs", 1)]
    assert ends_first(lt(), running, "test") == running[:2]
    assert ends_first(lt(), running, "build") == running


BIG = """
from adw.core.compile import compile_graph
from adw.core.graph import Phase
needs = [tuple(f"p{i - d}" for d in (1, 7, 50) if i >= d)[: 2 + (i % 100 == 0)] for i in range(10_000)]
graph = compile_graph("big", [Phase(f"p{i}", needs=n) for i, n in enumerate(needs)], 2)
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(len(graph.order), sum(map(len, needs)), peak.split()[1])
"""  # VmHWM and not ru_maxrss: the latter starts with the peak of the process that started it


def test_must_show_9_ten_thousand_phases_compile_in_little_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", BIG], capture_output=True, text=True, check=True, timeout=60
    )
    phases, edges, peak_kib = map(int, done.stdout.split())
    assert (phases, edges) == (10_000, 20_091)
    assert peak_kib < 150_000


def test_deep_chains_need_no_recursion() -> None:
    names = [f"p{i}" for i in range(5_000)]
    chain = [Phase("p0"), *(Phase(b, needs=(a,)) for a, b in pairwise(names))]
    last = Phase("p5000", needs=("p4999",), repair=Repair("fix", 1, "p0"))
    shape = compile_graph("w", [*chain, last, FIX], 1)
    assert len(affected_by(shape, "p0")) == 5_002
    assert len(cut_until(shape, "p4999").order) == 5_000
