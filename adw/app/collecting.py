"""`adw gc`: what of all runs may go by now, and a reason for each that stays.

Runs that are over and were left alone for some time are removed as `adw rm` removes them. What
a killed removal left aside is deleted.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from adw import clock
from adw.app import bringing_back, reading, removing_runs
from adw.app.places import Places, names_in
from adw.app.removing_runs import FAILED, KEPT, REMOVE, REMOVED, Options, Part, Removal
from adw.errors import AdwError, BusyError
from adw.store import files, runs
from adw.store.state import NAME
from adw.workspace import registration, removing
from adw.workspace.delivery import Delivery
from adw.workspace.registration import Place

_OVER: Final = ("succeeded", "failed", "cancelled")
_DAY_S: Final = 86400


@dataclass(frozen=True, slots=True)
class Collected:
    """What became of all."""

    runs: list[Removal]
    others: list[Part]
    """Things that belong to no run: leftovers, worktrees without a run, copies."""

    @property
    def failed(self) -> bool:
        """Whether something is left that was to go."""
        return any(each.has(FAILED) for each in self.runs) or any(
            part.action == FAILED for part in self.others
        )


def collect(places: Places, options: Options, older_than_s: float) -> Collected:
    """Remove what may go of all runs.

    Args:
        places: The repository and its runs.
        options: What a person gave up; `collecting` is understood.
        older_than_s: Runs that changed within so many seconds stay.
    """
    options = replace(options, collecting=True)
    deliveries: dict[str | None, Delivery] = {}
    kept, found = removing.ids_with_refs(places.repo), []
    for name in runs.list_ids(places.agents_dir):
        run_dir = os.path.join(places.agents_dir, name)
        view = reading.short(places.agents_dir, name)
        status = str(view["status"])
        part = _spared(run_dir, view, older_than_s)
        if part is None and not options.purge and name not in kept and _is_bare(places, run_dir):
            part = removing_runs.shown(places, removing_runs.history_only(run_dir))
        if part is None:
            try:
                done = removing_runs.remove(places, run_dir, options, deliveries)
            except BusyError as error:
                part = Part("run", name, KEPT, error.message)
            except AdwError as error:
                part = Part("run", name, KEPT, error.message, error.line("hint"))
            else:
                found.append(done)
                continue
        found.append(Removal(name, status, [part]))
    others = [removing_runs.shown(places, p) for p in _others(places, dry_run=options.dry_run)]
    return Collected(found, others)


def _spared(run_dir: str, view: dict[str, object], older_than_s: float) -> Part | None:
    """Why a whole run is left alone; None where its parts are looked at."""
    name, status = os.path.basename(run_dir), str(view["status"])
    if status == "broken":
        return Part("run", name, KEPT, "its state is damaged", f"adw doctor {name}")
    if runs.alive(run_dir):
        return Part("run", name, KEPT, f"it is {status}")
    if status not in _OVER:
        return Part("run", name, KEPT, f"it is {status}", f"adw resume {name}, or adw rm {name}")
    age_s = clock.Clock().now() - _changed_at(run_dir, view)
    if age_s < older_than_s:
        days = int(max(0.0, age_s) // _DAY_S)
        when = f"{days} day{'s' * (days != 1)} ago" if days else "today"
        return Part("run", name, KEPT, f"it {status} {when}", f"adw rm {name}")
    return None


def _is_bare(places: Places, run_dir: str) -> bool:
    """Whether neither worktree nor branch is left of a run that is over, nor of its removal."""
    try:
        state = json.loads(files.read(os.path.join(run_dir, NAME)))
        branch, path = state["branch_name"] or "", state["worktree_path"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    place = Place(places.repo.git_dir, places.worktree(os.path.basename(run_dir)), str(branch))
    if path is not None and os.path.normpath(os.path.join(places.repo.root, path)) != place.path:
        return False
    return removing.is_over(place) and not (branch and registration.tip(place))


def _changed_at(run_dir: str, view: dict[str, object]) -> float:
    """When the run changed last, in seconds since 1970 UTC; by the file where it does not say."""
    try:
        return datetime.fromisoformat(str(view["updated_at"])).timestamp()
    except ValueError:
        return os.stat(os.path.join(run_dir, "adw_state.json")).st_mtime


def _others(places: Places, *, dry_run: bool) -> Iterator[Part]:
    gone = bringing_back.gone(places)
    for name in gone:
        hint = f"adw doctor --restore {name}"
        yield Part("copy", name, KEPT, "the directory of this run is gone", hint)
    trees = places.trees_dir
    known = {*runs.list_ids(places.agents_dir), *bringing_back.copied(places)}
    for folder in (trees, places.agents_dir):
        for name in names_in(folder):
            path = os.path.join(folder, name)
            if name.startswith(removing.ASIDE) and name.removeprefix(removing.ASIDE) not in known:
                yield _leftover(path, dry_run=dry_run)
            elif folder == trees and name not in known and os.path.isfile(f"{path}/.git"):
                hint = "look what is in it, then: git worktree remove"
                yield Part("worktree", path, KEPT, "it has no run", hint)


def finish(places: Places, adw_id: str, *, dry_run: bool) -> list[Part]:
    """Delete what a removal left aside of a run that is gone; nothing where there is none."""
    folders = (places.agents_dir, os.path.dirname(places.worktree(adw_id)))
    found = [os.path.join(folder, removing.ASIDE + adw_id) for folder in folders]
    parts = [_leftover(path, dry_run=dry_run) for path in found if os.path.lexists(path)]
    return [removing_runs.shown(places, part) for part in parts]


def _leftover(path: str, *, dry_run: bool) -> Part:
    reason = "a removal that was cut short left it"
    if dry_run:
        return Part("leftover", path, REMOVE, reason)
    why = removing.delete(path)
    if why:
        return Part("leftover", path, FAILED, why, "mend that, then: adw gc")
    return Part("leftover", path, REMOVED, reason)
