"""Opening a run whose lock is held: mend what a crash left, adopt what lives, record what ended.

Readers never come here. Whatever point a crash hit, one pass of this leaves a session from which
the engine goes on as if nothing had happened.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from adw import clock, log
from adw.app import promoting, reading, recovering
from adw.app.define import Definition
from adw.app.environment import inherited
from adw.app.handing import addenda_of
from adw.app.packets import run_task
from adw.app.parts import Parts, Reporter
from adw.app.rebuilding import board_from_files, outcomes
from adw.app.session import Session
from adw.app.wishes import Wishes
from adw.core.decide import Live
from adw.core.interfaces import Ended, ExitRecord, Supervision, Workspace
from adw.errors import EnvironmentFault
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.store import attempts, files, requests
from adw.store.encoding import text_bytes
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
    graph = opened.definition.graph
    secret = {name for phase in graph.phases.values() for name in phase.secrets}
    env = {**inherited(os.environ, config.get("env_pass", ())), **config.get("env", {})}
    parts = Parts(
        lock=opened.lock,
        state=opened.state,
        state_file=opened.state_file,
        history=History(run_dir),
        graph=graph,
        full=opened.definition.full,
        run_info=opened.run_info,
        config=config,
        base_env={name: value for name, value in env.items() if name not in secret},
        worktree=opened.worktree,
        supervision=opened.supervision,
        reporter=opened.reporter,
        holds=_holds,
        fill=_fill,
        program=_program,
        wishes=opened.wishes,
        secrets={name: os.environ[name] for name in secret if name in os.environ},
        resource=lambda path: opened.definition.resource(run_dir, path),
    )
    session = Session(parts)
    _sweep(run_dir)
    _complete_task(run_dir, opened.run_info)
    session.manifest = promoting.settle(run_dir, outcomes(session.state))
    session.addenda = addenda_of(requests.applied_of(run_dir, "task_add"))
    _fill_board(session)
    recovering.recover(session)
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


def _complete_task(run_dir: str, run_info: Mapping[str, Any]) -> None:
    """Give a run that was begun elsewhere a TASK.md; one that adw made has its own, or lost it."""
    path = os.path.join(run_dir, "TASK.md")
    if not (os.path.lexists(path) or os.path.lexists(os.path.join(run_dir, "run.json"))):
        body = "This run was begun elsewhere; its task is not in this folder."
        text = run_task({**run_info["issue"], "body": body})
        files.replace(path, text_bytes(text))


def _fill_board(session: Session) -> None:
    """Take the attempts over from latest.json where it fits the state, else from their files."""
    found = reading.read_latest(session.run_dir)
    if not (
        found
        and found["state_sha256"] == session.parts.state_file.sha256
        # That of another workflow, or of a part of this one, has not all attempts of its phases.
        and [each["phase"] for each in found["phases"]] == list(session.graph.phases)
    ):
        session.board = board_from_files(session.run_dir, session.graph, session.state)
        return
    session.board.load(found["phases"])
    for entry in session.state.phase_history:
        session.board.ended(entry, None, None, None)


def _take_attempts(session: Session) -> None:
    """Adopt what lives, record what ended, remove what never was an attempt."""
    known = {child_id(e.phase, e.attempt) for e in session.state.phase_history}
    found = []
    for child in attempts.child_ids(session.run_dir):
        if child in known:
            continue
        folder = attempts.dir_of(session.run_dir, child)
        lines = _settled_lines(child, folder)
        launch = attempts.find(lines, "launch")
        if launch is None:
            log.event("packet_removed", child_id=child)
            attempts.remove(session.run_dir, child)
        else:
            found.append((launch["at"], child, folder, launch))
            recovering.tell_launch(session, child, lines, session.state.phase_history)
    for name in os.listdir(os.path.join(session.run_dir, "children")):
        tried = name in known or os.path.isdir(attempts.dir_of(session.run_dir, name))
        if attempts.split(name)[1] and not tried:
            attempts.remove(session.run_dir, name)
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
    # Whoever wrote it may have died before it was synced, or the sync may have failed.
    attempts.write_anew(folder)
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
