"""git killed at every call of `worktree add` and of a commit: one plain retry goes on."""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import AdwError, GitError, WorktreeError
from adw.phases import commit as phase
from adw.workspace import mending
from adw.workspace.repository import Repository
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH, FILES
from tests.integration.workspace.killing import Killer, Point, needs_strace, sample
from tests.integration.workspace.phase import context_for
from tests.support.counting import Counted
from tests.support.repo import Repo

SEED = 47


def tree_of(located: Repository, number: int) -> Worktree:
    name = f"{ADW_ID}-{number}"
    return Worktree(located, os.path.join(located.root, "trees", name), f"run-{name}")


def sound(repo: Repo) -> None:
    repo.git("fsck", "--connectivity-only")
    repo.git("worktree", "list")
    assert [str(p) for p in (repo.path / ".git").rglob("*.lock") if p.name != "adw.lock"] == []


def kill_in_add(
    repo: Repo, located: Repository, killer: Killer, select: Callable[[list[Point]], list[Point]]
) -> tuple[int, int]:
    other = tree_of(located, 0)
    other.ensure(repo.head())  # the first makes directories that all share
    killer.watch()
    tree_of(located, 1).ensure(repo.head())
    points = select(killer.points())
    fired = 0
    for number, point in enumerate(points, start=2):
        tree = tree_of(located, number)
        killer.arm(point)
        with contextlib.suppress(GitError):
            tree.ensure(repo.head())
        fired += killer.fired()
        killer.disarm()

        tree.ensure(repo.head())

        assert tree.check().head == repo.head(), point
        assert tree.clean(), point
        assert other.ensure("x") == "reused", point
        sound(repo)
        assert [p for p in os.listdir(repo.path / "trees") if ".kept-" in p] == [], point
        assert not os.path.exists(mending.note_path(tree._place)), point
    return len(points), fired


@pytest.mark.sweep
def test_a_sample_of_kills_in_worktree_add(
    repo: Repo, located: Repository, shim: Callable[[str], None], tmp_path: Path
) -> None:
    needs_strace()
    killer = Killer(shim, "worktree add", tmp_path / "trace")

    points, fired = kill_in_add(repo, located, killer, lambda all_: sample(all_, 8, SEED))

    assert fired == points == 8


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.fault("F47", by="strace: SIGKILL before each changing call of git")
def test_every_kill_in_worktree_add(
    repo: Repo,
    located: Repository,
    shim: Callable[[str], None],
    tmp_path: Path,
    counted: Counted,
) -> None:
    needs_strace()
    killer = Killer(shim, "worktree add", tmp_path / "trace")

    points, fired = kill_in_add(repo, located, killer, lambda all_: all_)

    counted(points, fired, fired, what="worktree add")
    assert points > 30


def kill_in_commit(
    repo: Repo,
    located: Repository,
    killer: Killer,
    select: Callable[[list[Point]], list[Point]],
) -> tuple[int, int]:
    for number in range(256):  # or the calls would depend on which of these exist
        (repo.path / f".git/objects/{number:02x}").mkdir(exist_ok=True)
    killer.watch()
    commit_in(repo, tree_of(located, 0))
    points = select(killer.points())
    fired = 0
    for number, point in enumerate(points, start=1):
        tree = tree_of(located, number)
        killer.arm(point)
        with contextlib.suppress(AdwError):
            commit_in(repo, tree)
        fired += killer.fired()
        killer.disarm()

        _, sha = commit_in(repo, tree)

        assert sha == tree.check().head, point
        assert repo.git("rev-list", "--count", f"HEAD..{sha}") == "1", point
        assert repo.git("show", f"{sha}:new.txt") == tree.path, point
        assert tree.clean(), point
        sound(repo)
    return len(points), fired


