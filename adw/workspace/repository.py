"""Which repository adw works for, found from wherever it was called.

Runs and worktrees lie in the *main* checkout, so a call from a subdirectory, through a symbolic
link or from inside a run's own worktree has to lead to the same place. One git process answers
in a main checkout; a second is needed only in a linked worktree.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from adw.errors import RepositoryError
from adw.store import files
from adw.workspace import locks
from adw.workspace.git import ask_git, failure, last_lines, on_one_line, run_git
from adw.workspace.registration import read_text

_HEX8: Final = "[0-9a-f]" * 8
_RUNS: Final = (f"{_HEX8}/", ".lock", ".new-*/")
_EXCLUDE_HEAD: Final = b"# hidden by adw: its runs and their worktrees"
_SPECIAL: Final = b"\\*?[!# "
_ORIGIN: Final = "refs/remotes/origin/"
_READ_HERE: Final = ("workflows/", "issues/")
_FIELDS_BEFORE_PATH: Final = 7  # of a changed entry of `git status --porcelain=v2`


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with a main checkout."""

    root: str
    """Top of the main checkout; absolute, no symbolic links."""
    git_dir: str
    """The directory that all its worktrees share; absolute."""
    head: str | None = None
    """Commit of the main checkout when it was located; None before the first commit, and where
    adw was called from a linked worktree."""


def locate(start: str, *, agents_dir: str | None = None) -> Repository:
    """Find the repository that `start` belongs to.

    Args:
        start: A directory.
        agents_dir: Where runs lie, if that is configured; only then may the main checkout be
            unknown, and `root` is the checkout around `start`.

    Raises:
        RepositoryError: No repository, a bare one, or one whose main checkout cannot be told.
    """
    query = ["--is-bare-repository", "--git-common-dir", "--git-dir", "--show-toplevel"]
    args = ["rev-parse", "--path-format=absolute", *query, "HEAD^{commit}"]
    done = ask_git(args, start, kind="read")
    said = done.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]
    if not said:
        raise _outside(start, done.stderr)
    if said[0] == "true":
        raise RepositoryError(
            detail="the repository is bare, a checkout is expected",
            path=said[1] if len(said) > 1 else start,
            fix="git clone it, and call adw there",
        )
    if len(said) < len(query):
        raise RepositoryError(
            detail="this is inside the git directory, a checkout is expected",
            path=start,
            fix="call adw from the checkout",
        )
    if len(said) > len(query) + 1:
        raise RepositoryError(
            detail="the path of the repository has a line break in it",
            path=start,
            fix="move or rename the folder",
        )
    common, git_dir, top = said[1:4]
    if git_dir == common:
        return Repository(top, common, said[4] if done.exit_code == 0 else None)
    main = _main_checkout(start, common)
    if main is None and agents_dir is None:
        raise RepositoryError(
            detail="the main checkout of this worktree cannot be told",
            path=top,
            fix="set ADW_AGENTS_DIR to a folder for runs, or call adw from the main checkout",
        )
    return Repository(main or top, common)


def base_branch(repo: Repository, configured: str | None = None) -> str | None:
    """The branch that runs start from and that their work goes back to.

    Args:
        repo: As located.
        configured: `base_branch` of adw.yaml; it wins.

    Returns:
        A name that `base` takes: without a configured one that of `origin/HEAD`, local where there
        is such a branch, else the one checked out in the main checkout; None where that is
        detached.
    """
    if configured is not None:
        return configured
    remote, here = _names(repo, f"{_ORIGIN}HEAD", _ORIGIN), current_branch(repo)
    if remote == here:
        return here
    for name, ref in (
        (remote, f"refs/heads/{remote}"),
        (f"origin/{remote}", _ORIGIN + str(remote)),
    ):
        if remote and _tip(repo, ref):
            return name
    return here


def current_branch(repo: Repository) -> str | None:
    """The branch that is checked out in the main checkout; None where it is detached."""
    return _names(repo, "HEAD", "refs/heads/")


