"""Keeps what lies in a worktree as a commit under `refs/adw/<id>/`, and puts a tree back to one.

A kept tree holds all that is tracked and all that is untracked, up to 100 MiB a file; ignored
files, what adw copied into the worktree, nested repositories and changes inside submodules are
not in it, and the commit's message names what is missing. It is made through a copy of the index,
so that neither the user's index nor the stash is touched. The ref is written last, after the
objects are on disk: a kill at any moment leaves no ref or a whole one.
"""

import contextlib
import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from adw import log
from adw.core.interfaces import Kept
from adw.errors import GitError
from adw.store import files
from adw.workspace import locks, mending, registration
from adw.workspace.git import ask_git, run_git
from adw.workspace.registration import Place
from adw.workspace.repository import pattern

LIMIT_BYTES: Final = 100 << 20
"""Larger untracked files are left out, and left in place by `back_to`."""
LOCK_WAIT_S: Final = 120.0  # for a git that puts the tree back
LIMIT_S: Final = 1800.0
"""For a large tree. Without one, a FIFO that somebody puts in place of a file just as git opens it
would hold a run for ever."""
ADD_TRIES: Final = 5
"""git refuses a file that goes away or changes while it is added, whoever does that."""
_REFUSED: Final = 128  # git's exit code; a git that was killed left its lock on the index
_INDEX_LIMIT: Final = 1 << 30
_WHO: Final = {
    f"GIT_{role}_{field}": value
    for role in ("AUTHOR", "COMMITTER")
    for field, value in (("NAME", "adw"), ("EMAIL", "adw@localhost"))
}
# A ref whose objects a power cut took would break `git gc` and `git fsck` of the repository.
_DURABLE: Final = ("-c", "core.fsync=objects,reference", "-c", "core.fsyncMethod=batch")
_LITERAL: Final = {"GIT_LITERAL_PATHSPECS": "1"}
_PLAIN: Final = ("-c", "core.splitIndex=false", "-c", "submodule.recurse=false")


@dataclass(frozen=True, slots=True)
class Changes:
    """What differs from HEAD."""

    any: bool
    """Whether anything does that belongs into a kept tree."""
    left_out: Mapping[bytes, str]
    """Path to why it is not kept."""
    staged_copies: tuple[bytes, ...]
    """Copied paths that somebody staged."""


