"""What a killed git of our own left, and how it is cleared away without losing anybody's work.

Before git makes a worktree, a note is made durable in `<git dir>/adw/<id>/creating`; it goes when
the worktree is complete. While it stands, no phase has run in the tree, so that a half-made one
holds only what git checked out. Even then a directory is removed only if all its content is
proved to be of the commit; otherwise it is moved beside and kept.
"""

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from adw import log
from adw.errors import WorktreeError
from adw.store import files
from adw.workspace import locks, occupants, registration
from adw.workspace.git import ask_git, run_git
from adw.workspace.registration import Place, Seen

_SCRATCH: Final = "scratch-"


@dataclass(frozen=True, slots=True)
class Note:
    """Says that adw is making this worktree."""

    base: str | None
    """Commit that is being checked out; None where the note itself is torn."""


def room(place: Place) -> str:
    """The folder under the git directory that adw keeps for this run."""
    return os.path.join(place.git_dir, "adw", place.name)


def note_path(place: Place) -> str:
    """Where the note lies."""
    return os.path.join(room(place), "creating")


def write_note(place: Place, base: str) -> None:
    """Make it durable that adw is going to make this worktree."""
    path = note_path(place)
    data = {"path": place.path, "branch": place.branch, "base": base}
    with locks.storing(path):
        files.make_dirs(room(place))
        files.replace(path, json.dumps(data).encode() + b"\n")


def read_note(place: Place) -> Note | None:
    """The note, if it stands; one of another path counts for nothing."""
    path = note_path(place)
    with locks.storing(path):
        data = files.read_if_exists(path)
    if data is None:
        return None
    try:
        found = json.loads(data)
        return Note(str(found["base"])) if found["path"] == place.path else None
    except (ValueError, KeyError, TypeError):
        return Note(None)


def remove_note(place: Place) -> None:
    """The worktree is complete, durably so: a later fault in it is no half-made one."""
    path = note_path(place)
    if os.path.lexists(path):
        with locks.storing(path):
            files.unlink(path)
            files.sync_dir(room(place))


@contextlib.contextmanager
def scratch(place: Place) -> Iterator[str]:
    """A directory for temporary git files, gone afterwards; a killed one goes with `sweep`."""
    path = os.path.join(room(place), f"{_SCRATCH}{os.getpid()}-{os.urandom(4).hex()}")
    with locks.storing(path):
        files.make_dirs(room(place))
        files.make_dir(path)
    try:
        yield path
    finally:
        with contextlib.suppress(OSError):
            files.remove_tree(path)


def sweep(place: Place) -> None:
    """Remove scratch directories that a kill left; those of processes that live stay."""
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(room(place)):
            pid = name.removeprefix(_SCRATCH).partition("-")[0]
            if name.startswith(_SCRATCH) and not os.path.exists(f"/proc/{pid}"):
                with contextlib.suppress(OSError):
                    files.remove_tree(os.path.join(room(place), name))


def finish_or_clear(place: Place, seen: Seen, note: Note) -> None:
    """After a kill while a worktree was made: leave what is complete, clear away what is not.

    Args:
        place: Which one.
        seen: What the survey found.
        note: What was being made.

    Raises:
        WorktreeError: The name is registered for another path: not ours.
    """
    # Its index is what git writes last. The `initializing` lock alone does not tell: a git whose
    # child was killed takes it away before it begins to clean up.
    indexed = os.path.exists(os.path.join(place.admin, "index"))
    if (seen.registration, seen.directory) == ("whole", "ours") and indexed:
        remove_stale_locks(place)
    else:
        _clear_half_made(place, seen, note.base)


def _clear_half_made(place: Place, seen: Seen, base: str | None) -> None:
    if seen.registration == "foreign" or os.path.islink(place.path):
        raise WorktreeError(
            detail="the run's worktree is half-made, and something else is in its place",
            path=place.path,
            reason=None,
            fix="move it away, then resume",
        )
    with locks.storing(place.path):
        if os.path.lexists(place.path):
            if os.path.isdir(place.path) and _only_checked_out(place, base):
                files.remove_tree(place.path)
            else:
                _move_beside(place)
        if os.path.lexists(place.admin):
            files.remove_tree(place.admin)
        files.unlink(place.ref_file + ".lock")
    log.event("worktree.mended", path=place.path, registration=seen.registration)


