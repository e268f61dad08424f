"""What changed between two trees of a run, the one in its worktree as it is now included.

Nothing is written: what lies in the worktree becomes a tree in a throw-away object store.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from adw.errors import WorktreeError
from adw.workspace import registration, rescue
from adw.workspace.git import ask_git, run_git
from adw.workspace.registration import Place

# The user's own programs are not asked: anybody who can write the repository could name one.
_PLAIN = ("diff", "--no-color", "--no-ext-diff", "--no-textconv", "--submodule=short")


@dataclass(frozen=True, slots=True)
class Changed:
    """One path that differs."""

    path: bytes
    status: str
    """`A` added, `D` deleted, `M` modified, `T` of another type."""


def patch(place: Place, old: str, new: str | None, *, stat: bool = False) -> bytes:
    """The difference as text.

    Args:
        place: The worktree.
        old: A commit.
        new: A commit; None: the worktree as it is now, its branch where it is gone.
        stat: Only how many lines of each file.

    Raises:
        WorktreeError: A commit is not there.
        GitError: git refused.
    """
    with _trees(place, old, new) as (env, wanted):
        args = [*_PLAIN, *(("--stat",) if stat else ("--binary",)), old, wanted, "--"]
        words = ["--git-dir", place.git_dir, *args]
        return run_git(words, place.git_dir, kind="read", timeout_s=None, env=env)


def changed(place: Place, old: str, new: str | None) -> list[Changed]:
    """The paths that differ, as `patch` takes its arguments."""
    with _trees(place, old, new) as (env, wanted):
        args = [*_PLAIN, "--no-renames", "--name-status", "-z", old, wanted, "--"]
        words = ["--git-dir", place.git_dir, *args]
        parts = run_git(words, place.git_dir, kind="read", timeout_s=None, env=env).split(b"\0")
    return [
        Changed(path, kind.decode()) for kind, path in zip(parts[::2], parts[1::2], strict=False)
    ]


def commit_named(place: Place, name: str) -> str | None:
    """Commit of a ref of the run; None where there is none."""
    args = ["rev-parse", "--verify", "-q", f"{rescue.ref_of(place, name)}^{{commit}}"]
    done = ask_git(["--git-dir", place.git_dir, *args], place.git_dir, kind="read")
    return done.stdout.decode().strip() if done.exit_code == 0 else None


@contextmanager
def _trees(place: Place, old: str, new: str | None) -> Iterator[tuple[dict[str, str], str]]:
    """Variables for git, and the newer tree."""
    _there(place, [old] if new is None else [old, new])
    here = os.path.isdir(place.path) and registration.admin_of(place.path) is not None
    if new is not None or not here:
        yield {}, new or _tip(place)
        return
    with rescue.throw_away(place) as env:
        yield env, rescue.write_tree(place, rescue.changes(place), env)


def _there(place: Place, commits: Sequence[str]) -> None:
    for each in commits:
        args = ["--git-dir", place.git_dir, "cat-file", "-e", f"{each}^{{tree}}"]
        if ask_git(args, place.git_dir, kind="read").exit_code != 0:
            detail = f"commit {each[:12]} is not in the repository any more"
            raise WorktreeError(detail=detail, path=place.path, reason=None, fix=None)


def _tip(place: Place) -> str:
    tip = registration.tip(place)
    if tip is None:
        detail = f"the run's worktree and its branch `{place.branch}` are gone"
        raise WorktreeError(detail=detail, path=place.path, reason=None, fix=None)
    return tip
