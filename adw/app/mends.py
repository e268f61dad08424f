"""What adw can mend of what a kill left behind: `adw doctor` tells of it, `--repair` does it.

Looking changes nothing. An act looks again at what it is about to change, since others work here
too; the locks that it needs beyond its own are held by whoever calls it (adw.app.repairing).
"""

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from adw.app import bringing_back, copying_state
from adw.app.findings import Finding, Mend
from adw.app.places import Places, names_in
from adw.errors import AdwError
from adw.ids import is_id
from adw.store import attempts
from adw.workspace import leases, mending, registration, tables
from adw.workspace.registration import Place, Seen

_REPAIR: Final = "adw doctor --repair"
_SHOWN: Final = 5


def around(places: Places) -> list[Mend]:
    """What belongs to no run that is here: leases and registrations of worktrees."""
    return [*_leases(places), *_registrations(places)]


def of_run(places: Places, run_dir: str) -> list[Mend]:
    """What a dead run left: processes, and what stops git in its worktree.

    Args:
        places: The repository and its runs.
        run_dir: The run; nobody holds it, and no attempt of it lives.
    """
    return [*_processes(run_dir), *_worktree(places, run_dir)]


# --- of no run -----------------------------------------------------------------------------


def _leases(places: Places) -> Iterator[Mend]:
    host, here = tables.host_dir(), os.path.realpath(places.agents_dir)
    for each in leases.without_run(host):
        if os.path.dirname(each.run_dir) != here:  # of another repository, whose doctor tells it
            continue
        backend, frontend = each.pair
        detail = f"ports {backend} and {frontend} are leased to a run that is gone"
        path = os.path.join(host, "ports.json")
        found = Finding("lease", each.adw_id, path, detail, _REPAIR)
        yield Mend(found, partial(_end_lease, host, each))


def _end_lease(host: str, lease: leases.Lease) -> str:
    leases.end(host, lease.run_dir)
    return f"gave back ports {lease.pair[0]} and {lease.pair[1]}"


def end_groups() -> int:
    """Remove the empty control groups of dead adws of this host; returns how many went.

    They harm nobody and belong to no repository, so nothing tells of them.
    """
    from adw.supervise import cgroups, fence

    fences = [found[0] for each in fence.CONTROLLERS if (found := fence.parent(each))]
    count, base = 0, cgroups.base()
    for folder in {*fences, *([base] if base else [])}:
        for path in cgroups.of_dead(folder):
            if not cgroups.members(path):
                cgroups.remove(path)  # the kernel refuses where somebody is in it by now
                count += not os.path.isdir(path)
    return count


def _registrations(places: Places) -> Iterator[Mend]:
    """Registrations of adw's own worktrees whose run is not here."""
    admins = os.path.join(places.repo.git_dir, "worktrees")
    for name in names_in(admins) if places.repo.git_dir else ():
        place = Place(places.repo.git_dir, places.worktree(name), "")
        if is_id(name) and _is_nobodys(places, place):
            yield from _of_registration(place, registration.survey(place), None)


def _is_nobodys(places: Places, place: Place) -> bool:
    """Whether a registration is adw's own, and no run is known that it could belong to."""
    if os.path.lexists(os.path.join(places.agents_dir, place.name)):
        return False
    back = registration.read_text(os.path.join(place.admin, "gitdir"))
    own = os.path.isdir(mending.room(place))
    if back:
        own = registration.same(os.path.join(place.admin, back), os.path.join(place.path, ".git"))
    return own and bringing_back.whereabouts(places, place.name) is None


# --- of a run ------------------------------------------------------------------------------


def _processes(run_dir: str) -> Iterator[Mend]:
    from adw.supervise import tree

    adw_id = os.path.basename(run_dir)
    for child in sorted(attempts.child_ids(run_dir)):
        lines = attempts.lines_of(run_dir, child)
        line, body = attempts.find(lines, "supervisor"), attempts.find(lines, "body")
        if line is None or attempts.find(lines, "exit"):
            continue
        found = tree.remains(line, body)
        if found:
            detail = f"{_named(found)} of attempt {child} outlived its supervisor"
            path = attempts.dir_of(run_dir, child)
            hint = f"{_REPAIR} {adw_id} ends what lives of it"
            yield Mend(
                Finding("process", adw_id, path, detail, hint),
                partial(_end_tree, run_dir, child, line, body),
            )