def unregister(place: Place) -> str:
    """Take away the registration of a worktree whose directory is gone.

    Its index may be the only thing that knows staged work, so it is moved, not removed.

    Returns:
        Where it lies now.
    """
    with locks.storing(place.admin):
        files.make_dirs(room(place))
        kept = _free(os.path.join(room(place), "registration-"))
        files.rename(place.admin, kept)
    return kept


def lead_back(place: Place) -> None:
    """Let a registration lead to the shared directory again, as git wrote it at first."""
    path = os.path.join(place.admin, "commondir")
    with locks.storing(path):
        files.replace(path, b"../..\n", mode=0o644)


def stale_locks(place: Place) -> list[str]:
    """The lock files that a killed git of this run may have left, as far as they exist."""
    names = []
    with contextlib.suppress(OSError):
        # index, HEAD, ORIG_HEAD, MERGE_HEAD …: whatever lies in the worktree's own git directory
        names = [name for name in sorted(os.listdir(place.admin)) if name.endswith(".lock")]
    found = [os.path.join(place.admin, name) for name in names]
    ref = place.ref_file + ".lock"
    return [*found, ref] if os.path.lexists(ref) else found


def remove_stale_locks(place: Place) -> list[str]:
    """Remove them, unless a git that somebody else started works in the tree."""
    found = stale_locks(place)
    alive = git_in(place.path)
    if alive:
        log.event("git.locks_kept", locks=found, held_by=alive)
        return []
    for path in found:
        with locks.storing(path):
            files.unlink(path)
        log.event("git.lock_removed", lock=path)
    return found


def _only_checked_out(place: Place, base: str | None) -> bool:
    """Prove that a directory holds nothing but (part of) the files of a commit.

    git writes each file straight to its name, so one file may be cut short.
    """
    if not set(os.listdir(place.path)) - {".git"}:
        return True
    if base is None:
        return False
    where = ["--git-dir", place.git_dir, "--work-tree", place.path]
    with scratch(place) as directory:
        env = {"GIT_INDEX_FILE": os.path.join(directory, "index")}

        def names(*args: str) -> set[bytes]:
            done = run_git([*where, *args], place.path, kind="read", timeout_s=None, env=env)
            return set(done.split(b"\0")) - {b""}

        read = ask_git([*where, "read-tree", base], place.path, kind="read", env=env)
        if read.exit_code != 0 or names("ls-files", "-z", "--others"):
            return False
        changed = names("ls-files", "-z", "--modified") - names("ls-files", "-z", "--deleted")
        return not changed or (len(changed) == 1 and _cut_short(place, where, base, *changed))


def _cut_short(place: Place, where: list[str], base: str, name: bytes) -> bool:
    file = os.path.join(place.path, os.fsdecode(name))
    if os.path.islink(file) or not os.path.isfile(file):
        return False
    args = [*where, "cat-file", "--filters", f"{base}:{os.fsdecode(name)}"]
    whole = ask_git(args, place.path, kind="read")
    with open(file, "rb") as part:
        return whole.exit_code == 0 and whole.stdout.startswith(part.read())


def _move_beside(place: Place) -> None:
    kept = _free(place.path + ".kept-")
    named = registration.admin_of(place.path)
    if named is not None and registration.same(named, place.admin):
        # Its `.git` would make git act on the new worktree.
        files.unlink(os.path.join(place.path, ".git"))
    files.rename(place.path, kept)
    log.event("worktree.kept", path=place.path, kept=kept)


def _free(prefix: str) -> str:
    number = 1
    while os.path.lexists(f"{prefix}{number}"):
        number += 1
    return f"{prefix}{number}"


def git_in(path: str) -> list[int]:
    """Processes named git that work in a directory or below it; none where /proc is absent."""
    return [who.pid for who in occupants.working_in(path) if who.name == "git"]
