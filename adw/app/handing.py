"""Handing an attempt over: its inputs read again, its packet filled, checked and written."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from adw.app import keeping, launching, promoting
from adw.app.environment import with_settings
from adw.app.launching import IncompletePacket, Launch, Launched
from adw.app.narrowing import faults_before, good_before
from adw.app.packets import Brief, Failure, addendum, template_values
from adw.app.promoting import Input, MissingInput
from adw.app.publish import failure_words
from adw.core.decide import Start
from adw.core.endless import MOST, without_outcome
from adw.core.graph import Phase
from adw.core.outcome import one_line
from adw.core.rounds import round_of
from adw.errors import StoreError, WorktreeError
from adw.ids import child_id
from adw.model.state import ADWStateData, HistoryEntry
from adw.store import attempts, files
from adw.store.encoding import text_bytes

if TYPE_CHECKING:
    from adw.app.session import Session

TAIL_BYTES: Final = 4096  # of what a failed attempt printed, told to its repair phase
TASK_LIMIT: Final = 64 << 20  # bytes of a TASK.md; clarifications are small


class Refused(Exception):
    """An attempt that is not launched: what it would be told is not there."""

    reason = "spawn_failed"
    """Failure kind."""


class NoWorktree(Refused):
    """The worktree is not the run's own."""

    reason = "workspace"


class Endless(Refused):
    """The phase was started again and again, and never came to an end."""

    reason = "stuck"


class NoPacket(Exception):
    """A living attempt has no TASK.md any more that could be added to; says so in one line."""


class NoSecret(Refused):
    """A secret that the phase names is not set."""

    reason = "auth"


def hand(
    session: "Session",
    start: Start,
    at: str,
    history: Sequence[HistoryEntry],
    fingerprint: Callable[[str, Sequence[HistoryEntry]], str | None],
) -> Launched:
    """Keep what is in the worktree, write the packet of a start, and tell of it.

    Args:
        session: The open run.
        start: What starts.
        at: When.
        history: Entries, those of the next commit included.
        fingerprint: Makes that of the tree, where `ensure: [changed]` of the phase asks for it.

    Raises:
        Refused: The worktree is not the run's, the packet would name what is not there, a name
            has no value, or the phase never comes to an end; nothing is left.
        GitError: The tree could not be kept.
        OSError: The packet is not whole; opening the run removes it.
    """
    phase = session.graph.phases[start.phase]
    _bounded(history, start.phase)
    ground = _kept(session, start, history)
    try:
        brief = _brief(session, start, history)
        launch = Launch(
            start=start,
            phase=_filled(session, phase, brief.inputs),
            child_id=child_id(start.phase, start.attempt),
            at=at,
            round=round_of(session.parts.full, history, start.phase, start.repairs),
            before=fingerprint(start.phase, history),
            ground=ground,
            brief=brief,
            skill=session.parts.resource(phase.skill) if phase.skill else None,
            secrets=_secrets(phase, session.parts.secrets),
        )
        launched = launching.write_launch(launch, session.parts.base_env, session.parts.config)
    except MissingInput as error:
        message = f"{error}{_way_out(session, error.name)}"
        raise Refused(message) from error
    except (IncompletePacket, ValueError) as error:
        raise Refused(str(error)) from error
    cause = "narrowed_retry" if brief.missing else "attempt"
    session.packet_written(start.phase, launch.child_id, launched.task_sha256, cause)
    for each in brief.inputs:
        _tell_change(session, start.phase, launch.child_id, each)
    return launched


def _bounded(history: Sequence[HistoryEntry], phase: str) -> None:
    """Raise Endless where a phase never comes to an end."""
    if without_outcome(history, phase) >= MOST:
        message = f"it was started {MOST} times in a row and never came to an end"
        raise Endless(message)


def _kept(session: "Session", start: Start, history: Sequence[HistoryEntry]) -> keeping.Ground:
    """Keep what is in the worktree.

    Raises:
        NoWorktree: It is not the run's.
    """
    try:
        return keeping.before(session, start, history)
    except WorktreeError as error:
        raise NoWorktree(error.message) from error


def _brief(session: "Session", start: Start, history: Sequence[HistoryEntry]) -> Brief:
    """What the packet tells; inputs are read again.

    Raises:
        MissingInput: One is not there.
    """
    run_dir, tree = session.run_dir, session.parts.worktree.path
    names = session.graph.phases[start.phase].inputs
    missing = faults_before(run_dir, start.phase, history) if start.attempt > 1 else None
    return Brief(
        run_dir=run_dir,
        worktree=tree,
        state=_with_plan(session, start),
        title=str(session.parts.run_info["issue"]["title"]),
        repairs=_failure(session, start.repairs) if start.repairs else None,
        inputs=promoting.inputs(run_dir, names, session.manifest.entries, tree),
        missing=missing,
        again=good_before(run_dir, missing[0]) if missing else (),
        addenda=session.addenda.get(start.phase, ()),
    )


def _way_out(session: "Session", name: str) -> str:
    """Which phase makes a missing input: another try of the one that reads it would not."""
    for phase in session.parts.full.phases.values():
        if name in {output.name for output in phase.outputs} and phase.name in session.graph.phases:
            return f"; adw resume {session.state.adw_id} --from {phase.name} makes it"
    return ""