def commit_in(repo: Repo, tree: Worktree) -> tuple[str, str]:
    if tree.ensure(repo.head()) == "created":
        # Its own content each time: for an object that exists git makes fewer calls.
        (Path(tree.path) / "new.txt").write_text(tree.path, encoding="utf-8")
    state_root = repo.path.parent / "state" / os.path.basename(tree.path)
    state_root.mkdir(parents=True, exist_ok=True)
    return phase.commit(context_for(tree, state_root))


@pytest.mark.sweep
@pytest.mark.parametrize("command", ["add -A", "commit --quiet"])
def test_a_sample_of_kills_in_a_commit(
    repo: Repo,
    located: Repository,
    shim: Callable[[str], None],
    tmp_path: Path,
    command: str,
) -> None:
    needs_strace()
    killer = Killer(shim, command, tmp_path / "trace")

    points, fired = kill_in_commit(repo, located, killer, lambda all_: sample(all_, 4, SEED))

    assert fired == points == 4


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.fault("F46", by="strace: SIGKILL before each changing call of git")
@pytest.mark.parametrize("command", ["add -A", "commit --quiet"])
def test_every_kill_in_a_commit(
    repo: Repo,
    located: Repository,
    shim: Callable[[str], None],
    tmp_path: Path,
    command: str,
    counted: Counted,
) -> None:
    needs_strace()
    killer = Killer(shim, command, tmp_path / "trace")

    points, fired = kill_in_commit(repo, located, killer, lambda all_: all_)

    counted(points, fired, fired, what=f"git {command}")
    assert points > 5


# --- half-made worktrees, each state by hand ----------------------------------------------------


def half_made(repo: Repo, tree: Worktree) -> Path:
    """As of git killed in the checkout: registered, `initializing`, files partly there."""
    mending.write_note(tree._place, repo.head())
    repo.git("worktree", "add", "--quiet", "-b", BRANCH, tree.path)
    admin = repo.path / ".git/worktrees" / ADW_ID
    (admin / "locked").write_text("initializing\n", encoding="utf-8")
    return admin


def test_an_empty_commondir_of_ours_is_mended_and_others_list_again(
    repo: Repo, tree: Worktree
) -> None:
    """The state that makes git fail in every worktree of the repository."""
    admin = half_made(repo, tree)
    (admin / "commondir").write_text("", encoding="utf-8")
    assert repo.git("worktree", "list", check=False) == ""

    assert tree.ensure(repo.head()) == "attached"

    assert len(repo.git("worktree", "list").splitlines()) == 2
    assert tree.clean()


def test_a_partial_checkout_is_cleared_away(repo: Repo, tree: Worktree) -> None:
    half_made(repo, tree)
    top = Path(tree.path)
    (top / "src/a.py").unlink()
    (top / "src/b.py").write_text(FILES["src/b.py"][:3], encoding="utf-8")

    assert tree.ensure(repo.head()) == "attached"

    assert (top / "src/b.py").read_text(encoding="utf-8") == FILES["src/b.py"]
    assert os.listdir(repo.path / "trees") == [ADW_ID]


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "mine.txt").write_text("mine", encoding="utf-8"),
        lambda top: (top / "README.md").write_text("rewritten", encoding="utf-8"),
        lambda top: (
            (top / "src/b.py").write_text("b", encoding="utf-8")
            and (top / "src/a.py").write_text("a", encoding="utf-8")
        ),
    ],
    ids=["a new file", "another text", "two files cut short"],
)
def test_a_half_made_tree_with_somebodys_work_is_kept_beside(
    repo: Repo, tree: Worktree, change: Callable[[Path], object]
) -> None:
    half_made(repo, tree)
    change(Path(tree.path))
    before = {p.name: p.read_bytes() for p in Path(tree.path).rglob("*") if p.is_file()}
    del before[".git"]

    assert tree.ensure(repo.head()) == "attached"

    kept = Path(f"{tree.path}.kept-1")
    assert {p.name: p.read_bytes() for p in kept.rglob("*") if p.is_file()} == before
    assert tree.clean()


