"""`adw rm` and `adw gc`: what of a run may go, why, and taking it away.

Nothing that exists only here goes unless a person gives it up by name: `--discard` what is in no
commit, `--force` commits that are neither merged nor pushed and trees that were kept of phases.
A run that lives, or that a person may still want to go on with, is left alone by `gc`.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final

from adw.app import copying_state, reading
from adw.app.places import Places, refuse_inside
from adw.errors import AdwError, BusyError, ExitCode
from adw.store import runs
from adw.store.state import load_state
from adw.workspace import mending, occupants, registration, removing
from adw.workspace.delivery import Delivery, Whereabouts, unpushed_submodules
from adw.workspace.registration import Place, Seen
from adw.workspace.removing import ChangedMeanwhile

REMOVE: Final = "remove"
REMOVED: Final = "removed"
KEPT: Final = "kept"
FAILED: Final = "failed"
FREE: Final = "free"
_STAYS: Final = (KEPT, FAILED)
_AGAIN: Final = "let it be removed (chmod -R u+w, chattr -R -i), then the same command again"


@dataclass(frozen=True, slots=True)
class Options:
    """What a person asked for."""

    discard: bool = False
    """Give up what is in no commit."""
    force: bool = False
    """Give up commits that are only here, and kept trees."""
    purge: bool = False
    """Remove the run's directory too: history, logs, artifacts."""
    dry_run: bool = False
    collecting: bool = False
    """By `gc`: after a fixed time nobody looks at what was kept of a run that is delivered."""


@dataclass(frozen=True, slots=True)
class Part:
    """One thing of a run, what becomes of it, and why."""

    part: str
    """worktree, branch, refs, lease or directory; of no run: run, copy or leftover."""
    name: str
    action: str
    """remove (with `dry_run`), removed, kept, failed, or free without anybody's doing."""
    reason: str
    hint: str | None = None


@dataclass(slots=True)
class Removal:
    """What became of one run."""

    adw_id: str
    status: str
    parts: list[Part] = field(default_factory=list)

    def has(self, action: str, *names: str) -> bool:
        """Whether a part, or one of these, had this action."""
        return any(p.action == action and (not names or p.part in names) for p in self.parts)

    def exit_code(self, options: Options) -> int:
        """What `adw rm` ends with: something is left that was to go, or was kept from it."""
        if self.has(FAILED):
            return ExitCode.ENVIRONMENT
        asked = ("worktree", "branch", *(["directory"] if options.purge else []))
        return ExitCode.USAGE if self.has(KEPT, *asked) else ExitCode.OK


@dataclass(frozen=True, slots=True)
class _Run:
    """A run that is looked at; nobody else holds it."""

    run_dir: str
    status: str
    state: Any
    place: Place
    delivery: Delivery
    base: str | None
    options: Options

    @property
    def adw_id(self) -> str:
        return self.place.name

    def where(self, commit: str) -> Whereabouts:
        return self.delivery.of(commit, self.base)


def remove(
    places: Places, run_dir: str, options: Options, deliveries: dict[str | None, Delivery]
) -> Removal:
    """Take away what may go of one run.

    Args:
        places: The repository and its runs.
        run_dir: The run.
        options: What a person gave up.
        deliveries: Where work is, by base branch; one for all runs, as remotes are asked once.

    Raises:
        BusyError: The run lives.
        StateError: Its state is damaged, so that nothing of it can be told.
    """
    refuse_inside(run_dir, "rm")
    adw_id = os.path.basename(run_dir)
    load_state(run_dir)
    status = str(reading.short(places.agents_dir, adw_id)["status"])
    if options.dry_run and runs.held(run_dir):
        raise BusyError(adw_id=adw_id, holder=runs.holder(run_dir))
    lock = None if options.dry_run else runs.open_run(run_dir)
    try:
        if runs.attempt_alive(run_dir):
            raise BusyError(adw_id=adw_id, holder=runs.ORPHAN)
        run = _look(places, run_dir, status, options, deliveries)
        done = Removal(adw_id, run.status)
        done.parts = [shown(places, part) for part in _remove(places, run)]
        return done
    finally:
        if lock is not None:
            lock.close()


def _look(
    places: Places,
    run_dir: str,
    status: str,
    options: Options,
    deliveries: dict[str | None, Delivery],
) -> _Run:
    from adw.app.rebuilding import read_info
    from adw.workspace.repository import base_branch

    state, _ = load_state(run_dir)
    name = _base_branch(run_dir, state) or base_branch(places.repo)
    if name not in deliveries:
        deliveries[name] = Delivery(places.repo, name)
    path = places.worktree(state.adw_id, state.worktree_path)
    if os.path.basename(path) != state.adw_id:  # somebody else's, whatever the state says
        path = places.worktree(state.adw_id)
    place = Place(places.repo.git_dir, path, state.branch_name or "")
    base = read_info(run_dir).get("base")
    return _Run(run_dir, status, state, place, deliveries[name], base, options)


