"""Putting a run's last good state back in place of a damaged one, when a person says so.

Nothing else in adw falls back to an older state, since what the lost entries say would be done
again. The damaged bytes are kept beside it.
"""

import contextlib
import os
from dataclasses import dataclass

from adw.app.doctoring import last_good
from adw.app.places import refuse_inside
from adw.errors import StateError, StateVersion, StoreError, UsageError
from adw.store import files, runs
from adw.store.history import History
from adw.store.state import NAME, load_state


@dataclass(frozen=True, slots=True)
class Restored:
    """What was put back."""

    evidence: str | None
    """Name of the file that keeps the damaged bytes; None where there was no file."""
    entries: int
    """Length of the history that counts now."""


def restore(run_dir: str) -> Restored | None:
    """Put the previous version of a damaged state back.

    Returns:
        What was done; None where the state is valid, and so untouched.

    Raises:
        UsageError: There is no valid previous version; nothing was touched.
        StateVersion: A newer adw wrote it, which is no damage.
        BusyError: Another adw holds the run.
        StoreError: The disk refused; the damaged bytes are still there.
    """
    refuse_inside(run_dir, "doctor --restore")
    lock = runs.open_run(run_dir)
    try:
        load_state(run_dir)
    except StateVersion:
        raise
    except StateError as error:
        return _put_back(run_dir, error)
    finally:
        lock.close()
    return None


def _put_back(run_dir: str, error: StateError) -> Restored:
    found, adw_id = last_good(run_dir), os.path.basename(run_dir)
    if found is None:
        detail = f"the state of run `{adw_id}` is damaged, and there is no good version before it"
        raise UsageError(detail=detail, fix=f"adw doctor {adw_id}") from error
    state, data = found
    path = os.path.join(run_dir, NAME)
    try:
        evidence = _set_aside(run_dir, path)
        files.replace(path, data)
    except OSError as failed:
        reason = failed.strerror or str(failed)
        raise StoreError(path=path, reason=reason, fix=None) from failed
    entries = len(state.phase_history)
    with contextlib.suppress(OSError):  # the audit trail must not stand in the way
        history = History(run_dir)
        history.add("state_restored", {"evidence": evidence}, entries=entries)
        history.flush()
    return Restored(evidence, entries)


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
