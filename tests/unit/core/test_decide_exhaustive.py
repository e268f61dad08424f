"""Every sequence of ok and exit on small graphs: what random runs are too lucky to see."""

import pytest

from adw.core.decide import Fold, decide
from adw.core.graph import Graph, Phase, Repair
from tests.unit.core.histories import Entry, always, graph, lp
from tests.unit.core.worlds import compare

Search = tuple[int, int]


def sdlc(test_rounds: int, review_rounds: int) -> Graph:
    """A chain with an inner loop round test and an outer one from review back to test."""
    return graph(
        Phase("build"),
        Phase("test", needs=("build",), repair=Repair("fix", test_rounds)),
        Phase("fix"),
        Phase("review", needs=("test",), repair=Repair("patch", review_rounds, "test")),
        Phase("patch"),
        Phase("commit", needs=("review",)),
        max_parallel=1,
    )


def shared() -> Graph:
    """One repair phase for two owners, one of which leads back to build."""
    return graph(
        Phase("build"),
        Phase("fix"),
        Phase("lint", needs=("build",), repair=Repair("fix", 2)),
        Phase("test", needs=("build",), repair=Repair("fix", 2, "build")),
        Phase("ship", needs=("lint", "test")),
        max_parallel=1,
    )


def nested() -> Graph:
    """A gate over a review over a test."""
    return graph(
        Phase("build"),
        Phase("test", needs=("build",), repair=Repair("fix", 1)),
        Phase("review", needs=("test",), repair=Repair("patch", 1, "test")),
        Phase("gate", needs=("review",), gate=True, repair=Repair("rework", 1, "build")),
        Phase("fix"),
        Phase("patch"),
        Phase("rework"),
        max_parallel=1,
    )


def within_a_third() -> Graph:
    """Two loops side by side inside a third."""
    return graph(
        Phase("build"),
        Phase("lint", needs=("build",), repair=Repair("fmt", 1, "build")),
        Phase("test", needs=("build",), repair=Repair("fix", 1, "build")),
        Phase("review", needs=("lint", "test"), repair=Repair("patch", 1, "build")),
        Phase("fmt"),
        Phase("fix"),
        Phase("patch"),
        max_parallel=1,
    )


def every_run(
    shape: Graph,
    *,
    outcomes: tuple[str, ...] = ("ok", "exit"),
    cap: int = 4_000,
    check: bool = True,
) -> Search:
    """Follow every sequence of outcomes to its end.

    Returns:
        How many complete runs there are, and the entries of the longest.
    """
    runs = longest = nodes = 0
    stack: list[tuple[Entry, ...]] = [()]
    while stack and nodes < cap:
        past = stack.pop()
        nodes += 1
        found = decide(shape, Fold.of(shape, past), (), 0.0, always)
        if check:
            compare(found, shape, past, (), 0.0, set())
        longest = max(longest, len(past))
        gates = [name for name, view in found.phases.items() if view.detail == "gate"]
        if found.starts:
            (start,) = found.starts
            for outcome in outcomes:
                reason = None if outcome == "ok" else outcome
                end = Entry(start.phase, start.attempt, not reason, reason, repairs=start.repairs)
                stack.append((*past, end))
        elif found.closing == "held" and gates:
            stack.append((*past, Entry(gates[0], 0, success=True)))
            stack.append((*past, Entry(gates[0], 0, success=False, reason="rejected")))
        else:
            assert found.closing in {"succeeded", "failed"}
            runs += 1
    return runs, longest


@pytest.mark.parametrize(
    ("shape", "want"),
    [
        pytest.param(sdlc(2, 2), (157, 22), id="sdlc-2-2"),
        pytest.param(sdlc(3, 2), (337, 28), id="sdlc-3-2"),
        pytest.param(lp(), (990, 22), id="parallel-loops"),
        pytest.param(shared(), (306, 18), id="shared-fix"),
        pytest.param(nested(), (175, 23), id="gate-over-review-over-test"),
    ],
)
def test_all_sequences_end_and_are_the_oracles(shape: Graph, want: Search) -> None:
    assert every_run(shape) == want


def test_rounds_since_its_own_success_never_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 2, planted: two loops side by side restart each other's count for ever."""
    right = Fold.count_start

    def since_success(self: Fold, phase: str) -> int:
        record = self.record(phase)
        good = [k for k, e in zip(record.positions, record.entries, strict=True) if e.success]
        return max([right(self, phase), *good])

    monkeypatch.setattr(Fold, "count_start", since_success)

    _, longest = every_run(lp(), cap=600, check=False)

    assert longest > 22


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_two_loops_inside_a_third_end() -> None:
    _, longest = every_run(within_a_third(), cap=60_000)
    assert longest <= 59


@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_lost_attempts_among_them_end() -> None:
    _, longest = every_run(sdlc(1, 1), outcomes=("ok", "exit", "lost"), cap=60_000)
    assert longest <= 40