def _names(repo: Repository, symbolic: str, prefix: str) -> str | None:
    """What a symbolic ref names, without its prefix; None where it names nothing like that."""
    if os.path.isdir(os.path.join(repo.git_dir, "reftable")):
        args = ["--git-dir", repo.git_dir, "symbolic-ref", "-q", symbolic]
        done = ask_git(args, repo.root, kind="read")
        text = "ref: " + done.stdout.decode("utf-8", "surrogateescape").strip()
    else:
        text = read_text(os.path.join(repo.git_dir, symbolic)) or ""
    whole = f"ref: {prefix}"
    return text.removeprefix(whole) or None if text.startswith(whole) else None


def _tip(repo: Repository, ref: str) -> str | None:
    # show-ref takes whole names only: `main~3` or `@{-1}` is no branch to it.
    done = ask_git(["show-ref", "--verify", "--hash", "--", ref], repo.root, kind="read")
    return done.stdout.decode().strip() if done.exit_code == 0 else None


def base(repo: Repository, base_branch: str | None = None) -> str:
    """The commit that a new run starts from.

    Args:
        repo: As located.
        base_branch: A local branch, or `<remote>/<branch>`; the main checkout's HEAD by default.

    Returns:
        Its full id.

    Raises:
        RepositoryError: There is no commit yet, or no such branch.
    """
    if base_branch is None or base_branch == current_branch(repo):
        if repo.head is not None:
            return repo.head
        done = ask_git(["rev-parse", "--verify", "-q", "HEAD^{commit}"], repo.root, kind="read")
        if done.exit_code == 0:
            return done.stdout.decode().strip()
        raise RepositoryError(
            detail="the repository has no commit yet, a run needs one to start from",
            path=repo.root,
            fix='git add -A && git commit -m "first commit"',
        )
    for prefix in ("refs/heads/", "refs/remotes/", _ORIGIN):
        if tip := _tip(repo, prefix + base_branch):
            return tip
    raise RepositoryError(
        detail=f"the base branch `{base_branch}` does not exist",
        path=repo.root,
        fix="set `base_branch` in adw.yaml to one of: git branch --all",
    )


def submodules_line(path: str) -> str | None:
    """One line on the submodules of a new worktree, whose folders are empty; None without any."""
    if not os.path.lexists(os.path.join(path, ".gitmodules")):
        return None
    args = ["config", "--file", ".gitmodules", "-z", "--get-regexp", r"^submodule\..*\.path$"]
    done = ask_git(args, path, kind="read")
    found = done.stdout.decode("utf-8", "replace").split("\0")
    names = [name for each in found if (name := each.partition("\n")[2])]
    if not names:
        return None
    shown = ", ".join(map(on_one_line, names))
    return (
        f"submodules are not checked out in the worktree: {shown}; "
        "`git submodule update --init` under `setup` in adw.yaml does that"
    )


def notice(repo: Repository) -> str | None:
    """One line on what a new worktree will not see of the main checkout; None if nothing."""
    args = ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=normal"]
    data = run_git(args, repo.root, kind="read").decode("utf-8", "surrogateescape")
    headers = {}
    modified = untracked = 0
    entries = iter(data.split("\0"))
    for entry in entries:
        kind, _, rest = entry.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif _own(kind, rest):
            continue
        elif kind == "?":
            untracked += 1
        elif kind in {"1", "2", "u"}:
            modified += 1
            if kind == "2":  # a rename is followed by its old name
                next(entries, None)
    parts = []
    if headers.get("branch.head") == "(detached)":
        parts.append(f"is detached at {headers['branch.oid'][:12]}")
    if modified or untracked:
        seen = [
            f"{n} {what}" for n, what in ((modified, "modified"), (untracked, "untracked")) if n
        ]
        noun = "file" if modified + untracked == 1 else "files"
        parts.append(f"has {' and '.join(seen)} {noun} that the worktree will not see")
    return f"the main checkout {' and '.join(parts)}" if parts else None


def _own(kind: str, rest: str) -> bool:
    """Whether an entry is a file that adw itself reads in the main checkout, and nowhere else."""
    if kind == "1":
        rest = rest.split(" ", _FIELDS_BEFORE_PATH)[-1]
    elif kind != "?":
        return False
    if rest in {"adw.yaml", "workflows/", "issues/"}:
        return True
    return rest.startswith(_READ_HERE) and rest.endswith((".yaml", ".yml", ".json", ".md"))