def _base_branch(run_dir: str, state: Any) -> str | None:
    """The branch that the run's work goes back to, as its definition has it."""
    from adw.app import define

    if not state.workflow:
        return None
    try:
        return define.load(run_dir, state.workflow).base_branch
    except AdwError:
        return None


def shown(places: Places, part: Part) -> Part:
    """The part with a path that is relative to the main checkout, as people see it."""
    root = places.repo.root + os.sep
    return replace(part, name=part.name.removeprefix(root))


# --- one run -----------------------------------------------------------------------------


def _remove(places: Places, run: _Run) -> Iterator[Part]:
    """Each part in the order in which they go: what others stand on goes last."""
    if not run.options.dry_run:
        left = removing.recover(run.place)
        yield from (Part("worktree", each.path, FAILED, each.why, _AGAIN) for each in left)
    tree = _tree(run)
    if tree is not None:
        yield tree
    seen = registration.survey(run.place) if run.place.branch else None
    tree_kept = tree is not None and tree.action in _STAYS
    branch = _branch(run, seen, tree_kept=tree_kept)
    # Before the branch, which vouches for some of them.
    refs = list(_refs(places, run, seen, branch, tree_kept=tree_kept))
    yield from refs
    if branch is not None:
        if branch.action == REMOVE and not run.options.dry_run:
            branch = _delete_branch(run, branch, str(seen and seen.tip))
        yield branch
    if run.state.backend_port is not None:
        name = f"ports {run.state.backend_port} and {run.state.frontend_port}"
        yield Part("lease", name, FREE, "a pair is a run's only while the run lives")
    yield _directory(places, run, kept=any(p and p.action in _STAYS for p in (tree, branch, *refs)))


def _tree(run: _Run) -> Part | None:
    seen = registration.survey(run.place)
    if (seen.registration, seen.directory) == ("absent", "absent"):
        return None
    path = run.place.path
    objection = _objection(run, seen)
    if objection is not None:
        reason, hint = objection
        return Part("worktree", path, KEPT, reason, hint)
    reason = "it is clean" if seen.directory == "ours" else "its directory is gone"
    if run.options.discard and seen.directory == "ours" and removing.uncommitted(run.place):
        reason = "what is in no commit is given up"
    if run.options.dry_run:
        return Part("worktree", path, REMOVE, reason)
    return _take_tree(run, reason)


def _take_tree(run: _Run, reason: str) -> Part:
    path = run.place.path
    try:
        left = removing.take_away(run.place, discard=run.options.discard)
    except ChangedMeanwhile as changed:
        return Part("worktree", path, KEPT, f"it was changed just now: {changed}")
    except AdwError as error:
        return _failed("worktree", path, error)
    if left:
        why = "; ".join(f"left at {each.path}: {each.why}" for each in left)
        return Part("worktree", path, FAILED, why, _AGAIN)
    if not removing.is_gone(run.place):
        return Part("worktree", path, FAILED, "it is still there", "git worktree list")
    return Part("worktree", path, REMOVED, reason)


def _objection(run: _Run, seen: Seen) -> tuple[str, str | None] | None:
    """Why the worktree must stay, and what would change that."""
    place = run.place
    if seen.registration == "foreign":
        return "its name is registered for a worktree elsewhere", "git worktree list"
    if seen.directory == "other":
        return "it is not this run's worktree, though it lies in its place", "look what it is"
    if seen.lock_reason is not None:
        why = f": {seen.lock_reason}" if seen.lock_reason else ""
        return f"it is locked{why}", f"git worktree unlock {place.path}"
    if seen.registration == "half" and mending.read_note(place) is None:
        return "its registration is damaged", "git worktree repair"
    if seen.directory != "ours":
        return None
    busy = occupants.working_in(place.path)
    if busy:
        return f"{occupants.named(busy)} works in it", "end it, or leave the directory"
    return _work_in(run, seen)


def _work_in(run: _Run, seen: Seen) -> tuple[str, str | None] | None:
    """What would be lost with a whole worktree."""
    place, adw_id = run.place, run.adw_id
    if not run.options.discard:
        changed = removing.uncommitted(place)
        if changed:
            count = f"{len(changed)} file{'s' * (len(changed) > 1)}"
            verb = "is" if len(changed) == 1 else "are"
            reason = f"{count} {verb} in no commit: {removing.names(changed)}"
            return reason, f"commit them, or give them up: adw rm {adw_id} --discard"
    if not run.options.force:
        head = registration.head_commit(place)
        if head is not None and head != seen.tip:
            found = run.where(head)
            if found.kind == "nowhere":
                reason = f"its HEAD {head[:12]} is not on the branch: {found.words}"
                return reason, f"put it on a branch, or: adw rm {adw_id} --force"
        inner = unpushed_submodules(place.admin)
        if inner:
            reason = f"submodules have commits that are on no remote: {removing.names(inner)}"
            return reason, f"push them, or give them up: adw rm {adw_id} --force"
    return None