def _end_tree(run_dir: str, child: str, line: dict[str, Any], body: dict[str, Any] | None) -> str:
    from adw.errors import EnvironmentFault
    from adw.supervise import tree

    if attempts.alive(attempts.dir_of(run_dir, child)):
        return "its supervisor lives: left alone"
    found = tree.remains(line, body)
    _, survivors = tree.end_dead(line, body)
    if survivors:
        pids = ", ".join(map(str, survivors))
        raise EnvironmentFault(detail=f"process {pids} cannot be ended", reason=None, fix=None)
    return f"ended {_named(found)}" if found else "nothing lived any more"


def _named(found: dict[int, int]) -> str:
    pids = sorted(found)
    words = ", ".join(map(str, pids[:_SHOWN]))
    more = f" and {len(pids) - _SHOWN} more" if len(pids) > _SHOWN else ""
    return f"process{'es' * (len(pids) > 1)} {words}{more}"


def _worktree(places: Places, run_dir: str) -> Iterator[Mend]:
    from adw.store.state import load_state

    try:
        state, _ = load_state(run_dir)
        if state.branch_name is None or not places.repo.git_dir:
            return
        adw_id = os.path.basename(run_dir)
        place = Place(places.repo.git_dir, places.worktree(adw_id), state.branch_name)
        yield from _of_registration(place, registration.survey(place), adw_id)
    except AdwError:
        return  # told as what it is by others
    for path in mending.stale_locks(place):
        detail = (
            "a lock file of a git that was killed: no git works in this worktree while it stands"
        )
        hint = f"{_REPAIR} {adw_id}"
        yield Mend(Finding("lock", adw_id, path, detail, hint), partial(_unlock, place, path))


def _unlock(place: Place, path: str) -> str:
    if path in mending.remove_stale_locks(place) or not os.path.lexists(path):
        return "removed the lock file"
    return "a git works in the worktree: left alone"


def _of_registration(place: Place, seen: Seen, adw_id: str | None) -> Iterator[Mend]:
    """What is broken of how git knows a worktree; `adw_id` is None where its run is gone."""
    if seen.registration in {"absent", "foreign"} or seen.lock_reason not in {None, "initializing"}:
        return
    common, hint = registration.common_of(place.admin), f"{_REPAIR} {adw_id or ''}".rstrip()
    broken = common is None or not registration.same(common, place.git_dir)
    if adw_id and mending.read_note(place) is not None:
        detail = "a worktree that was never finished being made"
        found = Finding("worktree", adw_id, place.path, detail, hint)
        yield Mend(found, partial(_clear, place))
    elif seen.directory == "absent" and (adw_id is None or broken):
        detail = "git has a worktree registered that is gone"
        found = Finding("worktree", adw_id, place.admin, detail, hint)
        yield Mend(found, partial(_unregister, place))
    elif broken and seen.directory == "ours":
        detail = "the worktree's registration does not lead to the repository"
        found = Finding("worktree", adw_id, place.admin, detail, hint)
        yield Mend(found, partial(_lead_back, place))


def _clear(place: Place) -> str:
    note = mending.read_note(place)
    if note is None:
        return "somebody else has finished it"
    mending.sweep(place)
    mending.finish_or_clear(place, registration.survey(place), note)
    mending.remove_note(place)
    return "cleared away what was half-made"


def _unregister(place: Place) -> str:
    if registration.survey(place).directory != "absent":
        return "it is there again: left alone"
    return f"took the registration away, it is kept as {mending.unregister(place)}"


def _lead_back(place: Place) -> str:
    mending.lead_back(place)
    return "wrote its `commondir` anew"


def sweep_copy(git_dir: str, adw_id: str) -> Iterator[str]:
    """Folders of a run's copy in which a killed adw may have left temporary files."""
    folder = copying_state.folder(git_dir, adw_id)
    yield folder
    yield from (os.path.join(folder, name) for name in names_in(folder))
