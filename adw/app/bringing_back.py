"""Bringing a run back whose directory is gone, from the copy of its state under the git directory.

`git clean -fdx` removes the folder of runs, which no commit has. The copy has all that decides
what runs next; what it has not is said. A run is brought back as it is created: whole, by a rename.
"""

import contextlib
import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from adw import clock
from adw.app import copying_state, promoting
from adw.app.places import Places, refuse_inside
from adw.errors import AdwError, BusyError, StateError, StoreError, UnknownName, UsageError
from adw.ids import child_id
from adw.model.event import make_event
from adw.model.state import ADWStateData
from adw.store import artifacts, attempts, files, history, runs
from adw.store.encoding import json_bytes
from adw.store.state import NAME
from adw.workspace import occupants


@dataclass(frozen=True, slots=True)
class BroughtBack:
    """A run that is there again."""

    adw_id: str
    entries: int
    """Length of its history."""
    lost: list[str]
    """What the copy did not have, a line each."""


def find(places: Places, text: str) -> str:
    """The id of a run that only a copy tells of, by id, unique prefix or `@<issue>`.

    Raises:
        UnknownName: No copy fits.
        AmbiguousId: Several fit.
    """
    folder = copying_state.folder(places.repo.git_dir)
    if not text.startswith("@"):
        return os.path.basename(runs.find_run(folder, text))
    found = []
    for name in gone(places):
        with contextlib.suppress(StateError):
            state, _ = copying_state.newest(os.path.join(folder, name))
            if f"@{state.issue_number}" == text:
                found.append((state.updated_at or "", name))
    if not found:
        raise UnknownName(kind="run", name=text, suggestion="adw doctor", reason=None)
    return max(found)[1]


def gone(places: Places) -> list[str]:
    """Ids of all runs whose directory is gone and whose copy is there, sorted."""
    return [name for name in copied(places) if whereabouts(places, name) is None]


def copied(places: Places) -> list[str]:
    """Ids of all runs that have a copy, wherever they are, sorted."""
    folder = copying_state.folder(places.repo.git_dir)
    names = runs.list_ids(folder)
    return [name for name in names if copying_state.exists(os.path.join(folder, name))]


def whereabouts(places: Places, adw_id: str) -> str | None:
    """Where a run is: among the runs here, or where it was when it was copied; None: gone."""
    copy = copying_state.folder(places.repo.git_dir, adw_id)
    here = os.path.join(places.agents_dir, adw_id)
    there = copying_state.copied_from(copy) or here
    return next((path for path in (here, there) if os.path.lexists(path)), None)


def bring_back(places: Places, adw_id: str, host: Any) -> BroughtBack:
    """Make the directory of a run again.

    Args:
        places: The repository and its runs.
        adw_id: The run; its directory is gone.
        host: As adw.app.sitting.Host.

    Raises:
        UsageError: It is there, perhaps among runs that are kept elsewhere.
        StateError: The copy itself is damaged.
        BusyError: A process of the run lives on, and would go on with what is gone.
        StoreError: It could not be written.
    """
    copy = copying_state.folder(places.repo.git_dir, adw_id)
    run_dir = os.path.join(places.agents_dir, adw_id)
    refuse_inside(run_dir, "doctor --restore")
    state, data = copying_state.newest(copy)
    elsewhere = whereabouts(places, adw_id)
    if elsewhere is not None:
        fix = f"ADW_AGENTS_DIR={shlex.quote(os.path.dirname(elsewhere))} adw status {adw_id}"
        raise UsageError(detail=f"run `{adw_id}` is there: `{elsewhere}`", fix=fix)
    alive = occupants.holding(copying_state.copied_from(copy) or run_dir)
    if alive:
        raise BusyError(adw_id=adw_id, holder=occupants.named(alive))
    agents_lock = runs.lock_agents(places.agents_dir)
    try:
        event = make_event("state_restored", 1, clock.stamp(), {"entries": 0}, {"evidence": None})
        contents = {
            NAME: data,
            promoting.MANIFEST: promoting.EMPTY,
            history.PATH: json_bytes(event) + b"\n",
        }
        temp, lock = runs.build_run(places.agents_dir, adw_id, contents)
        copying_state.fill(temp, copy, state)
        _promote_again(temp, state, places.worktree_of(temp))
        runs.publish_run(temp, lock)
    except FileExistsError as error:
        detail = f"run `{adw_id}` is there already"
        raise UsageError(detail=detail, fix=f"adw doctor {adw_id}") from error
    except OSError as error:
        raise StoreError.of(error, error.filename or run_dir) from error
    finally:
        os.close(agents_lock)
    lock.close()
    lost = list(_lost(run_dir, state))
    lost += _derive(places, run_dir, host)
    return BroughtBack(adw_id, len(state.phase_history), lost)


def _outputs(run_dir: str, state: ADWStateData) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Child id, logical name and record of what successes handed over."""
    for entry in state.phase_history:
        if entry.success and entry.attempt:
            child = child_id(entry.phase, entry.attempt)
            lines = attempts.lines_of(run_dir, child)
            for name, output in ((attempts.verdict(lines) or {}).get("outputs") or {}).items():
                yield child, name, output


def _promote_again(run_dir: str, state: ADWStateData, tree: str | None) -> None:
    """Make copies of handed-over files again, where the worktree has them as they were."""
    for child, name, output in _outputs(run_dir, state):
        folder = os.path.join(run_dir, "artifacts", name, child)
        files.make_dirs(folder)  # tells the manifest that there is something to look at
        if output["path"] is None or tree is None or output["root"] != "worktree":
            continue
        same = artifacts.digest(tree, output["source"], max_bytes=output["size_bytes"])
        if same == output["sha256"]:
            data = files.read(os.path.join(tree, output["source"]), limit=artifacts.COPY_LIMIT)
            files.create(os.path.join(folder, os.path.basename(output["path"])), data)


def _lost(run_dir: str, state: ADWStateData) -> Iterator[str]:
    """What a run that was brought back does not have any more."""
    tried = sum(1 for entry in state.phase_history if entry.attempt)
    if tried:
        yield f"logs and packets of {tried} attempt{'s' * (tried > 1)}"
    for name, entry in promoting.read_manifest(run_dir).items():
        phase = attempts.split(str(entry["producer"]))[0]
        if entry["root"] != "worktree":
            again = f"adw resume {state.adw_id} --from {phase}"
            yield f"the output `{name}` of {entry['producer']}; `{again}` makes it again"
        elif entry["path"] and not os.path.lexists(os.path.join(run_dir, entry["path"])):
            yield f"the copy of output `{name}` of {entry['producer']}: `{entry['source']}`"
    definition = (state.workflow or "").partition("@")[2]
    if not os.path.lexists(os.path.join(run_dir, "definitions", f"{definition}.json")):
        again = f"adw run WORKFLOW {state.issue_number or 'ISSUE'} --adw-id {state.adw_id}"
        yield f"its definition; `{again}` gives it one"


def _derive(places: Places, run_dir: str, host: Any) -> list[str]:
    """Write what is derived; the run is there whether or not that works."""
    from adw.app.derived import rebuild

    try:
        rebuild(places, run_dir, host)
    except AdwError as error:
        return [f"what is derived: {error.message}"]
    return []
