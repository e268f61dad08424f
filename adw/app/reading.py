"""What readers are told of runs: they take no lock, write nothing, and trust no stale file.

The usual path needs neither pydantic nor the graph: `state/latest.json` counts while the digest of
the state in it fits. Otherwise the view is computed again from state, pin and attempt files.
"""

import hashlib
import json
import os
import time
from collections.abc import Iterable
from typing import Any, Final

from adw.app.standing_still import stopped
from adw.core.isolation import NONE
from adw.errors import AdwError, StateError
from adw.store import attempts, files, runs
from adw.store.encoding import fits

SCHEMA_VERSION: Final = 1
LATEST: Final = os.path.join("state", "latest.json")
_REREADS: Final = 20  # of latest.json while an orchestrator is between commit and publish
_REREAD_S: Final = 0.01


def status(run_dir: str) -> dict[str, Any]:
    """The whole view of one run, as `adw status ID --json` prints it.

    Raises:
        StateError: The state is damaged or of another version.
    """
    held = runs.held(run_dir)  # before the state: one that ends meanwhile was running, not cut off
    view, state = _view(run_dir)
    held = held and runs.held(run_dir) if view["closing"] else held
    unrecorded = _unrecorded(run_dir, view)
    living = {child: pid for child, (alive, pid, _) in unrecorded.items() if alive}
    unseen = {child: words for child, (_, _, words) in unrecorded.items() if words and not held}
    phases = [_phase(phase, living, unseen, held=held) for phase in view["phases"]]
    survivors = None if held else _survivors(run_dir, unrecorded)
    queued = _queue_words(run_dir) if held else None
    now = "held" if survivors else "queued" if queued else _status(view, held=held)
    action = f"adw resume {view['adw_id']}" if now == "interrupted" else view["next_action"]
    return {
        "schema_version": SCHEMA_VERSION,
        "adw_id": view["adw_id"],
        "workflow": view["workflow"],
        "definition": view["definition"],
        "issue_number": view["issue_number"],
        "status": now,
        "reason": queued if held else survivors or _reason(view, now),
        "paused": now == "interrupted" and view.get("left") == "pause",
        "until": view["until"],
        "next_action": f"adw watch {view['adw_id']}" if held else action,
        "tree_end": view["tree_end"],
        "isolation": NONE,
        "living": [{"child_id": child, "pid": pid} for child, pid in living.items()],
        "stopped": stopped(run_dir, living, held=held) if held or living else [],
        "state": state,
        "phases": phases,
    }


def listing(agents_dir: str) -> dict[str, Any]:
    """All runs in short, as `adw status --json` prints them; a damaged one is `broken`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [short(agents_dir, name) for name in runs.list_ids(agents_dir)],
    }


def short(agents_dir: str, name: str) -> dict[str, Any]:
    """One line of the list."""
    run_dir = os.path.join(agents_dir, name)
    try:
        held = runs.held(run_dir)
        view, state = _heads(run_dir) or _view(run_dir)
        return {
            "adw_id": name,
            "workflow": view["workflow"],
            "issue_number": view["issue_number"],
            "status": "queued" if held and _waits(run_dir) else _status(view, held=held),
            "paused": not held and not view["closing"] and view.get("left") == "pause",
            "updated_at": state.get("updated_at"),
        }
    except AdwError as error:
        return {
            "adw_id": name,
            "workflow": None,
            "issue_number": None,
            "status": "broken",
            "paused": False,
            "updated_at": None,
            "error": error.as_json()["error"],
        }


def _heads(run_dir: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """View and state without phases and history, which a list does not show.

    None where they do not fit each other, or have not the form that adw writes.
    """
    data = _state_bytes(run_dir)
    try:
        latest = files.read(os.path.join(run_dir, LATEST))
        state, in_form = _head(data, b',\n  "phase_history": [')
        view, view_in_form = _head(latest, b',\n "phases": ')
    except (OSError, ValueError):
        return None
    if not (in_form and view_in_form and fits(view, _HEAD)):
        return None
    same = view.get("state_sha256") == hashlib.sha256(data).hexdigest()
    return (view, state) if same else None


def _head(data: bytes, rest: bytes) -> tuple[dict[str, Any], bool]:
    """A document up to its last, long key: a raw newline cannot stand inside a JSON string."""
    head, found, _ = data.partition(rest)
    return (json.loads(head + b"}"), True) if found else ({}, False)


def _view(run_dir: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The derived view that fits the state, and the state as plain JSON."""
    for _ in range(_REREADS):
        data = _state_bytes(run_dir)
        latest = read_latest(run_dir)
        if latest and latest.get("state_sha256") == hashlib.sha256(data).hexdigest():
            return latest, json.loads(data)
        if not runs.held(run_dir):
            break
        time.sleep(_REREAD_S)
    from adw.app.rebuilding import view_from_files

    return view_from_files(run_dir)


