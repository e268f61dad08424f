"""git killed at every changing call while a tree is kept, or put back: no ref or a whole one, and
one plain retry ends it."""

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import GitError
from adw.workspace import rescue
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID
from tests.integration.workspace.killing import Killer, Point, needs_strace, sample
from tests.support.counting import Counted
from tests.support.repo import Repo

SEED = 47
KEEPING = ("status --porcelain=v2", "add -A", "write-tree", "commit-tree", "update-ref --no-deref")
GOING_BACK = ("read-tree -u", "clean -f", "reset --quiet")

Select = Callable[[list[Point]], list[Point]]


def dirty(tree: Worktree, number: int) -> None:
    """Content that no object has yet, older than any index: else git makes other calls."""
    top = Path(tree.path)
    (top / "README.md").write_text(f"changed {number}\n")
    (top / "new").mkdir(exist_ok=True)
    for name in ("a", "b", "new/c"):
        (top / name).write_text(f"{name} {number}\n")
    for name in ("README.md", "a", "b", "new/c"):
        os.utime(top / name, (1_000_000 + number, 1_000_000 + number))


def content(tree: Worktree) -> dict[str, str]:
    top = Path(tree.path)
    return {str(p.relative_to(top)): p.read_text() for p in top.rglob("*") if p.is_file()}


def sound(repo: Repo, point: Point) -> None:
    assert "missing" not in repo.git("fsck", "--connectivity-only"), point
    locks = [str(p) for p in (repo.path / ".git").rglob("*.lock") if p.name != "adw.lock"]
    assert locks == [], point
    assert set(os.listdir(repo.path / ".git/adw" / ADW_ID)) <= {"tree-lock"}, point


def ref(repo: Repo, name: str) -> str:
    full = f"refs/adw/{ADW_ID}/{name}"
    return repo.git("rev-parse", "--verify", "-q", f"{full}^{{commit}}", check=False)


def objects_ready(repo: Repo) -> None:
    """Or the calls would depend on which of these folders exist."""
    for number in range(256):
        (repo.path / f".git/objects/{number:02x}").mkdir(exist_ok=True)


def kill_in_keep(repo: Repo, made: Worktree, killer: Killer, select: Select) -> tuple[int, int]:
    objects_ready(repo)
    index = (repo.path / ".git/worktrees" / ADW_ID / "index").read_bytes()
    dirty(made, 0)
    made.keep("x-0-before", ())  # makes the folder of the refs
    killer.watch()
    dirty(made, 1)
    made.keep("x-1-before", ())
    points = select(killer.points())
    fired = 0
    for number, point in enumerate(points, start=2):
        dirty(made, number)
        name = f"x-{number}-before"
        killer.arm(point)
        with contextlib.suppress(GitError):
            made.keep(name, ())
        fired += killer.fired()
        killer.disarm()

        found = ref(repo, name)
        if found:
            assert repo.git("show", f"{found}:new/c") == f"new/c {number}", point
        kept = made.keep(name, ())

        assert kept is not None
        assert ref(repo, name) == kept.commit
        assert repo.git("show", f"{kept.commit}:new/c") == f"new/c {number}", point
        assert (repo.path / ".git/worktrees" / ADW_ID / "index").read_bytes() == index
        sound(repo, point)
    return len(points), fired


def kill_in_back_to(repo: Repo, made: Worktree, killer: Killer, select: Select) -> tuple[int, int]:
    objects_ready(repo)
    head = repo.head()
    dirty(made, 0)
    before, kept = content(made), made.keep("x-1-before", ())
    assert kept is not None

    def back(number: int) -> None:
        rescue.back_to(made._place, head, kept.commit, f"x-{number}-reset", known=None)

    def work(number: int) -> None:
        dirty(made, number)
        (Path(made.path) / "src/a.py").unlink()
        (Path(made.path) / f"junk {number}").write_text("junk\n")
        repo.git("-C", made.path, "commit", "--quiet", "-am", "half")
        for path in Path(made.path).rglob("*"):
            os.utime(path, (1_000_000 + number, 1_000_000 + number))
        repo.git("-C", made.path, "update-index", "-q", "--refresh")

    work(1)
    killer.watch()
    back(1)
    points = select(killer.points())
    fired = 0
    for number, point in enumerate(points, start=2):
        work(number)
        killer.arm(point)
        with contextlib.suppress(GitError):
            back(number)
        fired += killer.fired()
        killer.disarm()
        made.mend_locks()

        assert made.check().head in {
            head,
            repo.git("rev-parse", f"{ref(repo, f'x-{number}-reset-1')}^"),
        }
        back(number)

        assert content(made) == before, point
        assert made.check().head == head, point
        first = ref(repo, f"x-{number}-reset-1")
        assert repo.git("show", f"{first}:junk {number}") == "junk", point
        sound(repo, point)
    return len(points), fired


def killer_for(shim: Callable[[str], None], command: str, tmp_path: Path) -> Killer:
    needs_strace()
    return Killer(shim, command, tmp_path / "trace")


@pytest.mark.parametrize("command", ["add -A", "update-ref --no-deref"])
def test_a_sample_of_kills_while_a_tree_is_kept(
    repo: Repo, made: Worktree, shim: Callable[[str], None], tmp_path: Path, command: str
) -> None:
    killer = killer_for(shim, command, tmp_path)

    points, fired = kill_in_keep(repo, made, killer, lambda all_: sample(all_, 1, SEED))

    assert fired == points > 0


@pytest.mark.parametrize("command", ["read-tree -u", "reset --quiet"])
def test_a_sample_of_kills_while_a_tree_goes_back(
    repo: Repo, made: Worktree, shim: Callable[[str], None], tmp_path: Path, command: str
) -> None:
    killer = killer_for(shim, command, tmp_path)

    points, fired = kill_in_back_to(repo, made, killer, lambda all_: sample(all_, 1, SEED))

    assert fired == points > 0


@pytest.mark.sweep
@pytest.mark.timeout(900)
@pytest.mark.fault("F46", by="strace: SIGKILL before each changing call of git")
@pytest.mark.parametrize("command", [*KEEPING, *GOING_BACK])
def test_every_kill_while_a_tree_is_kept_or_goes_back(
    repo: Repo,
    made: Worktree,
    shim: Callable[[str], None],
    tmp_path: Path,
    command: str,
    counted: Counted,
) -> None:
    killer = killer_for(shim, command, tmp_path)
    sweep = kill_in_keep if command in KEEPING else kill_in_back_to

    points, fired = sweep(repo, made, killer, lambda all_: all_)

    counted(points, fired, fired, what=f"git {command}")
