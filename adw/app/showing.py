"""A whole run on one page: what was asked, what was done with which evidence, what comes next.

Readers of `adw show`, `adw artifacts` and `adw task show` come here. Nothing is written, no lock is
taken, and on the usual path neither pydantic nor the graph is needed. All paths that are told are
relative to the run's directory, so a copy of it tells the same.
"""

import json
import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from adw.app import reading
from adw.app.secrecy import Claims
from adw.errors import UnknownName, UsageError, suggestion
from adw.ids import child_id
from adw.store import attempts, files, runs

SCHEMA_VERSION: Final = 1
_RESULT_LIMIT: Final = 1 << 20  # bytes, as adw.model.result; a larger one was refused


def show(run_dir: str) -> dict[str, Any]:
    """All that is worth telling of a run, as `adw show ID --json` prints it.

    Raises:
        StateError: The state is damaged or of another version.
    """
    status = reading.status(run_dir)
    info, state = _issue(run_dir), status["state"]
    events = _events(run_dir)
    artifacts = manifest(run_dir)
    made: dict[str, list[str]] = {}
    for each in artifacts:
        made.setdefault(each["producer"], []).append(each["name"])
    commits = _commits(state)
    claims = Claims(run_dir)
    phases = [_phase(run_dir, each, commits, made, claims) for each in status["phases"]]
    earlier = [_phase(run_dir, e, commits, made, claims) for e in _earlier(run_dir, status)]
    return {
        "schema_version": SCHEMA_VERSION,
        "adw_id": status["adw_id"],
        "run_dir": run_dir,
        "workflow": status["workflow"],
        "definition": status["definition"],
        "issue_number": status["issue_number"],
        "title": info.get("title"),
        "status": status["status"],
        "reason": status["reason"],
        "paused": status["paused"],
        "isolation": status["isolation"],
        "until": status["until"],
        "branch": state.get("branch_name"),
        "worktree": state.get("worktree_path"),
        "plan_file": state.get("plan_file"),
        "updated_at": state.get("updated_at"),
        "phases": phases,
        "earlier": earlier,
        "artifacts": artifacts,
        "recoveries": _recoveries(events),
        "warnings": _warnings(run_dir, events),
        "look_at": list(_look_at(run_dir, phases)),
        "next_action": status["next_action"],
    }


def manifest(run_dir: str) -> list[dict[str, Any]]:
    """What the phases handed over, each with its logical `name` first; in order of the names."""
    from adw.app.promoting import read_manifest

    found = read_manifest(run_dir)
    return [{"name": name, **_without_version(found[name])} for name in sorted(found)]


def artifact(run_dir: str, name: str) -> dict[str, Any]:
    """One of `manifest`.

    Raises:
        UnknownName: No phase has handed it over.
    """
    found = {each["name"]: each for each in manifest(run_dir)}
    if name not in found:
        hint = suggestion(name, list(found))
        reason = None if found else "no phase of this run has handed anything over"
        raise UnknownName(kind="artifact", name=name, suggestion=hint, reason=reason)
    return found[name]


def place(run_dir: str, worktree: str | None, each: Mapping[str, Any]) -> str | None:
    """Absolute path of an artifact: its copy, else its source; None: its worktree is not known."""
    if each["path"] is not None:
        return os.path.join(run_dir, each["path"])
    found = source(run_dir, worktree, each)
    return None if found is None else os.path.join(*found)


def source(run_dir: str, worktree: str | None, each: Mapping[str, Any]) -> tuple[str, str] | None:
    """Where an artifact was found: a folder to trust, and a path below it; None: unknown here."""
    if each["root"] == "artifacts":
        return run_dir, f"children/{each['producer']}/artifacts/{each['source']}"
    return None if worktree is None else (worktree, each["source"])