def copy_index(place: Place, target: str) -> None:
    """Copy the worktree's index for a git that may write it."""
    source = os.path.join(place.admin, "index")
    try:
        data = files.read(source, limit=_INDEX_LIMIT)
    except FileNotFoundError:
        return
    files.create(target, data, sync=False)
    # The index's own time tells git which entries may have changed in the same instant as it
    # was written; a newer copy would hide such a change.
    seen = os.stat(source)
    os.utime(target, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def ref_of(place: Place, name: str) -> str:
    """The full name of a ref of the run."""
    return f"refs/adw/{place.name}/{name}"


def keep(
    place: Place, name: str, *, exclude: Sequence[str] = (), always: bool = False
) -> Kept | None:
    """Keep the tree as a commit, if it is not clean; one git process tells that it is.

    Args:
        place: The worktree; its HEAD may be anywhere.
        name: Last part of the ref; one of that name is replaced.
        exclude: Files and folders that adw copied into the tree, relative to its top.
        always: Of a clean tree, keep HEAD.

    Returns:
        None where nothing was to be kept, or there is no directory.

    Raises:
        GitError: git refused; what ref there was is as before.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    if not os.path.isdir(place.path):
        return None
    _await_orphan(place)
    found, head = changes(place, exclude), registration.head_commit(place)
    if found.any:
        commit = _commit(place, name, head, _tree(place, found), found.left_out)
    elif always and head is not None:
        commit = head
    else:
        return None
    return Kept(pin(place, name, commit), commit, _told(found.left_out))


def pin(place: Place, name: str, commit: str) -> str:
    """Have a ref of the run name a commit; returns its full name.

    Raises:
        GitError: git refused, such as for a commit that does not exist.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    ref = ref_of(place, name)
    with locks.repository(place.git_dir) as lock_fd:
        stale = os.path.join(place.git_dir, ref) + ".lock"
        if os.path.lexists(stale):
            # Made under the lock that we hold, by a git of this run that was killed.
            with locks.storing(stale):
                files.unlink(stale)
            log.event("git.lock_removed", lock=stale)
        args = ["--git-dir", place.git_dir, *_DURABLE, "update-ref", "--no-deref", ref, commit]
        run_git(args, place.git_dir, kind="read", hold=lock_fd)
    return ref


def back_to(
    place: Place,
    head: str,
    commit: str | None,
    name: str,
    *,
    exclude: Sequence[str] = (),
    known: str | None = None,
) -> Kept | None:
    """Put branch, tracked and untracked files back to what they were; ignored files stay.

    What is there now is kept first. Done again after a kill, it ends in the same tree.

    Args:
        place: The worktree, on the run's branch.
        head: Commit that the branch names afterwards.
        commit: The kept tree; None: that of `head`.
        name: Ref for what is there now; a number is added, none is replaced.
        exclude: Copied files, which stay as they are.
        known: A ref's last part; what is there now is not kept again where that holds it.

    Raises:
        GitError: git refused; what was there is kept or still there.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    _await_orphan(place)
    found, now = changes(place, exclude), registration.head_commit(place)
    kept = None
    if found.any or now != head:
        tree = _tree(place, found) if found.any else f"{now}^{{tree}}"
        if known is None or not _holds(place, known, now, tree):
            free = free_name(place, name)
            kept_as = now
            if found.any or now is None:
                kept_as = _commit(place, free, now, tree, found.left_out)
            assert kept_as is not None, "a commit, or HEAD"
            kept = Kept(pin(place, free, kept_as), kept_as, _told(found.left_out))
    spared = [*(os.fsencode(path) for path in exclude), *found.left_out]
    with locks.storing(mending.room(place)):
        files.make_dirs(mending.room(place))
    with locks.held(_tree_lock(place), LOCK_WAIT_S) as lock_fd:
        _restore(place, head, commit, spared, lock_fd)
    return kept


def changes(place: Place, exclude: Sequence[str] = ()) -> Changes:
    """What differs from HEAD, by one `git status`.

    Raises:
        GitError: git refused.
    """
    args = ["status", "--porcelain=v2", "-z", "-uall", "--no-renames", "--ignore-submodules=none"]
    data = run_git(place.explicit(args), place.path, kind="read", timeout_s=None)
    copies = [os.fsencode(os.path.normpath(path)) for path in exclude]
    left_out: dict[bytes, str] = {}
    staged, kept = [], False
    for kind, sub, path in _entries(data):
        if kind in {b"?", b"A"} and any(_below(path, copy) for copy in copies):
            left_out[path] = "copied into the worktree by adw"
            if kind == b"A":
                staged.append(path)
        elif why := _left_out(place, kind, sub, path):
            left_out[path] = why
            kept = True  # its absence is told
        else:
            kept = True
    return Changes(kept, left_out, tuple(staged))


def _entries(data: bytes) -> Iterator[tuple[bytes, bytes, bytes]]:
    """Kind (`?` untracked, `A` newly staged, `1` or `u` else), submodule word and path of each."""
    for entry in data.split(b"\0"):
        if entry.startswith(b"? "):
            yield b"?", b"N...", entry[2:]
        elif entry.startswith(b"1 "):
            parts = entry.split(b" ", 8)
            yield b"A" if parts[1].startswith(b"A") else b"1", parts[2], parts[8]
        elif entry.startswith(b"u "):
            parts = entry.split(b" ", 10)
            yield b"u", parts[2], parts[10]


def _below(path: bytes, top: bytes) -> bool:
    return path == top or path.startswith(top + b"/")


def _left_out(place: Place, kind: bytes, sub: bytes, path: bytes) -> str | None:
    """Why a path cannot be kept; None where it can."""
    if sub.startswith(b"S"):
        return "changes inside a submodule" if sub[2:] != b".." else None
    if path.endswith(b"/"):
        return "a repository of its own"
    file = os.path.join(os.fsencode(place.path), path)
    try:
        seen = os.lstat(file)
    except OSError:
        return None
    if stat.S_ISREG(seen.st_mode):
        if kind == b"?" and seen.st_size > LIMIT_BYTES:
            return f"{seen.st_size >> 20} MiB"
        if not os.access(file, os.R_OK):
            return "it cannot be read"
    return None


def _told(left_out: Mapping[bytes, str]) -> tuple[str, ...]:
    return tuple(
        f"{path.decode('utf-8', 'backslashreplace')} ({why})" for path, why in left_out.items()
    )


def _tree(place: Place, found: Changes) -> str:
    """The id of a tree of all that is kept."""
    with mending.scratch(place) as room:
        index = os.path.join(room, "index")
        with locks.storing(index):
            copy_index(place, index)
        return write_tree(place, found, {"GIT_INDEX_FILE": index})


def write_tree(place: Place, found: Changes, env: Mapping[str, str]) -> str:
    """Make a tree of all that is kept, in the index and object store that `env` names."""

    def git(*args: str, stdin: bytes | None = None) -> bytes:
        words = place.explicit([*_DURABLE, *_PLAIN, *args])
        return run_git(words, place.path, kind="read", stdin=stdin, timeout_s=LIMIT_S, env=env)

    # A copy is mostly ignored: git would refuse a specification that names it.
    named = (p.rstrip(b"/") for p in found.left_out if p not in found.staged_copies)
    specs = [b":(top)", *(b":(top,exclude,literal)" + p for p in named)]
    words = ("add", "-A", "--sparse", "--pathspec-from-file=-", "--pathspec-file-nul")
    for left in reversed(range(ADD_TRIES)):
        try:
            git(*words, stdin=b"\0".join(specs) + b"\0")
            break
        except GitError as error:
            if not left or error.fields["exit_code"] != _REFUSED:
                raise
    if found.staged_copies:
        names = b"\0".join(found.staged_copies) + b"\0"
        git("update-index", "--force-remove", "-z", "--stdin", stdin=names)
    return git("write-tree").decode().strip()


def _commit(
    place: Place, name: str, head: str | None, tree: str, left_out: Mapping[bytes, str]
) -> str:
    message = f"adw: the worktree of run {place.name}, {name}\n".encode()
    if left_out:
        missing = (b"- " + path + f" ({why})\n".encode() for path, why in left_out.items())
        message += b"\nNot in this commit:\n" + b"".join(missing)
    parent = ["-p", head] if head else []
    args = [*_DURABLE, "-c", "i18n.commitEncoding=UTF-8", "commit-tree", tree, *parent]
    made = run_git(place.explicit(args), place.path, kind="read", stdin=message, env=_WHO)
    return made.decode().strip()


def _holds(place: Place, name: str, head: str | None, tree: str) -> bool:
    """Whether a ref of the run names this tree on this HEAD."""
    args = ["log", "-1", "--no-show-signature", "--format=%T %H %P", ref_of(place, name), "--"]
    done = ask_git(["--git-dir", place.git_dir, *args], place.git_dir, kind="read")
    wanted = tree
    if tree.endswith("^{tree}"):
        query = ["--git-dir", place.git_dir, "rev-parse", tree]
        wanted = run_git(query, place.git_dir, kind="read").decode().strip()
    found, *commits = done.stdout.decode().split() or [""]
    return done.exit_code == 0 and found == wanted and head in commits


def free_name(place: Place, name: str) -> str:
    """A name that no ref of the run has yet."""
    args = ["for-each-ref", "--format=%(refname)", ref_of(place, "")]
    words = ["--git-dir", place.git_dir, *args]
    taken = set(run_git(words, place.git_dir, kind="read").decode().split())
    number = 1
    while ref_of(place, f"{name}-{number}") in taken:
        number += 1
    return f"{name}-{number}"


def _tree_lock(place: Place) -> str:
    return os.path.join(mending.room(place), "tree-lock")


def _await_orphan(place: Place) -> None:
    """Wait for the git of an adw that was killed while it put the tree back: it holds the lock."""
    if os.path.exists(_tree_lock(place)):
        with locks.held(_tree_lock(place), LOCK_WAIT_S):
            pass


def _restore(
    place: Place, head: str, commit: str | None, spared: Sequence[bytes], lock_fd: int
) -> None:
    """Make files and index those of a kept tree, then branch and index those of `head`.

    In this order the branch never names a kept tree, whatever moment a kill hits.
    """

    def git(*args: str, stdin: bytes | None = None) -> bytes:
        words = place.explicit([*_PLAIN, *args])
        return run_git(
            words, place.path, kind="read", stdin=stdin, timeout_s=None, env=_LITERAL, hold=lock_fd
        )

    git("read-tree", "-u", "--reset", commit or head)
    patterns = (pattern(path.rstrip(b"/")) for path in spared)
    git("clean", "-f", "-d", "-q", *(f"--exclude={os.fsdecode(each)}" for each in patterns))
    if commit and os.path.exists(os.path.join(place.admin, "info", "sparse-checkout")):
        # What was there although it lies outside of what is checked out.
        found = git("diff-tree", "-r", "-z", "--name-only", "--diff-filter=d", head, commit)
        source = ("restore", "--ignore-skip-worktree-bits", "--worktree", f"--source={commit}")
        if found:
            git(*source, "--pathspec-from-file=-", "--pathspec-file-nul", stdin=found)
    git("reset", "--quiet", "--mixed", head)


@contextlib.contextmanager
def throw_away(place: Place) -> Iterator[dict[str, str]]:
    """Variables for git commands whose index and new objects go away afterwards."""
    with mending.scratch(place) as room:
        index, objects = os.path.join(room, "index"), os.path.join(room, "objects")
        with locks.storing(room):
            copy_index(place, index)
            files.make_dir(objects)
        yield {
            "GIT_INDEX_FILE": index,
            "GIT_OBJECT_DIRECTORY": objects,
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": _quoted(os.path.join(place.git_dir, "objects")),
        }


def _quoted(path: str) -> str:
    """A path in a list separated by colons, as git reads it."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"' if ":" in path or path.startswith('"') else path