def hide(repo: Repository, names: tuple[str, ...] = ("agents", "trees")) -> bool:
    """Keep folders of adw out of `git status`, by the repository's own exclude file.

    That file counts in every worktree, also a run's. Where the project itself has tracked files
    in such a folder, only what looks like a run in it is hidden, so that a phase's new files
    there are still committed.

    Args:
        repo: As located.
        names: Folders at the top of the main checkout.

    Returns:
        Whether the file was changed.

    Raises:
        StoreError: The file cannot be written.
    """
    have = _excluded(repo)[0]
    missing = [n for n in names if not _is_hidden(n, have)]
    if not missing:
        return False
    shared = _with_tracked_files(repo, missing)
    lines = [f"/{name}/{part}" for name in missing for part in (_RUNS if name in shared else ("",))]
    return exclude(repo, [line.encode() for line in lines])


def exclude(repo: Repository, lines: Sequence[bytes]) -> bool:
    """Add patterns to the repository's own exclude file, which counts in all its worktrees.

    Args:
        repo: As located.
        lines: As gitignore(5) has them; those that are there already are not added again.

    Returns:
        Whether the file was changed.

    Raises:
        StoreError: The file cannot be written.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    with locks.repository(repo.git_dir):
        path = _exclude_file(repo)
        have, old, mode = _excluded(repo)
        missing = [line for line in lines if line not in have]
        if not missing:
            return False
        head = [] if _EXCLUDE_HEAD in have else [_EXCLUDE_HEAD]
        gap = b"\n" if old and not old.endswith(b"\n") else b""
        with locks.storing(path):
            files.make_dirs(os.path.dirname(path), mode=0o755)
            files.replace(path, old + gap + b"\n".join([*head, *missing]) + b"\n", mode=mode)
    return True


def pattern(path: bytes) -> bytes:
    """A path from the top as gitignore(5) reads it literally."""
    return b"/" + b"".join(b"\\%c" % c if c in _SPECIAL else b"%c" % c for c in path)


def _exclude_file(repo: Repository) -> str:
    return os.path.realpath(os.path.join(repo.git_dir, "info", "exclude"))


def _excluded(repo: Repository) -> tuple[list[bytes], bytes, int]:
    """Lines, bytes and permission bits of the exclude file."""
    path = _exclude_file(repo)
    with locks.storing(path):
        try:
            with open(path, "rb") as file:
                old = file.read()
                return old.split(b"\n"), old, os.fstat(file.fileno()).st_mode & 0o777
        except FileNotFoundError:
            return [], b"", 0o644


def _is_hidden(name: str, have: Sequence[bytes]) -> bool:
    return f"/{name}/".encode() in have or f"/{name}/{_HEX8}/".encode() in have


def _with_tracked_files(repo: Repository, names: list[str]) -> set[str]:
    specs = [f":(top,literal){name}/" for name in names]
    tracked = run_git(["ls-files", "-z", "--", *specs], repo.root, kind="read").split(b"\0")
    return {name for name in names if any(t.startswith(f"{name}/".encode()) for t in tracked)}


def _main_checkout(start: str, common: str) -> str | None:
    """The main checkout, when called from a linked worktree; None where git's guess is wrong."""
    args = ["worktree", "list", "--porcelain", "-z"]
    done = ask_git(args, start, kind="read")
    if done.exit_code != 0:
        raise failure(args, done)
    first = done.stdout.split(b"\0\0", 1)[0].decode("utf-8", "surrogateescape").split("\0")
    if "bare" in first:
        return None
    top = first[0].removeprefix("worktree ")
    # git strips "/.git" off the shared directory: true only where that really is its .git.
    return top if _leads_to(os.path.join(top, ".git"), common) else None


def _leads_to(dot_git: str, common: str) -> bool:
    try:
        return os.path.samefile(dot_git, common)
    except OSError:
        return False


def _outside(start: str, stderr: bytes) -> RepositoryError:
    if b"not a git repository" in stderr:
        return RepositoryError(
            detail="this is not a git repository",
            path=start,
            fix="call adw inside one, or make one: git init",
        )
    # Such as "dubious ownership", whose text carries git's own remedy.
    return RepositoryError(
        detail="git refuses this directory", path=start, fix=last_lines(stderr) or None
    )