def test_killed_in_its_own_cleaning_up_the_checkout_is_made_anew(
    repo: Repo, tree: Worktree
) -> None:
    """A child of git was killed in the checkout, git took its lock away, and was killed too."""
    admin = half_made(repo, tree)
    (admin / "locked").unlink()
    (admin / "index").unlink()
    shutil.rmtree(Path(tree.path) / "src")
    lock = repo.path / f".git/refs/heads/{BRANCH}.lock"
    lock.touch()

    assert tree.ensure(repo.head()) == "attached"

    assert tree.clean()
    assert not lock.exists()


def test_killed_after_git_was_done_nothing_is_made_anew(repo: Repo, tree: Worktree) -> None:
    admin = half_made(repo, tree)
    (admin / "locked").unlink()
    (Path(tree.path) / "mine.txt").write_text("mine", encoding="utf-8")

    assert tree.ensure(repo.head()) == "reused"

    assert (Path(tree.path) / "mine.txt").exists()
    assert not os.path.exists(mending.note_path(tree._place))


@pytest.mark.parametrize("note", [b"", b"{", b"[]", b'{"path": "/elsewhere", "base": "x"}'])
def test_a_torn_or_foreign_note_proves_nothing(repo: Repo, tree: Worktree, note: bytes) -> None:
    half_made(repo, tree)
    Path(mending.note_path(tree._place)).write_bytes(note)
    if b"elsewhere" in note:
        with pytest.raises(WorktreeError, match="registration is damaged"):
            tree.ensure(repo.head())
    else:
        assert tree.ensure(repo.head()) == "attached"
        assert Path(f"{tree.path}.kept-1/README.md").exists()


def test_a_note_does_not_open_the_way_to_a_foreign_worktree(
    repo: Repo, tree: Worktree, tmp_path: Path
) -> None:
    mending.write_note(tree._place, repo.head())
    foreign = tmp_path / "elsewhere" / ADW_ID
    repo.git("worktree", "add", "--quiet", str(foreign))

    with pytest.raises(WorktreeError, match="something else is in its place"):
        tree.ensure(repo.head())
    assert (foreign / "README.md").exists()


def test_a_half_made_tree_whose_directory_was_removed(repo: Repo, tree: Worktree) -> None:
    half_made(repo, tree)
    shutil.rmtree(tree.path)

    assert tree.ensure(repo.head()) == "attached"


# --- lock files ---------------------------------------------------------------------------------


def test_case_C15_stale_locks_of_ours_are_removed_and_no_others(repo: Repo, made: Worktree) -> None:
    admin = repo.path / ".git/worktrees" / ADW_ID
    ours = [admin / "index.lock", admin / "HEAD.lock", repo.path / f".git/refs/heads/{BRANCH}.lock"]
    others = [repo.path / ".git" / n for n in ("index.lock", "HEAD.lock", "config.lock")]
    for lock in [*ours, *others]:
        lock.touch()
        os.utime(lock, (1, 1))

    assert sorted(made.mend_locks()) == sorted(str(lock) for lock in ours)

    assert [lock.exists() for lock in others] == [True, True, True]
    assert made.mend_locks() == []


def test_case_C15_a_lock_is_kept_while_somebodys_git_works_there(
    repo: Repo, made: Worktree
) -> None:
    lock = repo.path / ".git/worktrees" / ADW_ID / "index.lock"
    lock.touch()
    with subprocess.Popen(
        ["git", "cat-file", "--batch"],
        cwd=Path(made.path) / "src",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as theirs:
        assert theirs.stdin is not None
        assert theirs.stdout is not None
        theirs.stdin.write(b"HEAD\n")
        theirs.stdin.flush()
        theirs.stdout.readline()

        assert made.mend_locks() == []
        theirs.stdin.close()
        theirs.stdout.read()

    assert made.mend_locks() == [str(lock)]
