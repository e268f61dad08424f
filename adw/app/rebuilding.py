"""The view of a run, computed from state, pin and attempt files: what latest.json is derived from."""

import hashlib
import json
import os
import time
from dataclasses import dataclass
from typing import Any, Final

from adw.app import define, publish
from adw.app.packets import template_values
from adw.core.decide import Decision, Fold, Live, decide
from adw.core.graph import Graph
from adw.core.interfaces import ExitRecord
from adw.core.outcome import one_line, outcome_word, told_by
from adw.core.view import PhaseBoard
from adw.ids import child_id
from adw.model.state import ADWStateData, HistoryEntry
from adw.store import attempts, effects, files
from adw.store.encoding import fits
from adw.store.state import load_state


@dataclass(frozen=True, slots=True)
class Computed:
    """A run as a reader computes it."""

    state: ADWStateData
    data: bytes
    graph: Graph
    fold: Fold
    decision: Decision
    board: PhaseBoard
    running: list[Live]


def compute(run_dir: str) -> Computed:
    """Decide anew what a run's files say; nothing is written.

    Raises:
        StateError: The state is damaged or of another version.
    """
    state, data = load_state(run_dir)
    graph = define.load(run_dir, state.workflow).graph if state.workflow else bare_graph(state)
    fold = Fold.of(graph, state.phase_history)
    running = _running(run_dir, state)
    outcomes = {entry.phase: outcome_word(entry) for entry in state.phase_history}

    def holds(_phase: str, expression: str) -> bool:
        from adw.core.when import holds

        names = dict.fromkeys(graph.phases, "excused") | outcomes
        return holds(expression, {**names, **template_values(state)})

    decision = decide(graph, fold, running, time.time(), holds)  # noqa: TID251  a reader's clock
    board = board_from_files(run_dir, graph, state)
    for live in running:
        child = child_id(live.phase, live.attempt)
        lines = attempts.lines_of(run_dir, child)
        begun = (attempts.find(lines, "launch") or {}).get("at", "")
        adopted = attempts.find(lines, "adopt") is not None
        board.started(live.phase, live.attempt, child, begun, adopted=adopted)
    board.update(decision, {live.phase: child_id(live.phase, live.attempt) for live in running})
    return Computed(state, data, graph, fold, decision, board, running)


def view_from_files(run_dir: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The view as latest.json would hold it, and the state as plain JSON."""
    found = compute(run_dir)
    facts = publish.Facts(
        state=found.state,
        state_sha256=hashlib.sha256(found.data).hexdigest(),
        graph=found.graph,
        board=found.board,
        running=bool(found.running),
        tree_end=_tree_end(run_dir, found),
        base=read_info(run_dir).get("base"),
        left=left_of(run_dir),
        unsure=found.decision.closing == "held" and effects.unsure(run_dir),
    )
    view = publish.view_head(facts, found.decision)
    view["phases"] = json.loads(found.board.encoded())
    return view, json.loads(found.data)


def left_of(run_dir: str) -> str | None:
    """How the last sitting ended, by the history, where it ended in order; for display."""
    from adw.store.history import read_history

    try:
        events = list(read_history(run_dir))
    except OSError:
        return None
    for event in reversed(events):
        if event["event"] == "run_left":
            return str(event["by"])
        if event["event"] == "run_opened" and event["command"] in {"run", "resume"}:
            return None
    return None


def _tree_end(run_dir: str, found: Computed) -> str | None:
    """How the latest attempt's supervisor ends its tree."""
    tried = [(e.phase, e.attempt) for e in found.state.phase_history if e.attempt]
    tried += [(live.phase, live.attempt) for live in found.running]
    for phase, attempt in reversed(tried):
        lines = attempts.lines_of(run_dir, child_id(phase, attempt))
        line = attempts.find(lines, "supervisor")
        if line:
            return str(line.get("tree_end"))
    return None


def board_from_files(run_dir: str, graph: Graph, state: ADWStateData) -> PhaseBoard:
    """All attempts, with exit codes from their own files."""
    board = PhaseBoard(graph)
    for entry in state.phase_history:
        if entry.attempt == 0:
            board.ended(entry, None, None, None)
            continue
        child = child_id(entry.phase, entry.attempt)
        lines = attempts.lines_of(run_dir, child)
        if attempts.find(lines, "adopt") and entry.started_at:
            board.started(entry.phase, entry.attempt, child, entry.started_at, adopted=True)
        board.ended(entry, child, attempts.exit_code(lines), attempt_detail(entry, lines))
    return board


def attempt_detail(entry: HistoryEntry, lines: list[dict[str, Any]]) -> str | None:
    """What was said of an attempt's end: by its verdict line, else by its exit line."""
    verdict = attempts.verdict(lines)
    if verdict and (verdict["success"], verdict["reason"]) == (entry.success, entry.reason):
        detail: str | None = verdict["detail"]
        return detail
    line = attempts.find(lines, "exit")
    if entry.success or line is None:
        return None
    told = told_by(ExitRecord.of({"ended_at": "", **line}))
    return one_line(str(told)) if told else None


def outcomes(state: ADWStateData) -> list[tuple[str, int, bool]]:
    """(phase, attempt, success) of each entry."""
    return [(entry.phase, entry.attempt, entry.success) for entry in state.phase_history]


def _running(run_dir: str, state: ADWStateData) -> list[Live]:
    known = {child_id(entry.phase, entry.attempt) for entry in state.phase_history}
    found = []
    for child in attempts.child_ids(run_dir):
        folder = attempts.dir_of(run_dir, child)
        if child in known or not attempts.alive(folder):
            continue
        launch = attempts.find(attempts.read_lines(folder), "launch")
        if launch:
            found.append(Live(launch["phase"], launch["attempt"], launch.get("repairs")))
    return found


def bare_graph(state: ADWStateData) -> Graph:
    """A graph for a state without definition: its phases, in the order of their first entry."""
    from adw.core.graph import Phase

    names = list(dict.fromkeys(entry.phase for entry in state.phase_history))
    phases = {name: Phase(name) for name in names}
    unneeded: dict[str, tuple[str, ...]] = dict.fromkeys(names, ())
    return Graph("unknown", phases, tuple(names), 1, {}, unneeded, {})


def read_info(run_dir: str) -> dict[str, Any]:
    """run.json, or what is known without it (a state that was written elsewhere)."""
    unknown: dict[str, Any] = {
        "number": None,
        "title": os.path.basename(run_dir),
        "labels": [],
        "issue_class": None,
    }
    try:
        found = json.loads(files.read(os.path.join(run_dir, "run.json")))
    except (OSError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        found = {}
    base = found.get("base")
    sound = fits(found.get("issue"), _ISSUE)
    issue = found["issue"] if sound else unknown
    return {**found, "issue": issue, "base": base if isinstance(base, str) else None}


_ISSUE: Final = {
    "number": (int, type(None)),
    "title": (str,),
    "labels": (list,),
    "issue_class": (str, type(None)),
}