def outcomes(run_dir: str) -> list[tuple[str, int, bool]]:
    """(phase, attempt, success) of each entry of the state.

    Raises:
        StateError: It cannot be read.
    """
    data = _state_bytes(run_dir)
    try:
        entries = json.loads(data)["phase_history"]
        return [(e["phase"], e.get("attempt", 0), e.get("success") is True) for e in entries]
    except (ValueError, KeyError, TypeError) as error:
        path, adw_id = os.path.join(run_dir, "adw_state.json"), os.path.basename(run_dir)
        raise StateError(path=path, what="state file", reason=str(error), adw_id=adw_id) from error


def _state_bytes(run_dir: str) -> bytes:
    path = os.path.join(run_dir, "adw_state.json")
    try:
        return files.read(path)
    except OSError as error:
        raise StateError(
            path=path,
            what="state file",
            reason=error.strerror or str(error),
            adw_id=os.path.basename(run_dir),
        ) from error


def read_latest(run_dir: str) -> dict[str, Any] | None:
    """The derived view, or None where it is missing or damaged."""
    try:
        found = json.loads(files.read(os.path.join(run_dir, LATEST)))
    except (OSError, ValueError, RecursionError):
        return None
    return found if _sound(found) else None


def _sound(view: Any) -> bool:
    """Whether a view is of the form that adw writes: whoever changed it, no reader stumbles."""
    return (
        fits(view, _HEAD)
        and isinstance(view.get("phases"), list)
        and all(
            fits(phase, _PHASE) and all(fits(each, _ATTEMPT) for each in phase["attempts"])
            for phase in view["phases"]
        )
    )


_TEXT: Final = (str, type(None))
_HEAD: Final = {
    "state_sha256": (str,),
    "adw_id": (str,),
    "workflow": _TEXT,
    "definition": _TEXT,
    "issue_number": (int, type(None)),
    "status": (str,),
    "closing": _TEXT,
    "reason": _TEXT,
    "until": _TEXT,
    "next_action": (str,),
    "tree_end": _TEXT,
}
_PHASE: Final = {"phase": (str,), "status": (str,), "attempts": (list,)}
_ATTEMPT: Final = {
    "attempt": (int,),
    "child_id": (str,),
    "success": (bool, type(None)),
    "reason": _TEXT,
    "exit_code": (int, type(None)),
    "started_at": _TEXT,
    "ended_at": _TEXT,
    "adopted": (bool,),
    "detail": _TEXT,
}


def _queue_words(run_dir: str) -> str | None:
    """Where a held run waits, if it waits for others to end."""
    from adw.workspace import queue, tables

    found = queue.standing(tables.host_dir(), run_dir, runs.alive)
    return queue.words(found) if found else None


def _waits(run_dir: str) -> bool:
    """Whether a held run waits for others to end."""
    from adw.workspace import queue, tables

    return queue.waits(tables.host_dir(), run_dir)


def _status(view: dict[str, Any], *, held: bool) -> str:
    """Lock held and no place in a queue: running or held; free: what `closing` says, else interrupted."""
    if held:
        return "held" if view["status"] == "held" and not view["closing"] else "running"
    if not view["closing"]:
        return "interrupted"
    return "failed" if view["closing"] == "stuck" else str(view["closing"])


def _reason(view: dict[str, Any], status: str) -> str | None:
    """Why the run is where it is; of an interrupted one, how its sitting ended."""
    found: str | None = view["reason"]
    return LEFT.get(view.get("left") or "") if status == "interrupted" else found


