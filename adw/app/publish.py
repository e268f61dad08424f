"""What is derived from a run and written after each commit, unsynced: events, RESPONSE.md, latest.json.

All of it can be made again from the state and the attempt files, and is, when a run is opened.
Events are written at each boundary. The two views are held back for a moment where boundaries
follow each other faster than anybody reads: readers see by the digest in latest.json that it does
not fit the state yet, and look again.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adw import clock, failpoints
from adw.app import reading
from adw.app.entries import recovery_words
from adw.app.packets import SHOWN, RunReport, issue_words, named, run_response
from adw.app.queueing import QUEUED
from adw.core.decide import Decision
from adw.core.graph import Graph
from adw.core.isolation import NONE
from adw.core.outcome import one_line
from adw.core.view import SCHEMA_VERSION, PhaseBoard, next_action, run_status
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.store import effects, views
from adw.store.encoding import json_bytes, text_bytes

if TYPE_CHECKING:
    from adw.app.session import Session

HOLD_S: Final = 0.05  # well below the time for which adw.app.reading looks again


@dataclass(frozen=True, slots=True)
class Facts:
    """What a view is made from."""

    state: ADWStateData
    state_sha256: str
    graph: Graph
    board: PhaseBoard
    running: bool
    tree_end: str | None
    base: str | None
    """Commit that the branch started from."""
    left: str | None = None
    """How the sitting ended before the run was over, or how it stands; as `left` of latest.json."""
    unsure: bool = False
    """Whether nobody can tell of an outside effect."""


class Views:
    """When RESPONSE.md and latest.json are written: at once, or `HOLD_S` after the last time.

    While nothing runs they are never held back: what a command leaves behind is up to date.
    """

    __slots__ = ("_held_back", "_written_at")

    def __init__(self) -> None:
        self._written_at = float("-inf")
        self._held_back: Decision | None = None

    def write(self, session: "Session", decision: Decision) -> None:
        """Append the events; replace the views, or hold them back."""
        session.manifest.write()
        failpoints.hit("manifest.written")
        session.parts.history.flush()
        failpoints.hit("history.written")
        self._held_back = decision
        if not session.running() or self._due_s() <= 0:
            self._replace(session, decision)

    def soonest(self, interval_s: float | None) -> float | None:
        """How soon `catch_up` must be called, where others want to be called each `interval_s`."""
        if self._held_back is None:
            return interval_s
        due_s = max(0.0, self._due_s())
        return due_s if interval_s is None else min(due_s, interval_s)

    def catch_up(self, session: "Session") -> None:
        """Write what was held back, if it is time."""
        if self._held_back is not None and self._due_s() <= 0:
            self._replace(session, self._held_back)

    def _due_s(self) -> float:
        return self._written_at + HOLD_S - clock.monotonic()

    def _replace(self, session: "Session", decision: Decision) -> None:
        _replace_views(session, decision)
        self._held_back = None
        self._written_at = clock.monotonic()


def _replace_views(session: "Session", decision: Decision) -> None:
    facts = Facts(
        state=session.state,
        state_sha256=session.parts.state_file.sha256,
        graph=session.graph,
        board=session.board,
        running=bool(session.running()),
        tree_end=session.parts.supervision.tree_end,
        base=session.parts.run_info.get("base"),
        left=session.left,
        unsure=decision.closing == "held" and effects.unsure(session.run_dir),
    )
    head = view_head(facts, decision)
    session.reason = head["reason"]
    data = latest_bytes(head, session.board.encoded())
    views.put(os.path.join(session.run_dir, reading.LATEST), data)
    failpoints.hit("latest.written")
    text = run_response(_report(session, facts, head))
    views.put(os.path.join(session.run_dir, "RESPONSE.md"), text_bytes(text))
    failpoints.hit("response.written")


def _report(session: "Session", facts: Facts, head: dict[str, Any]) -> RunReport:
    state = session.state
    issue = one_line(issue_words(session.parts.run_info["issue"]))
    where = {"branch": state.branch_name, "worktree": state.worktree_path, "issue": issue}
    if facts.left == QUEUED:
        action = next_action("running", state, facts.base)
        where |= {"status": QUEUED, "reason": None, "next_action": action}
    elif session.leaving and not head["closing"]:
        action, reason = f"adw resume {state.adw_id}", reading.LEFT.get(facts.left or "")
        where |= {"status": "interrupted", "reason": reason, "next_action": action}
    return RunReport(
        view={**head, **where},
        counts=session.board.counts(),
        notes=notes(facts),
        done=done(facts, session.manifest.entries, SHOWN),
        recoveries=[recovery_words(event) for event in session.recoveries],
        artifacts=[
            f"`{name}` by {entry['producer']}: {named(entry['path'] or entry['source'])}"
            for name, entry in session.manifest.entries.items()
        ],
    )


def done(facts: Facts, manifest: Mapping[str, Mapping[str, Any]], most: int) -> list[str]:
    """The phases that were done last, each with its evidence; in declared order."""
    found: list[str] = []
    made: dict[str, list[str]] = {}
    for name, made_by in manifest.items():
        made.setdefault(str(made_by["producer"]), []).append(name)
    for phase in reversed(list(facts.graph.phases)):
        entry = facts.board.latest(phase)
        if facts.board.status(phase) != "done" or entry is None or not entry.attempt:
            continue
        child = child_id(phase, entry.attempt)
        parts = ["exit code 0"]
        if entry.commit:
            parts.append(f"commit {entry.commit[:12]}")
        parts += [f"output `{name}`" for name in made.get(child, ())]
        found.append(f"`{child}`: {', '.join(parts)}")
        if len(found) == most:
            break
    return found[::-1]


def view_head(facts: Facts, decision: Decision) -> dict[str, Any]:
    """Everything of `latest.json` but the phases."""
    state = facts.state
    waiting = decision.wake_at is not None
    status = run_status(decision.closing, waiting=waiting, running=facts.running)
    workflow, _, definition = (state.workflow or "@").partition("@")
    return {
        "schema_version": SCHEMA_VERSION,
        "state_sha256": facts.state_sha256,
        "adw_id": state.adw_id,
        "workflow": workflow or None,
        "definition": definition or None,
        "issue_number": state.issue_number,
        "status": status,
        "closing": decision.closing,
        "reason": reason(facts, decision),
        "until": clock.stamp(decision.wake_at) if decision.wake_at is not None else None,
        "next_action": next_action(status, state, facts.base, unsure=facts.unsure),
        "left": facts.left,
        "tree_end": facts.tree_end,
        "isolation": NONE,
        "updated_at": clock.stamp(),
    }


def latest_bytes(head: dict[str, Any], phases: bytes) -> bytes:
    """The bytes of latest.json."""
    start = json_bytes(head, indent=1)[:-2]
    return start + b',\n "phases": ' + phases + b"\n}\n"


def reason(facts: Facts, decision: Decision) -> str | None:
    """Why a run failed, is held or was cancelled, in one line."""
    if decision.closing in {None, "succeeded"}:
        return None
    wanted = decision.closing or ""
    for name in facts.graph.phases:
        last = (facts.board.attempts(name) or [{}])[-1]
        if facts.board.status(name) == wanted or last.get("reason") == wanted:
            return phase_line(facts, name) + _given_up(decision, name)
    return None


def _given_up(decision: Decision, name: str) -> str:
    """Why no retry or repair is left, where that is not plain."""
    view = decision.phases.get(name)
    words = {
        "no_progress": "; the same failure three times, so repairs stop",
        "rounds": "; no repair round is left",
        "lost": "; its supervisor died three times",
    }
    return words.get(str(view.detail), "") if view is not None else ""


def phase_line(facts: Facts, name: str) -> str:
    """Such as: phase `test` failed: exit, exit code 1 (attempt 2)."""
    status = facts.board.status(name)
    attempts = facts.board.attempts(name)
    if not attempts:
        return f"phase `{name}` is {status}"
    last = attempts[-1]
    why = f": {failure_words(last['reason'], last.get('detail'))}" if last["reason"] else ""
    return f"phase `{name}` {_VERB.get(status, status)}{why} (attempt {last['attempt']})"


_VERB: Final = {
    "running": "is running",
    "held": "is held",
    "pending": "is pending",
    "done": "is done",
}
_NOTED: Final = ("failed", "held", "running", "excused")


def notes(facts: Facts) -> list[str]:
    """Lines on the phases that need a look, most important first."""
    found: dict[str, list[str]] = {status: [] for status in _NOTED}
    for name in facts.graph.phases:
        lines = found.get(facts.board.status(name))
        if lines is not None:
            tries = facts.board.attempts(name)
            where = f", see attempts/{tries[-1]['child_id']}/" if tries else ""
            lines.append(phase_line(facts, name) + where)
    return [line for lines in found.values() for line in lines]


def failure_words(reason: str, detail: str | None) -> str:
    """A failure kind with its detail; `exit` and `signal` go without saying beside the number."""
    if not detail:
        return reason
    return detail if reason in {"exit", "signal"} else f"{reason}, {detail}"
