"""What readers are told of runs: they take no lock, write nothing, and trust no stale file.

The usual path needs neither pydantic nor the graph: `state/latest.json` counts while the digest of
the state in it fits. Otherwise the view is computed again from state, pin and attempt files.
"""

import hashlib
import json
import os
import time
from typing import Any, Final

from adw.errors import AdwError, StateError
from adw.store import attempts, files, runs

SCHEMA_VERSION: Final = 1
_LATEST: Final = os.path.join("state", "latest.json")
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
    living = _living(run_dir, view)
    phases = [_phase(phase, living, held=held) for phase in view["phases"]]
    now = _status(view, held=held)
    action = f"adw resume {view['adw_id']}" if now == "interrupted" else view["next_action"]
    return {
        "schema_version": SCHEMA_VERSION,
        "adw_id": view["adw_id"],
        "workflow": view["workflow"],
        "definition": view["definition"],
        "issue_number": view["issue_number"],
        "status": now,
        "reason": view["reason"] if not held else None,
        "until": view["until"],
        "next_action": f"adw watch {view['adw_id']}" if held else action,
        "tree_end": view["tree_end"],
        "isolation": "none",
        "living": [{"child_id": child, "pid": pid} for child, pid in living.items()],
        "state": state,
        "phases": phases,
    }


def listing(agents_dir: str) -> dict[str, Any]:
    """All runs in short, as `adw status --json` prints them; a damaged one is `broken`."""
    return {
        "schema_version": SCHEMA_VERSION,
        "runs": [_short(agents_dir, name) for name in runs.list_ids(agents_dir)],
    }


def _short(agents_dir: str, name: str) -> dict[str, Any]:
    run_dir = os.path.join(agents_dir, name)
    try:
        held = runs.held(run_dir)
        view, state = _heads(run_dir) or _view(run_dir)
        return {
            "adw_id": name,
            "workflow": view["workflow"],
            "issue_number": view["issue_number"],
            "status": _status(view, held=held),
            "updated_at": state.get("updated_at"),
        }
    except AdwError as error:
        return {
            "adw_id": name,
            "workflow": None,
            "issue_number": None,
            "status": "broken",
            "updated_at": None,
            "error": error.as_json()["error"],
        }


def _heads(run_dir: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """View and state without phases and history, which a list does not show.

    None where they do not fit each other, or have not the form that adw writes.
    """
    data = _state_bytes(run_dir)
    try:
        latest = files.read(os.path.join(run_dir, _LATEST))
        state, in_form = _head(data, b',\n  "phase_history": [')
        view, view_in_form = _head(latest, b',\n "phases": ')
    except (OSError, ValueError):
        return None
    if not (in_form and view_in_form):
        return None
    fits = view.get("state_sha256") == hashlib.sha256(data).hexdigest()
    return (view, state) if fits else None


def _head(data: bytes, rest: bytes) -> tuple[dict[str, Any], bool]:
    """A document up to its last, long key: a raw newline cannot stand inside a JSON string."""
    head, found, _ = data.partition(rest)
    return (json.loads(head + b"}"), True) if found else ({}, False)


def _view(run_dir: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The derived view that fits the state, and the state as plain JSON."""
    for _ in range(_REREADS):
        data = _state_bytes(run_dir)
        latest = _latest(run_dir)
        if latest and latest.get("state_sha256") == hashlib.sha256(data).hexdigest():
            return latest, json.loads(data)
        if not runs.held(run_dir):
            break
        time.sleep(_REREAD_S)
    from adw.app.rebuilding import rebuild

    return rebuild(run_dir)


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


def _latest(run_dir: str) -> dict[str, Any] | None:
    try:
        found = json.loads(files.read(os.path.join(run_dir, _LATEST)))
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("phases"), list) else None


def _status(view: dict[str, Any], *, held: bool) -> str:
    """Lock held: queued, running or held; free: what `closing` says, else interrupted."""
    if held:
        return "held" if view["status"] == "held" and not view["closing"] else "running"
    if not view["closing"]:
        return "interrupted"
    return "failed" if view["closing"] == "stuck" else str(view["closing"])


def _living(run_dir: str, view: dict[str, Any]) -> dict[str, int | None]:
    """Attempts without an entry whose supervisor lives, with the process id of their body."""
    over = {
        attempt["child_id"]
        for phase in view["phases"]
        for attempt in phase["attempts"]
        if attempt["success"] is not None
    }
    found: dict[str, int | None] = {}
    for child in sorted(attempts.child_ids(run_dir)):
        folder = os.path.join(run_dir, "attempts", child)
        if child not in over and attempts.alive(folder):
            body = attempts.find(attempts.read_lines(folder), "body")
            found[child] = body["pid"] if body else None
    return found


def _phase(phase: dict[str, Any], living: dict[str, int | None], *, held: bool) -> dict[str, Any]:
    """A phase whose attempt has ended unseen is pending; one that lives on is running."""
    runs_on = any(attempts.split(child)[0] == phase["phase"] for child in living)
    if runs_on:
        return {**phase, "status": "running"}
    if phase["status"] == "running" and not held:
        return {**phase, "status": "pending"}
    return phase


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
        folder = os.path.join(run_dir, "attempts", child)
        launch = attempts.find(attempts.read_lines(folder), "launch") or {}
        for log in ("stdout.log", "stderr.log"):
            path = os.path.join(folder, log)
            if os.path.isfile(path):
                found.append((str(launch.get("at", "")), name, number, child, path))
    found.sort(key=lambda each: each[:3])  # stable: an attempt's stdout stays before its stderr
    return [(child, path) for *_, child, path in found]
