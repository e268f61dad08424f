"""Taking away a worktree, its registration, its branch and its refs, so that a kill loses nothing.

The worktree is renamed aside, looked at once more, and unregistered by a second rename; only then
is anything deleted. Until the second rename the first is undone by whoever comes next; from there
on what lies aside is rubbish, and is deleted by whoever comes next. Whether something may go is
decided by the caller; what is done here is verified on the disk.
"""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

from adw import clock, log
from adw.store import files
from adw.workspace import locks, mending, occupants, registration
from adw.workspace.git import ask_git, run_git
from adw.workspace.registration import Place
from adw.workspace.repository import Repository

ASIDE: Final = ".removing-"
_UNREGISTERED: Final = "removing"
_DELETING: Final = "deleting"
_COARSE_S: Final = 0.05  # by so much a file's times may be behind the clock
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Left:
    """Something that could not be deleted."""

    path: str
    why: str


class ChangedMeanwhile(Exception):
    """Somebody wrote into the worktree after it was looked at; it is where it was."""


# --- looking -----------------------------------------------------------------------------


def uncommitted(place: Place, path: str | None = None) -> list[str]:
    """Names of what is modified, staged or untracked; ignored files do not count.

    Args:
        place: The worktree.
        path: Where it lies now, if not in its place; submodules are not looked into there, as
            their repositories know them by their place.

    Raises:
        GitError: git refused.
    """
    top = path or place.path
    args = ["status", "--porcelain", "-z", "-uall", "--no-renames"]
    args.append(f"--ignore-submodules={'all' if path else 'none'}")
    where = ["--git-dir", place.admin, "--work-tree", top]
    data = run_git([*where, *args], top, kind="read", timeout_s=None)
    return [os.fsdecode(entry[3:]) for entry in data.split(b"\0") if entry]