def _branch(run: _Run, seen: Seen | None, *, tree_kept: bool) -> Part | None:
    """What is to become of the branch; nothing is done yet."""
    if seen is None or seen.tip is None:
        return None
    name, options, found = run.place.branch, run.options, run.where(seen.tip)
    if name == run.delivery.base_branch or run.adw_id not in name:
        hint = None if found.kind == "nowhere" else f"git branch -D {name}"
        return Part("branch", name, KEPT, "it was not made for this run", hint)
    if seen.elsewhere is not None:
        return Part("branch", name, KEPT, f"it is checked out in {seen.elsewhere}")
    if tree_kept:
        return Part("branch", name, KEPT, f"its worktree is kept; {found.words}", found.hint)
    if options.collecting and run.status != "succeeded":
        reason = f"the run is {run.status} and can go on; {found.words}"
        return Part("branch", name, KEPT, reason, f"adw resume {run.adw_id}")
    if found.kind != "nowhere":
        return Part("branch", name, REMOVE, found.words)
    if options.force:
        return Part("branch", name, REMOVE, f"given up: {found.words}")
    hint = f"{found.hint}, or give it up: adw rm {run.adw_id} --force"
    return Part("branch", name, KEPT, found.words, hint)


def _delete_branch(run: _Run, part: Part, tip: str) -> Part:
    try:
        removing.delete_refs(run.place, {f"refs/heads/{part.name}": tip})
        removing.forget_branch(run.place)
    except AdwError as error:
        return _failed("branch", part.name, error)
    if registration.tip(run.place) is not None:
        hint = f"git branch -D {part.name}"
        return Part("branch", part.name, FAILED, "it is still there", hint)
    return replace(part, action=REMOVED)


def _refs(
    places: Places, run: _Run, seen: Seen | None, branch: Part | None, *, tree_kept: bool
) -> Iterator[Part]:
    """Trees that were kept of phases: of work that may be in no commit of a branch."""
    found, name = removing.kept_refs(places.repo, run.adw_id), f"refs/adw/{run.adw_id}/"
    if not found:
        return
    if tree_kept or (run.options.collecting and run.status != "succeeded"):
        why = "its worktree is kept" if tree_kept else f"the run is {run.status} and can go on"
        yield Part("refs", name, KEPT, f"{_trees(list(found))}; {why}")
        return
    tip = seen.tip if seen is not None else None
    known = removing.trees_since(places.repo, run.base, tip) if tip else set()
    again = [ref for ref, tree in found.items() if tree in known]
    rest = [ref for ref in found if ref not in again]
    if again:
        yield _drop_refs(places, run, name, again, "committed later as they were")
    if not rest:
        return
    delivered = branch is None or branch.action == REMOVE
    if run.options.force:
        yield _drop_refs(places, run, name, rest, "given up")
    elif run.options.collecting and run.status == "succeeded" and delivered:
        yield _drop_refs(places, run, name, rest, "of a run that is delivered")
    else:
        reason = f"{_trees(rest)} that no commit of the branch has"
        look = f"git log --oneline --all --glob={name}"
        yield Part("refs", name, KEPT, reason, f"{look}, or: adw rm {run.adw_id} --force")


def _trees(refs: list[str]) -> str:
    return f"{len(refs)} kept tree{'s' * (len(refs) > 1)}"


def _drop_refs(places: Places, run: _Run, name: str, refs: list[str], why: str) -> Part:
    if run.options.dry_run:
        return Part("refs", name, REMOVE, f"{_trees(refs)}, {why}")
    try:
        removing.delete_refs(run.place, dict.fromkeys(refs))
    except AdwError as error:
        return _failed("refs", name, error)
    left = removing.kept_refs(places.repo, run.adw_id).keys() & set(refs)
    if left:
        return Part("refs", name, FAILED, f"{len(left)} are still there")
    return Part("refs", name, REMOVED, f"{_trees(refs)}, {why}")


def _directory(places: Places, run: _Run, *, kept: bool) -> Part:
    path = run.run_dir
    if not run.options.purge:
        return history_only(path)
    if kept:
        return Part("directory", path, KEPT, "it tells of what is kept")
    if run.options.dry_run:
        return Part("directory", path, REMOVE, "history, logs and artifacts are given up")
    # The copy first: while the directory stands, the run can be named, and this be done again.
    copy = copying_state.folder(places.repo.git_dir, run.adw_id)
    try:
        why = removing.delete(copy) if os.path.lexists(copy) else None
        why = why or removing.delete(removing.move_aside(path))
    except OSError as error:
        why = f"`{error.filename}`: {error.strerror}"
    if why:
        return Part("directory", path, FAILED, why, _AGAIN)
    return Part("directory", path, REMOVED, "history, logs and artifacts are given up")


def history_only(run_dir: str) -> Part:
    """The directory of a run, which stays until it is given up."""
    hint = f"adw rm {os.path.basename(run_dir)} --purge removes it"
    return Part("directory", run_dir, KEPT, "it has history, logs and artifacts", hint)


def _failed(part: str, name: str, error: AdwError) -> Part:
    why = error.line("why")
    reason = f"{error.message}: {why}" if why else error.message
    return Part(part, name, FAILED, reason, error.line("hint"))
