"""Putting a run's last good state back in place of a damaged one, when a person says so.

Nothing else in adw falls back to an older state, since what the lost entries say would be done
again. The damaged bytes are kept beside it.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Any

from adw.app import copying_state
from adw.app.places import Places, refuse_inside
from adw.errors import AdwError, StateError, StateVersion, StoreError, UsageError
from adw.store import files, runs
from adw.store.history import History
from adw.store.state import NAME, PREVIOUS, check_state, load_state
from adw.workspace import locks


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back."""

    evidence: str | None
    """Name of the file that keeps the damaged bytes; None where there was no file."""
    entries: int
    """Length of the history that counts now."""
    replaced: bool
    """The state was damaged; else it was valid, and so untouched."""
    filled: list[str]
    """Other files that the run lacked and its copy had, relative to the run."""


@dataclass(frozen=True, slots=True)
class Good:
    """A whole earlier version of a state."""

    state: Any
    data: bytes
    source: str
    """For people: `adw_state.prev.json`, or the copy under the git directory."""


def restore(places: Places, run_dir: str) -> Restored:
    """Put the last good version of a damaged state back, and other files that the run lacks.

    Raises:
        UsageError: There is no valid earlier version; nothing was touched.
        StateVersion: A newer adw wrote it, which is no damage.
        BusyError: Another adw holds the run.
        StoreError: The disk refused; the damaged bytes are still there.
    """
    refuse_inside(run_dir, "doctor --restore")
    lock = runs.open_run(run_dir)
    evidence, replaced = None, False
    try:
        try:
            state, _ = load_state(run_dir)
        except StateVersion:
            raise
        except StateError as error:
            state, evidence = _put_back(places, run_dir, error)
            replaced = True
        copy = copying_state.folder(places.repo.git_dir, state.adw_id)
        with locks.storing(run_dir):
            filled = copying_state.fill(run_dir, copy, state)
    finally:
        lock.close()
    return Restored(evidence, len(state.phase_history), replaced, filled)


def last_good(places: Places, run_dir: str) -> Good | None:
    """The latest whole version of a state that is damaged, if there is one.

    The copy under the git directory is of the last boundary, `adw_state.prev.json` of the one
    before; the longer history counts.
    """
    copy = copying_state.folder(places.repo.git_dir, os.path.basename(run_dir))
    found = []
    with contextlib.suppress(OSError, AdwError):
        data = files.read(os.path.join(run_dir, PREVIOUS))
        found.append(Good(check_state(run_dir, data), data, PREVIOUS))
    with contextlib.suppress(AdwError):
        found.append(Good(*copying_state.newest(copy), "the copy under the git directory"))
    return max(found, key=lambda each: len(each.state.phase_history), default=None)


def _put_back(places: Places, run_dir: str, error: StateError) -> tuple[Any, str | None]:
    """Replace the state; the new one, and the name that the damaged one has now."""
    found, adw_id = last_good(places, run_dir), os.path.basename(run_dir)
    if found is None:
        detail = f"the state of run `{adw_id}` is damaged, and there is no good version before it"
        raise UsageError(detail=detail, fix=f"adw doctor {adw_id}") from error
    path = os.path.join(run_dir, NAME)
    try:
        evidence = _set_aside(run_dir, path)
        files.replace(path, found.data)
    except OSError as failed:
        raise StoreError.of(failed, path) from failed
    entries = len(found.state.phase_history)
    with contextlib.suppress(OSError):  # the audit trail must not stand in the way
        history = History(run_dir)
        history.add("state_restored", {"evidence": evidence}, entries=entries)
        history.flush()
    return found.state, evidence


def _set_aside(run_dir: str, path: str) -> str | None:
    """Give the damaged file another name; while it can be had, the old name stays too."""
    if not os.path.lexists(path):
        return None
    number = 1
    while os.path.lexists(os.path.join(run_dir, f"adw_state.damaged.{number}.json")):
        number += 1
    name = f"adw_state.damaged.{number}.json"
    target = os.path.join(run_dir, name)
    if os.path.isdir(path) and not os.path.islink(path):
        files.rename(path, target)
    else:
        files.link(path, target)
    return name
