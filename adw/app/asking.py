"""What people ask of a run: cancel, pause, set a field, add to a task, settle an effect.

A request is a durable file. The holder of the run's lock applies it; where nobody holds the lock,
the asker takes it and applies the request itself.
"""

import os
import time
from collections.abc import Mapping
from typing import Any, Final, Literal

from adw import clock
from adw.app.effecting import Choice, settlement, words_on
from adw.app.places import Places, refuse_inside
from adw.app.wishes import SETTABLE
from adw.errors import BusyError, CancelFailed, StoreError, UnknownName, UsageError, suggestion
from adw.store import files, requests, runs
from adw.store.encoding import text_bytes
from adw.store.state import StateFile, load_state

PATIENCE_S: Final = 10.0  # then the request is said to be recorded, not yet applied
CANCEL_PATIENCE_S: Final = 30.0  # SIGTERM, the grace of 5 s, SIGKILL and the death of the tree
_POLL_S: Final = 0.02
APPLIED: Final = "applied"


def cancel(places: Places, run_dir: str, host: Any) -> str:
    """End what runs and record it as cancelled; returns when the tree is dead.

    Returns:
        One line for people.

    Raises:
        CancelFailed: It could not be ended; the status is unchanged.
    """
    refuse_inside(run_dir, "cancel")
    state, _ = load_state(run_dir)
    path = _ask(run_dir, "cancel", {})
    lock = _taken_up_or_lock(run_dir, path, CANCEL_PATIENCE_S)
    if lock is True:
        return _after_cancel(run_dir)
    if lock is None:
        raise CancelFailed(adw_id=state.adw_id, reason="another adw holds it and does not answer")
    settle(places, lock, "cancel", host)
    return _after_cancel(run_dir)


def _after_cancel(run_dir: str) -> str:
    from adw.app import reading

    deadline = clock.monotonic() + PATIENCE_S
    while runs.held(run_dir) and clock.monotonic() < deadline:
        time.sleep(_POLL_S)  # applied, and on its way out
    adw_id = os.path.basename(run_dir)
    found = reading.status(run_dir)
    if found["living"]:
        raise CancelFailed(adw_id=adw_id, reason="a phase is still alive")
    return f"run {adw_id} is {found['status']}"


def pause(run_dir: str) -> str:
    """Start nothing new, let what runs finish; without an orchestrator there is nothing to do."""
    refuse_inside(run_dir, "pause")
    load_state(run_dir)
    adw_id = os.path.basename(run_dir)
    if not runs.held(run_dir):
        return f"run {adw_id} has no orchestrator, there is nothing to pause"
    path = _ask(run_dir, "pause", {})
    if _taken_up(run_dir, path, PATIENCE_S):
        return f"run {adw_id} starts nothing new; go on with `adw resume {adw_id}`"
    if os.path.exists(path) and not runs.held(run_dir):
        _discard(run_dir, path)
        return f"run {adw_id} has no orchestrator any more"
    return "recorded, not yet applied"


def set_fields(places: Places, run_dir: str, pairs: Mapping[str, str], host: Any) -> str:
    """Set state fields by a person's word.

    Raises:
        UsageError: A field that cannot be set, or a value that the schema refuses.
    """
    refuse_inside(run_dir, "state set")
    state, _ = load_state(run_dir)
    fields = check_fields(pairs)
    try:
        state.changed(**fields)
    except ValueError as error:
        from adw.store.state import first_fault

        raise UsageError(detail=first_fault(error), fix=None) from error
    return _applied_or_recorded(places, run_dir, ("state_set", fields), "state set", host)


def add_to_task(places: Places, run_dir: str, phase: str, data: bytes, host: Any) -> str:
    """Add a person's words to the task of a phase: of the attempt that lives, and of all later ones.

    Args:
        places: The repository and its runs.
        run_dir: The run.
        phase: One of its phases.
        data: UTF-8, not blank, without NUL, at most `requests.TEXT_LIMIT` bytes.
        host: For applying it here, where nobody holds the run.

    Returns:
        One line for people.

    Raises:
        UnknownName: The run has no such phase.
        UsageError: It is no such text.
    """
    refuse_inside(run_dir, "task add")
    standing = {each["phase"]: each["status"] for each in _phases(run_dir)}
    if phase not in standing:
        hint = suggestion(phase, list(standing))
        raise UnknownName(kind="phase", name=phase, suggestion=hint, reason=None)
    fields = {"phase": phase, "text": _text(data)}
    said = _applied_or_recorded(places, run_dir, ("task_add", fields), "task add", host)
    return said if said != APPLIED else _heard(run_dir, phase, fields["text"])


def settle_effect(places: Places, run_dir: str, choice: Choice, host: Any) -> str:
    """Say whether an effect took place that nobody could tell of.

    Args:
        places: The repository and its runs.
        run_dir: The run.
        choice: Which effect, and the person's word.
        host: For applying it here, where nobody holds the run.

    Returns:
        One line for people.

    Raises:
        UnknownName: The run has no such effect.
        UsageError: It needs no settling, is being done just now, or several are meant.
    """
    refuse_inside(run_dir, "effect settle")
    load_state(run_dir)
    fields = settlement(run_dir, choice)
    said = _applied_or_recorded(places, run_dir, ("settle", fields), "effect settle", host)
    return said if said != APPLIED else words_on(run_dir, fields, choice)