LEFT: Final = {
    "pause": "paused by a person",
    "rewind": "rewound by a person",
    "SIGINT": "ended by Ctrl-C",
    "SIGTERM": "ended by SIGTERM",
    "no_place": "as many runs work as may at once",
    "disk": "too little is free on the disk",
}
"""What ended a sitting before the run was over, in words."""


def _unrecorded(
    run_dir: str, view: dict[str, Any]
) -> dict[str, tuple[bool, int | None, str | None]]:
    """Attempts without an entry.

    Returns:
        For each: whether its supervisor lives, the process id of its body, and how it ended.
    """
    over = {
        attempt["child_id"]
        for phase in view["phases"]
        for attempt in phase["attempts"]
        if attempt["success"] is not None
    }
    found: dict[str, tuple[bool, int | None, str | None]] = {}
    for child in sorted(attempts.child_ids(run_dir)):
        if child in over:
            continue
        folder = attempts.dir_of(run_dir, child)
        alive = attempts.alive(folder)
        lines = attempts.read_lines(folder)
        body, end = attempts.find(lines, "body"), attempts.find(lines, "exit")
        words = None if end is None else f"ended ({_words(end)}), not recorded yet"
        found[child] = (alive, body["pid"] if body else None, None if alive else words)
    return found


def _survivors(run_dir: str, unrecorded: Iterable[str]) -> str | None:
    """Which processes of a dead attempt live on, if any could not be ended."""
    for child in unrecorded:
        lines = attempts.lines_of(run_dir, child)
        supervisor = attempts.find(lines, "supervisor") or {}
        if supervisor.get("boot_id") not in {None, _boot_id()}:
            continue
        named = [pid for line in lines for pid in line.get("survivors") or ()]
        alive = [str(pid) for pid in named if runs.start_time(pid) is not None]
        if alive:
            return f"processes of {child} cannot be ended: {', '.join(alive)}"
    return None


def _boot_id() -> str:
    """Process ids mean nothing after the boot that gave them."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _words(end: dict[str, Any]) -> str:
    if end.get("signal"):
        return f"signal {end['signal']}"
    if end.get("reason") in {None, "exit"}:
        return f"exit code {end.get('exit_code')}"
    return str(end["reason"])


def _phase(
    phase: dict[str, Any],
    living: dict[str, int | None],
    unseen: dict[str, str],
    *,
    held: bool,
) -> dict[str, Any]:
    """A phase whose attempt has ended unseen is pending and says so; one that lives on is running."""
    if any(attempts.split(child)[0] == phase["phase"] for child in living):
        return {**phase, "status": "running"}
    ended = [child for child in unseen if attempts.split(child)[0] == phase["phase"]]
    if ended:
        tries = [a for a in phase["attempts"] if a["child_id"] not in ended]
        tries += [_seen_only(child, unseen[child]) for child in ended]
        return {**phase, "status": "pending", "attempts": tries}
    if phase["status"] == "running" and not held:
        return {**phase, "status": "pending"}
    return phase


def _seen_only(child: str, words: str) -> dict[str, Any]:
    """An attempt of which only its own file tells."""
    empty = dict.fromkeys(("success", "reason", "exit_code", "started_at", "ended_at"))
    number = attempts.split(child)[1]
    return {"attempt": number, "child_id": child, **empty, "adopted": False, "detail": words}


def logs(run_dir: str, phase: str | None, attempt: int | None) -> list[tuple[str, str]]:
    """Paths of log files, as (child_id, path), in the order of the attempts.

    Args:
        run_dir: The run.
        phase: Only this phase's; all by default.
        attempt: Only this attempt; all by default.
    """
    found = []
    for child in attempts.child_ids(run_dir):
        name, number = attempts.split(child)
        if phase not in {None, name} or attempt not in {None, number}:
            continue
        folder = attempts.dir_of(run_dir, child)
        launch = attempts.find(attempts.read_lines(folder), "launch") or {}
        for log in ("stdout.log", "stderr.log"):
            path = os.path.join(folder, log)
            if os.path.isfile(path):
                found.append((str(launch.get("at", "")), name, number, child, path))
    found.sort(key=lambda each: each[:3])  # stable: an attempt's stdout stays before its stderr
    return [(child, path) for *_, child, path in found]
