"""`adw doctor --repair`: mend what a kill left, each thing under the lock that owns it.

A run that lives is left alone. A damaged state is not touched: `--restore` is another word, since
what the lost entries say would be done again.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, Final

from adw.app import mends
from adw.app.findings import Mend, Mended
from adw.app.places import Places, names_in, refuse_inside
from adw.errors import AdwError, BusyError
from adw.store import attempts, effects, files, requests, runs
from adw.workspace import locks

SCHEMA_VERSION: Final = 1


def repair(places: Places, run_dir: str | None) -> dict[str, Any]:
    """Mend one run, or all runs and what is around them.

    Args:
        places: The repository and its runs.
        run_dir: The run; None: everything.

    Returns:
        `schema_version` and `repaired`, dictionaries with the fields of `Mended`.

    Raises:
        InsidePhase: Called from inside a phase of the run.
        BusyError: The one run that was named lives.
    """
    found: list[Mended] = []
    if run_dir is None:
        found += _around(places)
    names = [os.path.basename(run_dir)] if run_dir else runs.list_ids(places.agents_dir)
    for name in names:
        try:
            found += _in_run(places, os.path.join(places.agents_dir, name))
        except AdwError as error:
            if run_dir is not None:
                raise
            if isinstance(error, BusyError):  # a run that lives is not for us
                continue
            path = os.path.join(places.agents_dir, name)
            found.append(Mended("environment", name, path, None, error.message))
    return {"schema_version": SCHEMA_VERSION, "repaired": [asdict(each) for each in found]}


def _around(places: Places) -> Iterator[Mended]:
    if os.path.isdir(places.agents_dir):
        lock = runs.lock_agents(places.agents_dir)
        try:
            yield from _half_made(places.agents_dir)
            yield from _swept(None, places.agents_dir)
        finally:
            os.close(lock)
    if count := mends.end_groups():
        done = f"removed {count} empty control group{'s' * (count > 1)} of a dead adw"
        yield Mended("group", None, "/sys/fs/cgroup", done)
    found = mends.around(places)
    yield from _done(each for each in found if each.finding.kind != "worktree")
    trees = [each for each in found if each.finding.kind == "worktree"]
    if trees:
        with locks.repository(places.repo.git_dir):
            yield from _done(trees)


def _half_made(agents_dir: str) -> Iterator[Mended]:
    for name in names_in(agents_dir):
        path = os.path.join(agents_dir, name)
        if name.startswith(".new-") and not files.locked(os.path.join(path, runs.LOCK)):
            with locks.storing(path):
                files.remove_tree(path)
            done = "removed a run that was never finished being created"
            yield Mended("leftover", None, path, done)


def _in_run(places: Places, run_dir: str) -> list[Mended]:
    """Mend a run whose lock is had, and of which no attempt lives."""
    adw_id = os.path.basename(run_dir)
    refuse_inside(run_dir, "doctor --repair")
    if runs.held(run_dir):
        raise BusyError(adw_id=adw_id, holder=runs.holder(run_dir))
    if runs.attempt_alive(run_dir):
        raise BusyError(adw_id=adw_id, holder=runs.ORPHAN)
    lock = runs.open_run(run_dir)
    try:
        if runs.attempt_alive(run_dir):
            raise BusyError(adw_id=adw_id, holder=runs.ORPHAN)
        found = [each for folder in _folders(places, run_dir) for each in _swept(adw_id, folder)]
        found += _swept_requests(run_dir)
        found += _swept_effects(run_dir)
        todo = mends.of_run(places, run_dir)
        # Who lives may hold what comes after: processes go first.
        found += _done(each for each in todo if each.finding.kind == "process")
        rest = [each for each in todo if each.finding.kind != "process"]
        if rest:
            with locks.repository(places.repo.git_dir):
                found += _done(rest)
        return found
    finally:
        lock.close()


def _folders(places: Places, run_dir: str) -> Iterator[str]:
    """Every folder in which adw itself writes for this run; a link leads nowhere."""
    found = [run_dir]
    found += [os.path.join(run_dir, name) for name in runs.DIRS if name != requests.DIR]
    for folder in ("children", "attempts"):
        top = os.path.join(run_dir, folder)
        found += [os.path.join(top, name) for name in names_in(top) if attempts.split(name)[1]]
    top = os.path.join(run_dir, "artifacts")
    for name in names_in(top):
        found += [os.path.join(top, name, child) for child in names_in(os.path.join(top, name))]
    if places.repo.git_dir:
        found += mends.sweep_copy(places.repo.git_dir, os.path.basename(run_dir))
    below = (os.path.realpath(run_dir) + os.sep, places.repo.git_dir + os.sep)
    for path in found:
        if os.path.isdir(path) and (os.path.realpath(path) + os.sep).startswith(below):
            yield path


def _swept(adw_id: str | None, folder: str) -> Iterator[Mended]:
    with locks.storing(folder):
        count = files.sweep(folder)
    if count:
        done = f"removed {count} temporary file{'s' * (count > 1)} of a killed adw"
        yield Mended("leftover", adw_id, folder, done)


def _swept_requests(run_dir: str) -> Iterator[Mended]:
    folder = os.path.join(run_dir, requests.DIR)
    if any(_is_temp(name) for name in names_in(folder)):
        with locks.storing(folder):
            requests.sweep(run_dir)
        yield Mended("leftover", os.path.basename(run_dir), folder, "removed temporary files")


def _swept_effects(run_dir: str) -> Iterator[Mended]:
    folder = os.path.join(run_dir, "effects")
    for name in names_in(folder):
        record = name[1:].partition(".json.")[0]
        if not _is_temp(name) or "/" in record or not record:
            continue
        path = os.path.join(folder, name)
        with locks.storing(path), effects.locked(os.path.join(folder, f"{record}.json")):
            files.unlink(path)
        yield Mended("leftover", os.path.basename(run_dir), path, "removed a temporary file")


def _is_temp(name: str) -> bool:
    return name.startswith(".") and name.endswith(".tmp")


def _done(todo: Iterable[Mend]) -> Iterator[Mended]:
    """Do each; one that cannot be done does not keep the others."""
    for each in todo:
        what = each.finding
        try:
            yield Mended(what.kind, what.adw_id, what.path, each.act())
        except AdwError as error:
            yield Mended(what.kind, what.adw_id, what.path, None, error.message)
        except OSError as error:
            yield Mended(what.kind, what.adw_id, what.path, None, error.strerror or str(error))
