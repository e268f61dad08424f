"""What readers are shown: a phase is looked at again exactly when something of it changed."""

import json

from adw.core.compile import compile_graph
from adw.core.decide import Fold, Live, decide
from adw.core.graph import Phase, Repair
from adw.core.view import PhaseBoard
from adw.model.state import HistoryEntry

GRAPH = compile_graph(
    "w",
    [
        Phase("plan", argv=("true",)),
        Phase("test", needs=("plan",), argv=("true",), repair=Repair("fix", 2)),
        Phase("fix", argv=("true",)),
        Phase("ship", needs=("test",), argv=("true",)),
    ],
    4,
)


class Shown:
    """A board that follows a history."""

    def __init__(self) -> None:
        self.board = PhaseBoard(GRAPH)
        self.fold = Fold(GRAPH)

    def update(self, *running: Live) -> list[str]:
        decision = decide(GRAPH, self.fold, running, 0.0, lambda _, __: True)
        self.board.update(decision, {live.phase: f"{live.phase}-1" for live in running})
        statuses = [self.board.status(name) for name in self.board.phases()]
        assert [p["status"] for p in json.loads(self.board.encoded())] == statuses
        return statuses

    def entry(self, phase: str, reason: str | None = None, repairs: str | None = None) -> None:
        fields = {"phase": phase, "attempt": 1, "success": not reason, "reason": reason}
        entry = HistoryEntry.model_validate({**fields, "repairs": repairs})
        self.fold.add(entry)
        self.board.ended(entry, f"{phase}-1", None, None)


def test_each_phase_is_pending_before_anything_ran() -> None:
    assert Shown().update() == ["pending"] * 4


def test_what_runs_is_running_and_what_ran_no_longer_is() -> None:
    shown = Shown()
    assert shown.update(Live("plan", 1)) == ["running", "pending", "pending", "pending"]
    shown.entry("plan")
    assert shown.update() == ["done", "pending", "pending", "pending"]


def test_an_attempt_that_ended_without_an_entry_is_pending_again() -> None:
    shown = Shown()
    shown.update(Live("plan", 1))
    assert shown.update() == ["pending"] * 4


def test_a_repair_phase_shows_its_latest_entry() -> None:
    shown = Shown()
    shown.entry("plan")
    shown.entry("test", "exit")
    assert shown.update() == ["done", "running", "pending", "pending"]
    assert shown.update(Live("fix", 1, "test")) == ["done", "running", "running", "pending"]
    assert shown.update() == ["done", "running", "pending", "pending"]
    shown.entry("fix", "exit", repairs="test")
    assert shown.update() == ["done", "failed", "failed", "pending"]


def test_a_rerun_upstream_makes_what_is_downstream_stale() -> None:
    shown = Shown()
    for name in ("plan", "test", "ship"):
        shown.entry(name)
    assert shown.update() == ["done", "done", "pending", "done"]
    shown.entry("plan", "invalidated")
    assert shown.update() == ["pending", "stale", "pending", "stale"]
