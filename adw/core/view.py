"""What readers are shown of a run, from graph, state and decision: the body of `latest.json`.

Pure, and cheap for long runs: a phase is looked at again only when its view, its entries or its
attempts changed.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

from adw.core.decide import Decision, PhaseView
from adw.core.graph import Graph
from adw.model.state import FREE, HELD, ADWStateData, HistoryEntry

SCHEMA_VERSION: Final = 1
_FROM_DECISION: Final = {
    "ready": "pending",
    "fresh": "pending",
    "wait": "pending",
    "repairing": "running",
}


class PhaseBoard:
    """All phases with status and attempts, kept as encoded fragments."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._attempts: dict[str, list[dict[str, Any]]] = {name: [] for name in graph.phases}
        self._latest: dict[str, HistoryEntry] = {}
        self._views: Mapping[str, PhaseView] = {}
        self._status: dict[str, str] = dict.fromkeys(graph.phases, "pending")
        self._fragments: dict[str, bytes] = {}
        self._touched: set[str] = set(graph.phases)
        """Phases whose status may be another one since the last `update`."""
        self._stale: set[str] = set(graph.phases)
        """Phases whose fragment is to be made again."""

    def load(self, phases: list[dict[str, Any]]) -> None:
        """Take over the attempts of an earlier board."""
        for each in phases:
            if each["phase"] in self._attempts:
                self._attempts[each["phase"]] = each["attempts"]

    def started(
        self, phase: str, attempt: int, child_id: str, started_at: str, *, adopted: bool
    ) -> None:
        """An attempt runs."""
        if phase not in self._attempts:
            return
        rest = [a for a in self._attempts[phase] if a["attempt"] != attempt]
        self._attempts[phase] = [*rest, _attempt(attempt, child_id, started_at, adopted=adopted)]
        self._stale.add(phase)

    def ended(
        self, entry: HistoryEntry, child_id: str | None, exit_code: int | None, detail: str | None
    ) -> None:
        """An entry was made; `child_id` None: a skip or a mark."""
        if entry.phase not in self._attempts:
            return
        self._latest[entry.phase] = entry
        self._touched.add(entry.phase)
        self._stale.add(entry.phase)
        if child_id is None:
            return
        known = {a["attempt"]: a for a in self._attempts[entry.phase]}
        old = known.get(entry.attempt) or _attempt(
            entry.attempt, child_id, entry.started_at, adopted=False
        )
        known[entry.attempt] = {
            **old,
            "success": entry.success,
            "reason": entry.reason,
            "exit_code": exit_code if exit_code is not None else old.get("exit_code"),
            "started_at": entry.started_at or old["started_at"],
            "ended_at": entry.ended_at,
            "detail": detail if detail is not None else old.get("detail"),
        }
        self._attempts[entry.phase] = list(known.values())

    def update(self, decision: Decision, running: Mapping[str, str]) -> None:
        """Take a decision over.

        Args:
            decision: The latest one.
            running: Phase to child_id of each attempt that lives.
        """
        views, before = decision.phases, self._views
        touched = {name for name, view in views.items() if before.get(name) is not view}
        touched |= self._touched
        for name in touched.union(running) & self._graph.phases.keys():
            status = "running" if name in running else self._of(name, views.get(name))
            if status != self._status[name]:
                self._status[name] = status
                self._stale.add(name)
        self._views = views
        self._touched = set(running)  # what runs no longer at the next look has another status

    def phases(self) -> list[str]:
        """Names in declared order."""
        return list(self._graph.phases)

    def status(self, phase: str) -> str:
        """Status of one phase."""
        return self._status.get(phase, "pending")

    def counts(self) -> dict[str, int]:
        """How many phases have each status."""
        found: dict[str, int] = {}
        for status in self._status.values():
            found[status] = found.get(status, 0) + 1
        return found

    def latest(self, phase: str) -> HistoryEntry | None:
        """The latest entry of a phase."""
        return self._latest.get(phase)

    def attempts(self, phase: str) -> list[dict[str, Any]]:
        """Attempts of a phase, oldest first."""
        return self._attempts.get(phase, [])

    def encoded(self) -> bytes:
        """The JSON array of all phases."""
        for name in self._stale:
            fragment = {
                "phase": name,
                "status": self._status.get(name, "pending"),
                "attempts": self._attempts[name],
            }
            self._fragments[name] = json.dumps(fragment, ensure_ascii=False).encode(
                "utf-8", "backslashreplace"
            )
        self._stale.clear()
        return b"[" + b",\n".join(self._fragments[name] for name in self._graph.phases) + b"]"

    def _of(self, name: str, view: PhaseView | None) -> str:
        latest = self._latest.get(name)
        if view is None or name in self._graph.owners:
            return _of_repair(latest)
        if view.state == "pending" and latest is not None and latest.success:
            return "stale"
        return _FROM_DECISION.get(view.state, view.state)


def _attempt(
    attempt: int, child_id: str, started_at: str | None, *, adopted: bool
) -> dict[str, Any]:
    return {
        "attempt": attempt,
        "child_id": child_id,
        "success": None,
        "reason": None,
        "exit_code": None,
        "started_at": started_at,
        "ended_at": None,
        "adopted": adopted,
        "detail": None,
    }


def _of_repair(latest: HistoryEntry | None) -> str:
    """A repair phase counts for nothing by itself: its status is its latest entry's."""
    if latest is None or latest.reason in FREE or latest.reason == "invalidated":
        return "pending"
    if latest.success:
        return "done"
    return "held" if latest.reason in HELD else "failed"


def run_status(closing: str | None, *, waiting: bool, running: bool) -> str:
    """Status of a run whose orchestrator lives."""
    if closing:
        return "failed" if closing == "stuck" else closing
    return "held" if waiting and not running else "running"


def next_action(status: str, state: ADWStateData, base: str | None, *, unsure: bool = False) -> str:
    """The one thing to do now, as a command.

    Args:
        status: Of the run.
        state: Its state.
        base: Commit that its branch started from.
        unsure: Nobody can tell of an outside effect, so a resume may be in vain.
    """
    if status == "running":
        return f"adw watch {state.adw_id}"
    if status == "held" and unsure:
        return f"adw effect list {state.adw_id}"
    if status != "succeeded":
        return f"adw resume {state.adw_id}"
    last = next((e.commit for e in reversed(state.phase_history) if e.commit), None)
    if last and last != base:
        since = f"{base[:12]}.." if base else "-1 "
        return f"git log -p {since}{state.branch_name}"
    return f"cd $(adw path {state.adw_id}) && git status"