def verified(run_dir: str, worktree: str | None, each: Mapping[str, Any]) -> dict[str, str | None]:
    """Hash an artifact again.

    Returns:
        `copy` and `source`, each `ok`, `changed` or `missing`; None where there is none, or where
        the worktree is not known.
    """
    found = source(run_dir, worktree, each)
    return {
        "copy": None if each["path"] is None else compare(run_dir, each["path"], each),
        "source": None if found is None else compare(*found, each),
    }


def compare(root: str, relative: str, each: Mapping[str, Any]) -> str:
    """Whether a file is what was recorded: `ok`, `changed` or `missing`."""
    from adw.store.artifacts import digest

    found = digest(root, relative, max_bytes=int(each["size_bytes"]))
    if found == each["sha256"]:
        return "ok"
    return "changed" if os.path.lexists(os.path.join(root, relative)) else "missing"


def task_file(run_dir: str, phase: str | None, attempt: int | None) -> str:
    """Path of TASK.md: the run's, or that of an attempt, by default the latest.

    Raises:
        UnknownName: There is no such phase or attempt.
        UsageError: It has no TASK.md.
    """
    if phase is None:
        path = os.path.join(run_dir, "TASK.md")
    else:
        tried = _tried(run_dir, phase)
        number = attempt if attempt is not None else max(tried, default=1)
        child = child_id(phase, number)
        if number not in tried:
            known = [child_id(phase, each) for each in sorted(tried)]
            hint = f"known: {', '.join(known[-8:])}" if known else "it has not been started yet"
            raise UnknownName(kind="attempt", name=child, suggestion=hint, reason=None)
        path = os.path.join(run_dir, "children", child, "TASK.md")
    if not os.path.isfile(path):
        raise UsageError(detail=f"`{path}` does not exist", fix=None)
    return path


def _tried(run_dir: str, phase: str) -> set[int]:
    """Numbers of the attempts that a phase has packets of."""
    try:
        names = os.listdir(os.path.join(run_dir, "children"))
    except OSError:
        names = []
    tried = {number for name, number in map(attempts.split, names) if name == phase and number}
    if not tried:
        known = [each["phase"] for each in reading.status(run_dir)["phases"]]
        if phase not in known:
            hint = suggestion(phase, known)
            raise UnknownName(kind="phase", name=phase, suggestion=hint, reason=None)
    return tried


# --- parts of the page -------------------------------------------------------------------


def _without_version(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key != "schema_version"}