def _with_plan(session: "Session", start: Start) -> ADWStateData:
    """The state as a packet tells it: a plan that is gone is none, for whoever does not read it.

    Else nothing could start after it was moved, not even the phase that makes it.
    """
    state = session.pending()
    plan = state.plan_file
    if not plan or os.path.exists(os.path.join(session.parts.worktree.path, plan)):
        return state
    phase = session.graph.phases[start.phase]
    words = [*phase.argv, phase.cwd or "", *(word for each in phase.ensure for word in each)]
    if any("{plan_file}" in word or "ADW_PLAN_FILE" in word for word in words):
        return state
    child = child_id(start.phase, start.attempt)
    detail = f"the plan `{one_line(plan)}` is not there; {child} is told of none"
    session.event("warning", {"detail": detail}, stage=start.phase, child_id=child)
    return state.model_copy(update={"plan_file": None})


def _failure(session: "Session", owner: str) -> Failure | None:
    """The attempt of an owner that called its repair phase; None where none was launched."""
    tries = [each for each in session.board.attempts(owner) if each["success"] is False]
    if not tries:
        return None
    child, words = tries[-1]["child_id"], failure_words(tries[-1]["reason"], tries[-1]["detail"])
    folder = attempts.dir_of(session.run_dir, child)
    launched = os.path.isdir(os.path.join(session.run_dir, "children", child))
    return Failure(child, words, attempts.log_tail(folder, TAIL_BYTES)) if launched else None


def _filled(session: "Session", phase: Phase, found: Sequence[Input]) -> Phase:
    parts = session.parts
    values = {**template_values(session.pending()), "worktree": parts.worktree.path}
    values.update((f"inputs.{each.name}", each.path) for each in found)
    filled = launching.filled(phase, values, parts.fill, parts.program)
    return with_settings(filled, parts.config)


def _secrets(phase: Phase, known: Mapping[str, str]) -> dict[str, str]:
    """Values of the secrets that a phase names.

    Raises:
        NoSecret: One is not set.
    """
    for name in phase.secrets:
        if not known.get(name):
            detail = f"its secret `{name}` is not set in the environment of adw"
            raise NoSecret(detail)
    return {name: known[name] for name in phase.secrets}


def _tell_change(session: "Session", phase: str, child: str, found: Input) -> None:
    """Content that differs from what was recorded is used, and told."""
    if found.sha256 == found.recorded_sha256:
        return
    slots = {
        "logical_name": found.name,
        "path": os.path.relpath(found.path, _base(session, found)),
        "recorded_sha256": found.recorded_sha256,
        "found_sha256": found.sha256,
    }
    session.event("input_changed", slots, stage=phase, child_id=child)


def _base(session: "Session", found: Input) -> str:
    """What the path of an input is relative to: the worktree, else the state root."""
    tree = session.parts.worktree.path
    return tree if found.path.startswith(tree + os.sep) else session.run_dir


def add_to_task(session: "Session", request: str, phase: str, text: str, *, told: bool) -> None:
    """Take a person's clarification into every later packet of a phase, and the living one.

    Args:
        session: The open run.
        request: Name of the request; the same one again changes nothing.
        phase: Its name.
        text: Of the clarification.
        told: The history has it already.

    Raises:
        StoreError: The living attempt's TASK.md could not be replaced.
    """
    known = session.addenda.setdefault(phase, [])
    if request not in dict(known):
        known.append((request, text))
    child, digest = "", None
    if phase in session.graph.phases:  # else of a workflow that the run has left
        child = child_id(phase, session.fold.attempt(phase) + 1)
        try:
            digest = append_to_task(session.run_dir, child, request, text)
        except NoPacket as error:
            detail = f"`{request}` is in the tasks of later attempts only: {error}"
            session.event("warning", {"detail": detail}, stage=phase, child_id=child)
    if told:
        return
    slots = {"request": request, "size_bytes": len(text_bytes(text))}
    session.event("task_added", slots, stage=phase, child_id=child if digest else None)
    if digest:
        session.packet_written(phase, child, digest, "addendum")


def append_to_task(run_dir: str, child: str, request: str, text: str) -> str | None:
    """Add a clarification to the packet of a living attempt, in one replace.

    Returns:
        SHA-256 of the new TASK.md; None where there is no such attempt.

    Raises:
        NoPacket: The attempt did away with its TASK.md.
        StoreError: It could not be replaced.
    """
    if not os.path.isdir(attempts.dir_of(run_dir, child)):
        return None
    folder = attempts.child_dir(run_dir, child)
    if folder is None:
        message = f"the folder of `{child}` is gone"
        raise NoPacket(message)
    path = os.path.join(folder, "TASK.md")
    try:
        data = files.read(path, limit=TASK_LIMIT)
    except OSError as error:
        message = f"TASK.md of `{child}` cannot be read: {error.strerror or error}"
        raise NoPacket(message) from error
    try:
        block = b"\n" + text_bytes(addendum(request, text))
        if block not in data:  # its heading alone may stand in what somebody quotes
            data += block
            files.replace(path, data)
    except OSError as error:
        raise StoreError.of(error, path) from error
    return hashlib.sha256(data).hexdigest()


def task_digest(run_dir: str, child: str) -> str | None:
    """SHA-256 of an attempt's TASK.md as it is now; None where there is none that can be read."""
    try:
        data = files.read(os.path.join(run_dir, "children", child, "TASK.md"), limit=TASK_LIMIT)
    except OSError:
        return None
    return hashlib.sha256(data).hexdigest()


def addenda_of(requests: Sequence[Any]) -> dict[str, list[tuple[str, str]]]:
    """Clarifications by phase, from the requests that made them."""
    found: dict[str, list[tuple[str, str]]] = {}
    for each in requests:
        phase, text = each.fields.get("phase"), each.fields.get("text")
        if isinstance(phase, str) and isinstance(text, str):
            found.setdefault(phase, []).append((each.name, text))
    return found