def _text(data: bytes) -> str:
    """The words of an addendum."""
    if len(data) > requests.TEXT_LIMIT:
        detail = f"the text has more than {requests.TEXT_LIMIT} bytes"
        fix = "put it into a file of the repository, and name that file in the text"
        raise UsageError(detail=detail, fix=fix)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        detail = f"the text is not UTF-8 at byte {error.start}"
        raise UsageError(detail=detail, fix=None) from error
    if "\0" in text:
        raise UsageError(detail="the text has a NUL byte", fix=None)
    if not text.strip():
        raise UsageError(detail="the text is empty", fix=None)
    return text


def _heard(run_dir: str, phase: str, text: str) -> str:
    """Who reads what was added to a task."""
    found = next((each for each in _phases(run_dir) if each["phase"] == phase), None)
    if found is not None and found["status"] == "running" and found["attempts"]:
        last = found["attempts"][-1]
        if last["success"] is None:
            child = last["child_id"]
            if _has(run_dir, child, text):
                return f"added to the task of {child}, which is running"
            return f"added for the attempts after {child}, which did away with its TASK.md"
    if found is not None and found["status"] in {"done", "skipped", "excused"}:
        return f"added; phase `{phase}` is {found['status']}, so it counts when it runs again"
    return f"added; the next attempt of `{phase}` has it in its task"


def _has(run_dir: str, child: str, text: str) -> bool:
    """Whether the TASK.md of an attempt has these words."""
    try:
        data = files.read(os.path.join(run_dir, "children", child, "TASK.md"))
    except OSError:
        return False
    return text_bytes(text.rstrip()) in data


def _phases(run_dir: str) -> list[dict[str, Any]]:
    from adw.app import reading

    found: list[dict[str, Any]] = reading.status(run_dir)["phases"]
    return found


def _applied_or_recorded(
    places: Places, run_dir: str, wish: tuple[str, dict[str, Any]], command: str, host: Any
) -> str:
    """Ask, and apply it here where nobody holds the run."""
    kind, fields = wish
    path = _ask(run_dir, kind, fields)
    lock = _taken_up_or_lock(run_dir, path, PATIENCE_S)
    if lock is None:
        return "recorded, not yet applied"
    if lock is not True:
        settle(places, lock, command, host)
    return APPLIED


def settle(
    places: Places, lock: runs.RunLock, command: str, host: Any, left: str | None = None
) -> None:
    """Open a run, apply what was asked of it, write what is derived; nothing is started.

    Args:
        places: The repository and its runs.
        lock: Of the run; it is let go.
        command: For the history.
        host: As adw.app.sitting.Host.
        left: How the last sitting ended; by default as latest.json has it, else the history.
    """
    from adw.app import reading
    from adw.app.rebuilding import left_of
    from adw.app.sitting import Work, definition_of

    state, data = load_state(lock.run_dir)
    state_file = StateFile(lock.run_dir, state, data)
    definition = definition_of(lock.run_dir, state)
    latest = reading.read_latest(lock.run_dir)
    left = left or (latest.get("left") if latest else left_of(lock.run_dir))
    Work(places, host, lock, state, state_file, definition, command).settle(left)


def check_fields(pairs: Mapping[str, str]) -> dict[str, Any]:
    """Names and values of `--set` and `adw state set`; an empty value means null."""
    fields: dict[str, Any] = {}
    for name, value in pairs.items():
        if name not in SETTABLE:
            hint = suggestion(name, list(SETTABLE))
            raise UnknownName(kind="settable field", name=name, suggestion=hint, reason=None)
        fields[name] = value or None
    return fields


def _ask(run_dir: str, kind: str, fields: dict[str, Any]) -> str:
    runs.complete_dirs(run_dir)
    entries = len(load_state(run_dir)[0].phase_history)
    try:
        return requests.ask(run_dir, kind, entries, fields)
    except OSError as error:
        raise StoreError.of(error, error.filename or run_dir) from error


def _taken_up(run_dir: str, path: str, patience_s: float) -> bool:
    """Wait until the request's file is gone (True) or nobody holds the run, or time is up."""
    deadline = clock.monotonic() + patience_s
    while clock.monotonic() < deadline:
        if not os.path.exists(path):
            return True
        if not runs.held(run_dir):
            return not os.path.exists(path)
        time.sleep(_POLL_S)
    return False


def _taken_up_or_lock(
    run_dir: str, path: str, patience_s: float
) -> runs.RunLock | Literal[True] | None:
    """Wait until the request is handled (True), or take the lock; None: time is up.

    Where somebody else is quicker to take it, that one applies the request.
    """
    deadline = clock.monotonic() + patience_s
    while True:
        if _taken_up(run_dir, path, deadline - clock.monotonic()):
            return True
        lock = _lock_or_none(run_dir)
        if lock is not None or clock.monotonic() > deadline:
            return lock


def _lock_or_none(run_dir: str) -> runs.RunLock | None:
    try:
        return runs.open_run(run_dir)
    except BusyError:
        return None


def _discard(run_dir: str, path: str) -> None:
    for request in requests.pending(run_dir):
        if request.name == os.path.basename(path):
            requests.applied(run_dir, request)
