"""What git's own files say of one worktree, read without a git process.

A linked worktree is a directory whose `.git` file names `<git dir>/worktrees/<name>`, where
`gitdir` points back, `commondir` leads to the shared directory and `HEAD` names the branch.
`git worktree add` killed half way leaves any prefix of that, and one such prefix (an empty
`commondir`) makes `git worktree list` fail for the whole repository.

Source: gitrepository-layout(5); git-worktree(1), "DETAILS".
"""

import contextlib
import errno
import os
import re
import shlex
import stat
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from adw.errors import ReadError, UsageError

Registration = Literal["absent", "half", "whole", "foreign"]
Directory = Literal["absent", "empty", "ours", "other"]

_SHA: Final = re.compile(r"\A[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_BRANCH: Final = re.compile(r"\A[A-Za-z0-9][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*\Z")
_CORE_WORKTREE: Final = re.compile(r"^\s*worktree\s*=", re.IGNORECASE | re.MULTILINE)
_BRANCH_LIMIT: Final = 200  # characters; a ref is a file name
_SMALL: Final = 64 * 1024
_PACKED: Final = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Seen:
    """State of registration, directory and branch at one moment."""

    registration: Registration
    """`foreign`: the name is taken by a worktree at another path."""
    directory: Directory
    """`ours`: its `.git` names our registration; `other`: anything else with content."""
    head: str | None
    """Branch that the worktree's HEAD names; None where it is detached or unreadable."""
    tip: str | None
    """Commit of the run's branch; None where there is no such branch."""
    lock_reason: str | None
    """Text of `git worktree lock`; None where it is not locked."""
    elsewhere: str | None = None
    """Another checkout whose HEAD names the branch."""
    remote: str | None = None
    """Where a remote had the branch when it was last fetched; looked for where `tip` is None."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one worktree and its parts lie."""

    git_dir: str
    """The shared directory."""
    path: str
    """The worktree."""
    branch: str

    @property
    def name(self) -> str:
        """The name it is registered by."""
        return os.path.basename(self.path)

    @property
    def admin(self) -> str:
        """The worktree's own git directory."""
        return os.path.join(self.git_dir, "worktrees", self.name)

    @property
    def ref_file(self) -> str:
        """The branch as a loose ref."""
        return os.path.join(self.git_dir, "refs", "heads", self.branch)

    def explicit(self, args: Sequence[str]) -> list[str]:
        """Words for git: never let it look for a repository, it would find the one around."""
        return ["--git-dir", self.admin, "--work-tree", self.path, *args]

    @property
    def reftable(self) -> bool:
        """Whether refs lie in a format that only git can read."""
        return os.path.isdir(os.path.join(self.git_dir, "reftable"))


def check_branch(name: str) -> None:
    """Refuse a branch name that git, a shell or a path could misread.

    Raises:
        UsageError: Also for names that git itself accepts, such as `@` or `refs/heads/x`.
    """
    parts = name.split("/")
    bad = (
        len(name) > _BRANCH_LIMIT
        or not _BRANCH.match(name)
        or ".." in name
        or name == "HEAD"
        or parts[0] == "refs"
        or _SHA.match(name)
        or any(part.endswith((".lock", ".")) for part in parts)
    )
    if bad:
        raise UsageError(
            detail=f"`{name[:80]!r}` is not a branch name that adw uses",
            fix="letters, digits, `.`, `_`, `-` and `/`, at most 200 characters",
        )


def survey(place: Place) -> Seen:
    """Look at everything that decides what has to be done; changes nothing."""
    locked = read_text(os.path.join(place.admin, "locked"))
    found = tip(place)
    return Seen(
        registration=_registration(place, locked),
        directory=_directory(place),
        head=head_branch(place),
        tip=found,
        lock_reason=locked,
        elsewhere=_elsewhere(place),
        remote=_on_a_remote(place) if found is None else None,
    )


def head_branch(place: Place) -> str | None:
    """Branch that the worktree's HEAD names; None where detached or unreadable."""
    prefix = "refs/heads/"
    head = read_text(os.path.join(place.admin, "HEAD")) or ""
    if place.reftable and head:
        head = "ref: " + (_ask(place, place.admin, ["symbolic-ref", "-q", "HEAD"]) or "")
    ref = head.removeprefix("ref: ")
    return ref.removeprefix(prefix) if head != ref and ref.startswith(prefix) else None


def head_commit(place: Place) -> str | None:
    """Commit that the worktree's HEAD leads to, on whatever branch; None where there is none."""
    if place.reftable:
        return _ask(place, place.admin, ["rev-parse", "--verify", "-q", "HEAD^{commit}"])
    branch = head_branch(place)
    if branch is not None:
        return tip(replace(place, branch=branch))
    head = read_text(os.path.join(place.admin, "HEAD")) or ""
    return head if _SHA.match(head) and head.strip("0") else None


def tip(place: Place) -> str | None:
    """Commit of the branch by loose ref, else by packed-refs; None where there is none."""
    return _commit_of(place, f"refs/heads/{place.branch}")


def _on_a_remote(place: Place) -> str | None:
    """Where a remote had the branch; None where none had it, or several had it elsewhere."""
    remotes = {"origin"}
    with contextlib.suppress(OSError):
        remotes.update(os.listdir(os.path.join(place.git_dir, "refs", "remotes")))
    packed = _read(os.path.join(place.git_dir, "packed-refs"), _PACKED) or b""
    for name in re.findall(rb" refs/remotes/([^/\n]+)/" + re.escape(place.branch.encode()), packed):
        remotes.add(os.fsdecode(name))
    found = {_commit_of(place, f"refs/remotes/{each}/{place.branch}") for each in remotes}
    found.discard(None)
    return found.pop() if len(found) == 1 else None


def _elsewhere(place: Place) -> str | None:
    """Another checkout whose HEAD names the branch."""
    wanted = f"ref: refs/heads/{place.branch}"
    if read_text(os.path.join(place.git_dir, "HEAD")) == wanted:
        return os.path.dirname(place.git_dir)
    admins = os.path.join(place.git_dir, "worktrees")
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for name in sorted(os.listdir(admins)):
            admin = os.path.join(admins, name)
            if name != place.name and read_text(os.path.join(admin, "HEAD")) == wanted:
                back = read_text(os.path.join(admin, "gitdir")) or admin
                return os.path.dirname(os.path.join(admin, back))
    return None


def _commit_of(place: Place, ref: str) -> str | None:
    if place.reftable:
        return _ask(place, place.git_dir, ["show-ref", "--verify", "--hash", "--", ref])
    # This order: git renames packed-refs into place before it removes the loose files.
    loose = read_text(os.path.join(place.git_dir, ref))
    if loose is not None:
        return loose if _SHA.match(loose) else None
    packed = _read(os.path.join(place.git_dir, "packed-refs"), _PACKED) or b""
    at = packed.find(f" {ref}\n".encode())
    if at < 0:
        return None
    sha = packed[packed.rfind(b"\n", 0, at) + 1 : at].decode("ascii", "replace")
    return sha if _SHA.match(sha) else None


def admin_of(path: str) -> str | None:
    """The git directory that a worktree's `.git` file names, absolute; None where it has none."""
    text = read_text(os.path.join(path, ".git"))
    if text is None or not text.startswith("gitdir: "):
        return None
    return os.path.join(path, text.removeprefix("gitdir: "))


def common_of(admin: str) -> str | None:
    """The shared directory that a worktree's own git directory leads to; None if it does not."""
    text = read_text(os.path.join(admin, "commondir"))
    return os.path.realpath(os.path.join(admin, text)) if text else None


def leads_away(place: Place) -> bool:
    """Whether `core.worktree` of the worktree's own configuration is set, as adw never does."""
    text = read_text(os.path.join(place.admin, "config.worktree"))
    return text is not None and _CORE_WORKTREE.search(text) is not None


def same(one: str, other: str) -> bool:
    """Tell whether two paths lead to the same place, also with symbolic links and `..`."""
    return one == other or os.path.realpath(one) == os.path.realpath(other)


def read_text(path: str) -> str | None:
    """A small file's text without its final newline; None for whatever is not one.

    Raises:
        ReadError: The disk or a limit of the system is at fault.
    """
    data = _read(path, _SMALL)
    return None if data is None else data.decode("utf-8", "surrogateescape").rstrip("\n")


def _read(path: str, limit: int) -> bytes | None:
    # Not store.files.read: these are git's files, and who owns them is git's own check.
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in _SICK:
            raise ReadError.of(error, path) from error
        return None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode) or os.fstat(fd).st_size > limit:
            return None
        parts = []
        while part := os.read(fd, 1 << 20):
            parts.append(part)
        return b"".join(parts)
    except OSError as error:
        raise ReadError.of(error, path) from error
    finally:
        os.close(fd)


_SICK: Final = frozenset({errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ESTALE})
"""What a disk or a limit says: nothing about whether the file is there."""


def _registration(place: Place, locked: str | None) -> Registration:
    if not os.path.lexists(place.admin):
        return "absent"
    back = read_text(os.path.join(place.admin, "gitdir"))
    if back and not same(os.path.join(place.admin, back), os.path.join(place.path, ".git")):
        return "foreign"
    common = common_of(place.admin)
    head = read_text(os.path.join(place.admin, "HEAD"))
    # git writes zeros into HEAD, and `initializing` into locked, until the checkout is complete.
    unborn = not head or not head.strip("0") or locked == "initializing"
    if not back or common is None or not same(common, place.git_dir) or unborn:
        return "half"
    return "whole"


def mend_command(place: Place) -> str:
    """The shell command that mends what is damaged in a registration."""
    common = common_of(place.admin)
    if common is None or not same(common, place.git_dir):  # no git command works then
        return f"echo ../.. >{shlex.quote(os.path.join(place.admin, 'commondir'))}"
    if not read_text(os.path.join(place.admin, "gitdir")):
        return f"git worktree repair {shlex.quote(place.path)}"
    if read_text(os.path.join(place.admin, "locked")) == "initializing":
        return f"git worktree unlock {shlex.quote(place.path)}"
    head = shlex.quote(os.path.join(place.admin, "HEAD"))
    return f"echo ref: refs/heads/{place.branch} >{head}"


def _directory(place: Place) -> Directory:
    if not os.path.lexists(place.path):
        return "absent"
    if os.path.islink(place.path) or not os.path.isdir(place.path):
        return "other"
    named = admin_of(place.path)
    if named is not None and same(named, place.admin):
        return "ours"
    return "other" if os.listdir(place.path) else "empty"


def _ask(place: Place, git_dir: str, args: list[str]) -> str | None:
    from adw.workspace.git import ask_git

    done = ask_git(["--git-dir", git_dir, *args], place.git_dir, kind="read")
    return done.stdout.decode("utf-8", "surrogateescape").strip() if done.exit_code == 0 else None
