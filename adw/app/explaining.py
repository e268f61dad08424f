"""Why a run, or one of its phases, is where it is; nothing is written.

On the usual path neither pydantic nor a workflow file is needed: while `latest.json` fits the
state, its writer has checked both state and graph.
"""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from adw.app import reading
from adw.core.cut import cut
from adw.core.decide import Decision, Fold, Live, decide
from adw.core.explain import why
from adw.core.graph import Graph, from_json
from adw.errors import UnknownName, suggestion
from adw.store import attempts, files

SCHEMA_VERSION: Final = 1
TAIL_BYTES: Final = 4096
TAIL_LINES: Final = 10


@dataclass(frozen=True, slots=True)
class Mark:
    """A history entry as deciding reads it."""

    phase: str
    success: bool
    attempt: int = 0
    reason: str | None = None
    ended_at: str | None = None
    not_before: str | None = None
    signature: str | None = None
    repairs: str | None = None


@dataclass(slots=True)
class Case:
    """What explaining needs."""

    graph: Graph
    fold: Fold
    decision: Decision
    status: dict[str, Any]
    """As `adw status ID --json`."""


def explain(run_dir: str, phase: str | None) -> dict[str, Any]:
    """Say why.

    Args:
        run_dir: The run.
        phase: One phase; by default those that decide the run's status.

    Returns:
        `schema_version, adw_id, status, reason, phases, next_action`; a phase has `phase, status,
        detail, lines, child_id, tail, logs`; `detail` is the latest attempt's failure in few words,
        and all but `lines` is null or empty where there is no attempt.

    Raises:
        UnknownName: The run has no such phase.
        StateError: The state is damaged.
    """
    case = _case(run_dir)
    if phase is not None and phase not in case.graph.phases:
        hint = suggestion(phase, list(case.graph.phases))
        raise UnknownName(kind="phase", name=phase, suggestion=hint, reason=None)
    names = [phase] if phase is not None else deciding(case)
    return {
        "schema_version": SCHEMA_VERSION,
        "adw_id": case.status["adw_id"],
        "status": case.status["status"],
        "reason": case.status["reason"],
        "phases": [_phase(run_dir, case, name) for name in names],
        "next_action": case.status["next_action"],
    }


def deciding(case: Case) -> list[str]:
    """Phases that make the run's status what it is, in declared order."""
    views = case.decision.phases
    closing = case.decision.closing
    if closing == "succeeded":
        return []
    if closing == "cancelled":
        return [name for name in case.graph.phases if name in case.fold.cancelled]
    if closing in {"failed", "held"}:
        wanted = {closing}
    else:
        wanted = {"running", "repairing", "wait", "ready"}
    found: set[str] = set()
    for name, view in views.items():
        if view.state in wanted:
            found.add(name)
            found.update({view.repair} if view.repair and closing else ())
    return [name for name in case.graph.phases if name in found]


def _phase(run_dir: str, case: Case, name: str) -> dict[str, Any]:
    found = next(each for each in case.status["phases"] if each["phase"] == name)
    last = found["attempts"][-1] if found["attempts"] else {"child_id": None, "detail": None}
    child = last["child_id"]
    folder = attempts.dir_of(run_dir, child) if child else None
    return {
        "phase": name,
        "status": found["status"],
        "detail": last["detail"],
        "lines": why(case.graph, case.fold, case.decision, name),
        "child_id": child,
        "tail": tail(folder) if folder else [],
        "logs": folder,
    }


def tail(attempt_dir: str) -> list[str]:
    """The last lines of stderr, or of stdout where that is empty; as they are, not escaped."""
    text = attempts.log_tail(attempt_dir, TAIL_BYTES).rstrip()
    return [line.rstrip("\r") for line in text.split("\n")[-TAIL_LINES:]] if text else []


def _case(run_dir: str) -> Case:
    status = reading.status(run_dir)
    graph = _kept_graph(run_dir, status)
    history = status["state"].get("phase_history", [])
    if graph is None or not all("success" in each for each in history):  # written elsewhere
        from adw.app.rebuilding import compute

        found = compute(run_dir)
        return Case(found.graph, found.fold, found.decision, status)
    fold = Fold.of(graph, [_mark(each) for each in history])
    running = _running(run_dir, status)
    from adw.clock import Clock

    return Case(graph, fold, decide(graph, fold, running, Clock().now(), _holds), status)


def _holds(_phase: str, _expression: str) -> bool:
    """A phase whose `when` has not been asked yet is taken as one that may start."""
    return True


def _kept_graph(run_dir: str, status: dict[str, Any]) -> Graph | None:
    path = os.path.join(run_dir, "definitions", f"{status['definition']}.graph.json")
    try:
        kept = json.loads(files.read(path))
        graph, command = from_json(kept["graph"]), kept["command"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return None if graph is None else cut(graph, command)


def _mark(entry: dict[str, Any]) -> Mark:
    return Mark(**{name: entry[name] for name in Mark.__slots__ if name in entry})


def _running(run_dir: str, status: dict[str, Any]) -> Sequence[Live]:
    found = []
    for each in status["living"]:
        phase, attempt = attempts.split(each["child_id"])
        lines = attempts.lines_of(run_dir, each["child_id"])
        launch = attempts.find(lines, "launch") or {}
        found.append(Live(phase, attempt, launch.get("repairs")))
    return found
