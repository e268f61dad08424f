"""Opening a run whose lock is held: mend what a crash left, adopt what lives, record what ended.

Readers never come here. Whatever point a crash hit, one pass of this leaves a session from which
the engine goes on as if nothing had happened.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adw import clock, log
from adw.app import reading
from adw.app.define import Definition
from adw.app.environment import inherited
from adw.app.parts import Parts, Reporter
from adw.app.rebuilding import board_from_files
from adw.app.session import Session
from adw.app.wishes import Wishes
from adw.core.decide import Live
from adw.core.interfaces import Ended, ExitRecord, Supervision, Workspace
from adw.errors import EnvironmentFault
from adw.ids import child_id
from adw.model.state import ADWStateData, HistoryEntry
from adw.store import attempts, files, requests
from adw.store.history import History
from adw.store.runs import DIRS, RunLock
from adw.store.state import StateFile

_HANDOVER_S: Final = 10.0  # a supervisor that has a packet records itself within milliseconds


@dataclass(frozen=True, slots=True)
class Opened:
    """What a use case has in hand before it makes a session."""

    lock: RunLock
    state: ADWStateData
    state_file: StateFile
    definition: Definition
    run_info: Mapping[str, Any]
    worktree: Workspace
    supervision: Supervision
    reporter: Reporter
    wishes: Wishes
    command: str
    """For the history: `run`, `resume` …"""


def make_session(opened: Opened) -> Session:
    """Build the session and bring it up to date with the world; nothing is started."""
    run_dir = opened.lock.run_dir
    config = opened.definition.config
    base_env = {**inherited(os.environ, config.get("env_pass", ())), **config.get("env", {})}
    parts = Parts(
        lock=opened.lock,
        state=opened.state,
        state_file=opened.state_file,
        history=History(run_dir),
        graph=opened.definition.graph,
        run_info=opened.run_info,
        config=config,
        base_env=base_env,
        worktree=opened.worktree,
        supervision=opened.supervision,
        reporter=opened.reporter,
        holds=_holds,
        fill=_fill,
        program=_program,
        wishes=opened.wishes,
    )
    session = Session(parts)
    _sweep(run_dir)
    _fill_board(session)
    _recover_events(session)
    session.event("run_opened", {"command": opened.command, "pid": os.getpid()})
    opened.wishes.look(session)
    _take_attempts(session)
    return session


def _holds(expression: str, names: Mapping[str, object]) -> bool:
    from adw.core.when import holds

    return holds(expression, names)


def _fill(text: str, values: Mapping[str, object]) -> str:
    from adw.core.template import fill

    return fill(text, values) if "{" in text else text


def _program(use: str) -> tuple[str, ...]:
    import sys

    return (sys.executable, "-I", "-m", f"adw.phases.{use}")


def _sweep(run_dir: str) -> None:
    for name in {"", *DIRS} - {requests.DIR}:
        files.sweep(os.path.join(run_dir, name))
    requests.sweep(run_dir)


def _fill_board(session: Session) -> None:
    """Take the attempts over from latest.json where it fits the state, else from their files."""
    found = reading.read_latest(session.run_dir)
    if found is None or found.get("state_sha256") != session.parts.state_file.sha256:
        session.board = board_from_files(session.run_dir, session.graph, session.state)
        return
    session.board.load(found["phases"])
    for entry in session.state.phase_history:
        session.board.ended(entry, None, None, None)


def _recover_response(
    session: Session, entry: HistoryEntry, child: str, line: Mapping[str, Any]
) -> None:
    """Have a child's RESPONSE.md written that a crash swallowed or left half-made."""
    folder = os.path.join(session.run_dir, "children", child)
    if os.path.isdir(folder):
        files.sweep(folder)
        session.respond(entry, child, line.get("error"))


def _exit_line(session: Session, child: str) -> dict[str, Any]:
    folder = os.path.join(session.run_dir, "attempts", child)
    return attempts.find(attempts.read_lines(folder), "exit") or {}


def _recover_events(session: Session) -> None:
    """Write the events again that a crash swallowed between commit and publish."""
    history, entries = session.parts.history, session.state.phase_history
    for number in range(history.entries, len(entries)):
        entry = entries[number]
        common: dict[str, Any] = {"entries": number + 1, "stage": entry.phase, "recovered": True}
        if entry.attempt:
            child = child_id(entry.phase, entry.attempt)
            line = _exit_line(session, child)
            slots = {
                "attempt": entry.attempt,
                "success": entry.success,
                "reason": entry.reason,
                "exit_code": line.get("exit_code"),
                "commit": entry.commit,
                "detail": line.get("error"),
            }
            history.add("child_completed", slots, child_id=child, **common)
            _recover_response(session, entry, child, line)
        else:
            kind = "phase_skipped" if entry.reason == "skipped" else "phase_marked"
            history.add(kind, {"reason": entry.reason}, **common)


def _take_attempts(session: Session) -> None:
    """Adopt what lives, record what ended, remove what never was an attempt."""
    known = {child_id(e.phase, e.attempt) for e in session.state.phase_history}
    found = []
    for child in attempts.child_ids(session.run_dir):
        if child in known:
            continue
        folder = os.path.join(session.run_dir, "attempts", child)
        lines = _settled_lines(child, folder)
        launch = attempts.find(lines, "launch")
        if launch is None:
            log.event("packet_removed", child_id=child)
            attempts.remove(session.run_dir, child)
        else:
            found.append((launch["at"], child, folder, launch))
    for path in os.listdir(os.path.join(session.run_dir, "children")):
        if path not in known and not os.path.isdir(os.path.join(session.run_dir, "attempts", path)):
            attempts.remove(session.run_dir, path)
    for _, child, folder, launch in sorted(found, key=lambda each: each[:2]):
        _take(session, child, folder, launch)


def _take(session: Session, child: str, folder: str, launch: dict[str, Any]) -> None:
    live = Live(launch["phase"], launch["attempt"], launch.get("repairs"))
    lines = attempts.read_lines(folder)
    supervisor = attempts.find(lines, "supervisor")
    if supervisor and attempts.find(lines, "exit") is None and attempts.alive(folder):
        attempts.note_adoption(folder, clock.stamp())
        if session.parts.supervision.adopt(child, folder, supervisor):
            session.adopted(live, child, launch["at"], supervisor["pid"])
            return
        lines = attempts.read_lines(folder)
    line = attempts.find(lines, "exit")
    record = ExitRecord.of(line) if line else None
    if record is None or record.reason == "interrupted":
        session.found(live, child, launch["at"])
    else:
        attempts.note_adoption(folder, clock.stamp())
        session.adopted(live, child, launch["at"], (supervisor or {}).get("pid", 0))
        # Its supervisor may have died between writing and syncing it.
        files.sync_file(os.path.join(folder, attempts.FILE))
    session.record(Ended(child, record, adopted=True))


def _settled_lines(child: str, folder: str) -> list[dict[str, Any]]:
    """Lines of an attempt, waited for while a packet is on its way to a supervisor.

    Raises:
        EnvironmentFault: Somebody holds it and does not say who: it may yet start a body.
    """
    import time

    deadline = clock.monotonic() + _HANDOVER_S
    while attempts.alive(folder):
        lines = attempts.read_lines(folder)
        if attempts.find(lines, "supervisor"):
            return lines
        if clock.monotonic() > deadline:
            detail = f"attempt `{child}` is held by a process that has not recorded itself"
            reason = "it was stopped, or the machine is very slow"
            raise EnvironmentFault(detail=detail, reason=reason, fix=None)
        time.sleep(0.01)
    return attempts.read_lines(folder)
