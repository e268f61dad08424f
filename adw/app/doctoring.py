"""What is wrong with adw's files here, and what would mend it. Nothing is written, no lock taken."""

import contextlib
import json
import os
import shlex
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, Final

from adw.app import copying_state, derived, effecting, mends, reading
from adw.app.bringing_back import copied, gone
from adw.app.findings import Finding
from adw.app.places import Places, names_in
from adw.app.restoring import last_good
from adw.core.isolation import NONE
from adw.errors import AdwError, BrokenRun, EnvironmentFault, StateError, StateVersion
from adw.store import attempts, files, requests, runs
from adw.workspace.removing import ASIDE

SCHEMA_VERSION: Final = 1
_EVIDENCE: Final = ("adw_state.tampered.", "adw_state.damaged.", "task_history.jsonl.torn.")


def examine(places: Places, run_dir: str | None) -> dict[str, Any]:
    """Look at the machine, the folder of runs, and one run or all.

    Returns:
        `schema_version`, `facts`, and `findings` as dictionaries with the fields of `Finding`.
    """
    facts, findings = _machine(places)
    if run_dir is None:
        findings += _around_runs(places)
    names = [os.path.basename(run_dir)] if run_dir else runs.list_ids(places.agents_dir)
    if run_dir is None:
        findings += [each.finding for each in mends.around(places)]
    for name in names:
        findings += _in_run(places, os.path.join(places.agents_dir, name))
    return {
        "schema_version": SCHEMA_VERSION,
        "facts": facts,
        "findings": [asdict(each) for each in findings],
    }


# --- the machine -------------------------------------------------------------------------


def _machine(places: Places) -> tuple[dict[str, Any], list[Finding]]:
    from adw import __version__
    from adw.supervise import cgroups
    from adw.workspace.git import require_version

    findings = []
    try:
        git: str | None = ".".join(map(str, require_version()))
    except EnvironmentFault as error:
        git = None
        findings.append(Finding("environment", None, "git", error.message, error.line("hint")))
    facts = {
        "adw": __version__,
        "python": sys.version.split()[0],
        "git": git,
        "repository": places.repo.root,
        "agents_dir": places.agents_dir,
        "runs": len(runs.list_ids(places.agents_dir)),
        "tree_end": "cgroup" if cgroups.base() else "tag",
        "isolation": NONE,
        "capabilities": _capabilities(),
    }
    return facts, findings


def _capabilities() -> dict[str, bool]:
    import fcntl

    from adw.supervise import cgroups, fence

    missing = fence.missing()
    there = {
        "cgroup": cgroups.base() is not None,
        "ofd": hasattr(fcntl, "F_OFD_SETLK"),
        "pidfd": hasattr(os, "pidfd_open"),
        "subreaper": sys.platform == "linux",
        "memory_limit": "memory" not in missing,
        "pids_limit": "pids" not in missing,
    }
    return {name: found and not files.disabled(name) for name, found in there.items()}


# --- around the runs ---------------------------------------------------------------------


def _around_runs(places: Places) -> Iterator[Finding]:
    for name in names_in(places.agents_dir):
        path = os.path.join(places.agents_dir, name)
        half_made = name.startswith(".new-")
        if half_made and not files.locked(os.path.join(path, runs.LOCK)):
            detail = "a run that was never finished being created"
            yield Finding("leftover", None, path, detail, "the next `adw run` removes it")
        if name.endswith(".tmp"):
            yield _stale(None, path)
    known = set(copied(places))
    for name in names_in(places.trees_dir):
        path = os.path.join(places.trees_dir, name)
        if name.startswith(ASIDE):
            detail, hint = "what a removal that was cut short left", "adw gc removes it"
            yield Finding("leftover", None, path, detail, hint)
            continue
        run_dir = os.path.join(places.agents_dir, name)
        if os.path.isdir(path) and not os.path.lexists(run_dir) and name not in known:
            hint = f"look what is in it, then: git worktree remove {shlex.quote(path)}"
            yield Finding("orphan", None, path, "a worktree without its run", hint)
    for name in runs.list_ids(places.agents_dir):
        yield from _without_tree(places, name)
    for name in gone(places):
        path = os.path.join(places.agents_dir, name)
        detail = "the directory of this run is gone; a copy of its state is there"
        yield Finding("lost", name, path, detail, f"adw doctor --restore {name}")


def _without_tree(places: Places, name: str) -> Iterator[Finding]:
    """An unfinished run whose worktree somebody removed."""
    run_dir = os.path.join(places.agents_dir, name)
    known = os.path.isdir(os.path.join(places.repo.git_dir, "worktrees", name))
    if not known or os.path.isdir(places.worktree(name)) or not attempts.child_ids(run_dir):
        return
    if reading.short(places.agents_dir, name)["status"] in {"interrupted", "failed", "held"}:
        hint = f"adw resume {name} makes it again, and does again what was in no commit"
        detail = "the worktree of an unfinished run is gone"
        yield Finding("worktree", name, places.worktree(name), detail, hint)


