"""The fold keeps its work small: counted in judged phases, not in seconds."""

import pytest

from adw.core.decide import Fold, Live, decide
from adw.core.graph import Graph, Phase
from adw.core.standing import Record, Standing, judge
from tests.unit.core.histories import Entry, always, entry, graph


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of phases in the order in which they were judged."""
    names: list[str] = []

    def counting(phase: Phase, record: Record, mark: int, base: int, start: int) -> Standing:
        names.append(phase.name)
        return judge(phase, record, mark, base, start)

    monkeypatch.setattr("adw.core.fold.judge", counting)
    return names


def chain(length: int) -> Graph:
    first, rest = Phase("p0"), range(1, length)
    return graph(first, *(Phase(f"p{i}", needs=(f"p{i - 1}",)) for i in rest))


def test_one_more_entry_judges_two_phases_of_a_long_chain(judged: list[str]) -> None:
    shape = chain(2_000)
    fold = Fold.of(shape, [Entry(f"p{i}", 1, success=True) for i in range(1_000)])
    decide(shape, fold, (), 0.0, always)
    assert len(judged) == 1_001
    judged.clear()
    decide(shape, fold, [Live("p1000", 1)], 0.0, always)
    fold.add(Entry("p1000", 1, success=True))
    found = decide(shape, fold, (), 0.0, always)
    assert [start.phase for start in found.starts] == ["p1001"]
    assert judged == ["p1000", "p1001"]


def test_a_decision_without_news_judges_nothing(judged: list[str]) -> None:
    shape = chain(10)
    fold = Fold.of(shape, [entry("p0 ok", 1)])
    first = decide(shape, fold, (), 0.0, always)
    judged.clear()
    assert decide(shape, fold, (), 0.0, always) == first
    assert judged == []


def test_a_decision_is_not_changed_by_a_later_one() -> None:
    shape = chain(3)
    fold = Fold(shape)
    first = decide(shape, fold, (), 0.0, always)
    fold.add(entry("p0 ok", 1))
    decide(shape, fold, (), 0.0, always)
    assert first.phases["p0"].state == "ready"


def test_entries_of_other_workflows_take_their_place_only() -> None:
    shape = chain(2)
    fold = Fold.of(shape, [entry("other ok", 7), entry("p0 ok", 1)])
    fold.settle()
    assert (fold.length, fold.attempt("other")) == (2, 7)
    assert fold.standing("p0").settled_at == 1


def test_a_graph_of_another_fold_is_refused() -> None:
    with pytest.raises(AssertionError, match="belongs to one graph"):
        decide(chain(2), Fold(chain(3)), (), 0.0, always)