def names(paths: Sequence[str]) -> str:
    """The first few names, and how many more."""
    more = len(paths) - _SHOWN
    return ", ".join(paths[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def kept_refs(repo: Repository, adw_id: str) -> dict[str, str]:
    """Refs under which the run's trees were kept: full name to the id of the tree."""
    args = ["for-each-ref", "--format=%(refname) %(tree)", f"refs/adw/{adw_id}/"]
    data = run_git(["--git-dir", repo.git_dir, *args], repo.git_dir, kind="read")
    lines = data.decode("utf-8", "surrogateescape").splitlines()
    return dict(line.split(" ", 1) for line in lines)


def ids_with_refs(repo: Repository) -> set[str]:
    """Ids of all runs of which trees were kept, by one git process."""
    args = ["--git-dir", repo.git_dir, "for-each-ref", "--format=%(refname)", "refs/adw/"]
    data = run_git(args, repo.git_dir, kind="read").decode("utf-8", "surrogateescape")
    return {ref.split("/")[2] for ref in data.splitlines()}


def trees_since(repo: Repository, base: str | None, tip: str) -> set[str]:
    """Ids of the trees of all commits of a branch since its base."""
    args = ["log", "--format=%T", "--no-show-signature", tip, *(["--not", base] if base else [])]
    done = ask_git(["--git-dir", repo.git_dir, *args, "--"], repo.git_dir, kind="read")
    return set(done.stdout.decode().split())


# --- the worktree ------------------------------------------------------------------------


def aside(place: Place) -> str:
    """Where the worktree lies while it is removed."""
    return os.path.join(os.path.dirname(place.path), f"{ASIDE}{place.name}")


def recover(place: Place) -> list[Left]:
    """Bring a removal that was killed to one side or the other; the caller holds the run's lock.

    Returns:
        What lies aside still, as it cannot be deleted.

    Raises:
        StoreError: A worktree cannot be put back.
        WorktreeError: One that was half-made is not adw's to clear away.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    moved, note = aside(place), mending.read_note(place)
    if note is not None or os.path.lexists(moved):
        with _locked(place):
            mending.sweep(place)
            seen = registration.survey(place)
            if note is not None:
                mending.finish_or_clear(place, seen, note)
                mending.remove_note(place)
            elif seen.registration == "whole" and seen.directory == "absent":
                with locks.storing(moved):
                    files.rename(moved, place.path)
                log.event("worktree.put_back", path=place.path)
    if os.path.lexists(os.path.join(mending.room(place), _DELETING)):
        with _locked(place):
            if not _clear_locks(place):
                _write_note(place, _Deleting(0.0, ()))
    return _delete_rubbish(place)


def take_away(place: Place, *, discard: bool) -> list[Left]:
    """Remove the worktree and its registration.

    Args:
        place: The worktree; nothing works in it.
        discard: What is in no commit goes too.

    Returns:
        What could not be deleted; it lies aside, and the name is free.

    Raises:
        ChangedMeanwhile: It is not clean; nothing was done.
        StoreError: It could not be moved; nothing was done.
        GitError: git could not look at it; nothing was done.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    moved = aside(place)
    with _locked(place):
        kind = registration.survey(place).directory
        assert kind != "other", "not this run's worktree"
        if kind != "absent":
            with locks.storing(place.path):
                files.rename(place.path, moved)
            try:
                _refuse_changed(place, moved, discard=discard or kind == "empty")
                _unregister(place)
            except BaseException:
                if kind == "empty" or os.path.lexists(place.admin):
                    files.rename(moved, place.path)
                raise
        else:
            _unregister(place)
    return _delete_rubbish(place)


def _refuse_changed(place: Place, moved: str, *, discard: bool) -> None:
    """Look once more, now that nobody finds it by its name."""
    if registration.admin_of(moved) is None and os.listdir(moved):
        raise ChangedMeanwhile(names(sorted(os.listdir(moved))))
    changed = [] if discard else uncommitted(place, moved)
    if changed:
        raise ChangedMeanwhile(names(changed))


def is_over(place: Place) -> bool:
    """Whether nothing is left of a worktree, nor of its making or removal; no git process."""
    room = mending.room(place)
    if any(os.path.lexists(path) for path in (place.path, place.admin, aside(place))):
        return False
    try:
        found = os.listdir(room)
    except FileNotFoundError:
        return True
    notes = {os.path.basename(mending.note_path(place)), _DELETING}
    return not any(name in notes or name.startswith(_UNREGISTERED) for name in found)


def is_gone(place: Place) -> bool:
    """Whether neither the disk nor `git worktree list` has the worktree any more."""
    args = ["--git-dir", place.git_dir, "worktree", "list", "--porcelain", "-z"]
    data = run_git(args, place.git_dir, kind="read")
    listed = os.fsencode(f"worktree {os.path.realpath(place.path)}") in data.split(b"\0")
    return not listed and not os.path.lexists(place.path)


def _unregister(place: Place) -> None:
    """Take the registration out of git's sight by one rename."""
    room = mending.room(place)
    target = os.path.join(room, f"{_UNREGISTERED}-{os.urandom(4).hex()}")
    with locks.storing(place.admin):
        files.make_dirs(room)
        with contextlib.suppress(FileNotFoundError):
            files.rename(place.admin, target)


def _delete_rubbish(place: Place) -> list[Left]:
    room = mending.room(place)
    found = [aside(place)]
    with contextlib.suppress(OSError):
        found += [os.path.join(room, n) for n in os.listdir(room) if n.startswith(_UNREGISTERED)]
    there = (path for path in found if os.path.lexists(path))
    return [Left(path, why) for path in there if (why := delete(path))]


# --- branch and refs ---------------------------------------------------------------------


def delete_refs(place: Place, refs: Mapping[str, str | None]) -> None:
    """Delete refs of a run in one transaction.

    Args:
        place: The run's.
        refs: Full names, each with the commit that it has to name still; None: any.

    Raises:
        GitError: git refused, with its own words; none was deleted, or all were.
        StoreError: The note on it cannot be written.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    lines = [f"delete {ref} {old or ''}".rstrip() + "\n" for ref, old in refs.items()]
    with _locked(place) as lock_fd:
        left = _clear_locks(place)
        begun = min([each.begun_s for each in left], default=clock.Clock().now() - _COARSE_S)
        old = [ref for each in left for ref in each.refs]
        _write_note(place, _Deleting(begun, (*old, *refs)))
        args = ["--git-dir", place.git_dir, "update-ref", "--no-deref", "--stdin"]
        stdin = "".join(lines).encode("utf-8", "surrogateescape")
        run_git(args, place.git_dir, kind="read", stdin=stdin, hold=lock_fd)
        _write_note(place, _Deleting(begun, tuple(old)))


@dataclass(frozen=True, slots=True)
class _Deleting:
    """A note: refs whose deletion by a git of ours began and may have been cut short."""

    begun_s: float
    refs: tuple[str, ...]


def _write_note(place: Place, note: _Deleting) -> None:
    path = os.path.join(mending.room(place), _DELETING)
    with locks.storing(path):
        if note.refs:
            files.make_dirs(mending.room(place))
            files.replace(path, json.dumps(asdict(note)).encode() + b"\n")
        else:
            files.unlink(path)


def _clear_locks(place: Place) -> list[_Deleting]:
    """Remove lock files of a git that was killed while it deleted refs of this run.

    A note names them, and the lock that it would hold is ours: it is dead. Where any other git
    works in the repository, a lock may be that one's, and stays.

    Returns:
        The note, where it must stand.
    """
    path = os.path.join(mending.room(place), _DELETING)
    try:
        with locks.storing(path):
            found = json.loads(files.read_if_exists(path) or b"null")
        note = _Deleting(float(found["begun_s"]), tuple(map(str, found["refs"])))
    except (ValueError, KeyError, TypeError):
        return []
    busy = occupants.working_in(os.path.dirname(place.git_dir))
    busy += occupants.working_in(place.git_dir)
    if any(who.name.startswith("git") for who in busy):
        return [note]
    for name in ("packed-refs.lock", "packed-refs.new", *(f"{ref}.lock" for ref in note.refs)):
        lock = os.path.join(place.git_dir, name)
        with locks.storing(lock), contextlib.suppress(FileNotFoundError):
            if os.lstat(lock).st_ctime >= note.begun_s:
                files.unlink(lock)
                log.event("git.lock_removed", lock=lock)
    return []


def forget_branch(place: Place) -> None:
    """Remove what the repository's configuration has of a branch that is gone, such as its remote.

    Raises:
        GitError: git refused.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    section = f"branch.{place.branch}"
    args = ["--git-dir", place.git_dir, "config", "--local"]
    pattern = f"^{re.escape(section)}\\."
    found = ask_git([*args, "--name-only", "--get-regexp", pattern], place.git_dir, kind="read")
    if found.exit_code == 0:
        with _locked(place) as lock_fd:
            words = [*args, "--remove-section", section]
            run_git(words, place.git_dir, kind="read", hold=lock_fd)


# --- deleting ----------------------------------------------------------------------------


def delete(path: str) -> str | None:
    """Delete a file or a folder with all that is in it; says why not, or None."""
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            files.remove_tree(path)
        else:
            files.unlink(path)
    except OSError as error:
        if not os.path.lexists(path):  # somebody else deletes it too
            return None
        where = f"`{error.filename}`: " if error.filename else ""
        return f"{where}{error.strerror or error}"
    return None


def move_aside(path: str) -> str:
    """Rename a folder beside itself, so that its name is free at once; returns where it is.

    Raises:
        OSError: It is where it was.
    """
    target = os.path.join(os.path.dirname(path), f"{ASIDE}{os.path.basename(path)}")
    if os.path.lexists(target):
        delete(target)
    files.rename(path, target)
    return target


def _locked(place: Place) -> contextlib.AbstractContextManager[int]:
    return locks.repository(place.git_dir)