def _stale(adw_id: str | None, path: str) -> Finding:
    hint = f"adw resume {adw_id} removes it" if adw_id else "adw doctor --repair removes it"
    return Finding("leftover", adw_id, path, "a temporary file of a killed adw", hint)


# --- in one run --------------------------------------------------------------------------


def _in_run(places: Places, run_dir: str) -> Iterator[Finding]:
    yield from _state(places, run_dir)
    yield from _history(run_dir)
    yield from _requests(run_dir)
    yield from _effects(run_dir)
    adw_id = os.path.basename(run_dir)
    for each in derived.differences(run_dir):
        yield Finding(each.kind, adw_id, each.path, each.detail, each.hint)
    held = runs.held(run_dir)
    if not held and not runs.attempt_alive(run_dir):
        yield from (each.finding for each in mends.of_run(places, run_dir))
    for folder in (run_dir, *(os.path.join(run_dir, name) for name in runs.DIRS)):
        for name in names_in(folder):
            path = os.path.join(folder, name)
            if name.startswith(_EVIDENCE):
                yield Finding("evidence", adw_id, path, "bytes that were set aside")
            elif name.startswith(".") and name.endswith(".tmp") and not held:
                yield _stale(adw_id, path)


def _state(places: Places, run_dir: str) -> Iterator[Finding]:
    from adw.store.state import load_state

    adw_id = os.path.basename(run_dir)
    try:
        state, data = load_state(run_dir)
    except StateError as error:
        yield _damaged_state(places, run_dir, error)
        return
    copy = copying_state.folder(places.repo.git_dir, adw_id)
    if copying_state.copied_from(copy) == run_dir and (
        line := copying_state.altered(copy, state, data)
    ):
        path = os.path.join(run_dir, "adw_state.json")
        yield Finding("state", adw_id, path, line, f"compare it with {copy}")
    if state.workflow is None:
        return
    from adw.store.definitions import load_definition

    try:
        load_definition(run_dir, state.workflow.partition("@")[2])
    except BrokenRun as error:
        path = str(error.fields["path"])
        hint = f"adw run WORKFLOW {state.issue_number or 'ISSUE'} --adw-id {adw_id}"
        if not os.path.lexists(path) and os.path.lexists(
            os.path.join(copy, os.path.relpath(path, run_dir))
        ):
            hint = f"adw doctor --restore {adw_id}"
        yield Finding("definition", adw_id, path, _said(error), hint)


def _damaged_state(places: Places, run_dir: str, error: StateError) -> Finding:
    adw_id, path = os.path.basename(run_dir), str(error.fields["path"])
    if isinstance(error, StateVersion):
        return Finding("state", adw_id, path, error.message, error.line("hint"))
    good = last_good(places, run_dir)
    if good is None:
        detail = f"{_said(error)}; there is no good version before it"
        return Finding("state", adw_id, path, detail)
    count = len(good.state.phase_history)
    when = f" and is of {good.state.updated_at}" if good.state.updated_at else ""
    detail = f"{_said(error)}; {good.source} is good, has {count} entries{when}"
    return Finding("state", adw_id, path, detail, f"adw doctor --restore {adw_id}")


def _effects(run_dir: str) -> Iterator[Finding]:
    for path in effecting.damaged(run_dir):
        detail = "a damaged record of an effect: nothing is done while it is there"
        hint = "look whether it took place; without the file it is begun anew"
        yield Finding("effect", os.path.basename(run_dir), path, detail, hint)


def _said(error: AdwError) -> str:
    why = error.line("why")
    return f"{error.message}: {why}" if why else error.message


def _history(run_dir: str) -> Iterator[Finding]:
    from adw.store.history import PATH, read_history

    adw_id, path = os.path.basename(run_dir), os.path.join(run_dir, PATH)
    if runs.held(run_dir):  # its last line may be on its way
        return
    try:
        found = [each for each in read_history(run_dir) if each["event"] == "damaged"]
    except OSError as error:
        yield Finding("history", adw_id, path, f"it cannot be read: {error.strerror}")
        return
    for each in found:
        detail = f"line {each['line']} is damaged: {each['why']}"
        hint = "nothing is decided by it, so the run can go on"
        yield Finding("history", adw_id, path, detail, hint)


def _requests(run_dir: str) -> Iterator[Finding]:
    adw_id, folder = os.path.basename(run_dir), os.path.join(run_dir, requests.DIR)
    good: set[str] = set()
    with contextlib.suppress(OSError):
        good = {request.name for request in requests.pending(run_dir)}
    for name in names_in(folder):
        path = os.path.join(folder, name)
        if not name.endswith(".json") or name.startswith("."):
            continue
        if name not in good:
            detail = "a request that cannot be read"
            yield Finding("request", adw_id, path, detail, f"remove it: rm {shlex.quote(path)}")
        elif not runs.held(run_dir):
            detail = f"a request that nobody has applied: {_request(path)}"
            yield Finding("request", adw_id, path, detail, f"adw resume {adw_id}")


def _request(path: str) -> str:
    try:
        found = json.loads(files.read(path, limit=requests.LIMIT))
        return str(found["kind"])
    except (OSError, ValueError, KeyError):
        return "gone"