def _issue(run_dir: str) -> dict[str, Any]:
    """The issue as run.json keeps it; empty where that is missing or damaged."""
    try:
        found = json.loads(files.read(os.path.join(run_dir, "run.json")))
        return dict(found["issue"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


def _events(run_dir: str) -> list[dict[str, Any]]:
    from adw.store.history import read_history

    try:
        return list(read_history(run_dir))
    except OSError as error:
        return [{"event": "damaged", "line": 0, "why": error.strerror or str(error)}]


def _commits(state: Mapping[str, Any]) -> dict[str, str]:
    """Commit that each attempt left, by child id."""
    return {
        child_id(each["phase"], each["attempt"]): each["commit"]
        for each in state.get("phase_history", ())
        if each.get("commit") and each.get("attempt") and "phase" in each
    }


def _phase(
    run_dir: str,
    found: Mapping[str, Any],
    commits: Mapping[str, str],
    made: Mapping[str, Any],
    claims: Claims,
) -> dict[str, Any]:
    tries = []
    for each in found["attempts"]:
        child = each["child_id"]
        more = {
            "duration_s": _duration_s(each),
            "commit": commits.get(child),
            "artifacts": made.get(child, []),
            **claims.of(found["phase"], _result(run_dir, child)),
            "files": list(_files_of(run_dir, child)),
        }
        tries.append({**each, **more})
    return {"phase": found["phase"], "status": found["status"], "attempts": tries}


def _earlier(run_dir: str, status: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Phases of a workflow before this one, as far as this one has them not; `status` is null."""
    known = {each["phase"] for each in status["phases"]}
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in status["state"].get("phase_history", ()):
        if entry.get("phase") in known or not entry.get("attempt") or "success" not in entry:
            continue
        child = child_id(entry["phase"], entry["attempt"])
        lines = attempts.lines_of(run_dir, child)
        said = {**(attempts.find(lines, "exit") or {}), **(attempts.find(lines, "verdict") or {})}
        attempt = {
            "attempt": entry["attempt"],
            "child_id": child,
            "success": entry["success"],
            "reason": entry["reason"],
            "exit_code": said.get("exit_code"),
            "started_at": entry["started_at"],
            "ended_at": entry["ended_at"],
            "adopted": attempts.find(lines, "adopt") is not None,
            "detail": said.get("detail"),
        }
        found.setdefault(entry["phase"], []).append(attempt)
    return [{"phase": name, "status": None, "attempts": tries} for name, tries in found.items()]


def _duration_s(attempt: Mapping[str, Any]) -> float | None:
    """Seconds from start to end; None where one of them is not known."""
    if not (attempt["started_at"] and attempt["ended_at"]):
        return None
    ends = (datetime.fromisoformat(attempt[name]) for name in ("started_at", "ended_at"))
    start, end = ends
    return max(0.0, round((end - start).total_seconds(), 6))


def _result(run_dir: str, child: str) -> dict[str, Any]:
    """The result.json of an attempt as it is there, unchecked; empty where it cannot be read."""
    path = os.path.join(run_dir, "children", child, "result.json")
    try:
        found = json.loads(files.read(path, limit=_RESULT_LIMIT))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _files_of(run_dir: str, child: str) -> Iterator[str]:
    """What an attempt was given and left to read, as far as it is there."""
    for folder, name in (
        ("children", "TASK.md"),
        ("children", "SKILL.md"),
        ("children", "RESPONSE.md"),
        ("children", "result.json"),
        ("attempts", "stdout.log"),
        ("attempts", "stderr.log"),
    ):
        relative = f"{folder}/{child}/{name}"
        if os.path.isfile(os.path.join(run_dir, relative)):
            yield relative


def _recoveries(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What adw decided after each failed attempt: of each attempt the last decision counts."""
    found: dict[tuple[object, object], dict[str, Any]] = {}
    keys = ("ts", "stage", "attempt", "reason", "action", "target", "detail")
    for event in events:
        if event["event"] == "recovery_decided":
            name = (event["stage"], event["attempt"])
            found[name] = {("phase" if key == "stage" else key): event[key] for key in keys}
    return list(found.values())


def _warnings(run_dir: str, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What went otherwise than it should, and failed nothing: `ts`, `child_id`, `detail`."""
    found = []
    for event in events:
        detail = None
        if event["event"] == "warning":
            detail = event["detail"]
        elif event["event"] == "input_changed":
            detail = f"input `{event['logical_name']}` has changed since it was handed over"
        elif event["event"] == "state_restored":
            detail = "`adw doctor --restore` put the state back"
            if event["evidence"]:
                detail = f"somebody else changed the state, see {event['evidence']}"
        if detail is not None:
            found.append({"ts": event["ts"], "child_id": event["child_id"], "detail": detail})
    damaged = [each for each in events if each["event"] == "damaged"]
    if damaged and not runs.held(run_dir):  # while it is held, its last line may be on its way
        lines = ", ".join(str(each["line"]) for each in damaged[:8])
        detail = f"the history is damaged in line {lines}, so some of this may be missing"
        found.append({"ts": None, "child_id": None, "detail": detail})
    return found


def _look_at(run_dir: str, phases: list[dict[str, Any]]) -> Iterator[str]:
    """What to open first: the task, the status, and all of the attempts that stopped the run."""
    for name in ("TASK.md", "RESPONSE.md"):
        if os.path.isfile(os.path.join(run_dir, name)):
            yield name
    for phase in phases:
        if phase["status"] in {"failed", "held"} and phase["attempts"]:
            yield from phase["attempts"][-1]["files"]
