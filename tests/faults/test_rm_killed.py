"""SIGKILL at every system call of `adw rm` that changes something: one more `adw rm` ends it.

Whatever was killed wherever: git lists and uses all other worktrees, no work is lost, and the same
command again leaves nothing of the run and nothing half removed.
"""

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from adw.store.state import load_state
from tests.faults.conftest import swept
from tests.faults.kill_points import SEED, Killing, Point, needs_strace, thinned
from tests.support.counting import tally
from tests.support.ground import Ground, phase
from tests.support.repo import Repo

SAMPLE: Final = {"orchestrator": 2, "git": 2}
PHASES: Final = {
    "build": phase('echo "$ADW_CHILD" > made.txt; [ ! -e "$GROUND/dirty" ] || exit 3'),
    "commit": {"use": "commit", "needs": ["build"]},
}


class Yard:
    """A repository with a run to remove and another run, put back to how it was for each kill."""

    def __init__(self, base: Path) -> None:
        self.ground = Ground(base, PHASES)
        self.ground.ok("run", "w", "48")
        self.other = self.ground.adw_id
        self.ground.ok("run", "w", "47")
        (self.adw_id,) = set(self.ground.ids()) - {self.other}
        state, _ = load_state(str(self.run_dir))
        self.branch = str(state.branch_name)
        self.repo = self.ground.repo
        self.repo.git("merge", "--quiet", "--no-edit", self.branch)
        self.repo.git("pack-refs", "--all")
        self.repo.git("update-ref", f"refs/adw/{self.adw_id}/build-1-after", "HEAD")
        self.ground.all_gone()
        shutil.copytree(self.repo.path, base / "before", symlinks=True)

    @property
    def run_dir(self) -> Path:
        return self.ground.agents / self.adw_id

    def reset(self) -> None:
        """As it was before anything was removed."""
        shutil.rmtree(self.repo.path)
        shutil.copytree(self.ground.base / "before", self.repo.path, symlinks=True)
        shutil.rmtree(self.ground.base / "tracing", ignore_errors=True)

    def assert_usable(self) -> None:
        """Others do not notice."""
        listed = self.repo.git("worktree", "list", "--porcelain")
        tree = self.repo.path / "trees" / self.other
        assert f"worktree {tree.resolve()}\n" in listed
        assert Repo(tree).git("status", "--porcelain") == ""
        assert self.repo.git("status", "--porcelain") == ""
        load_state(str(self.ground.agents / self.other))

    def assert_gone(self) -> None:
        """Nothing is left of the run."""
        self.assert_usable()
        assert self.ground.ids() == [self.other]
        assert self.adw_id not in self.repo.git("worktree", "list", "--porcelain")
        assert self.repo.git("branch", "--list", f"*{self.adw_id}*") == ""
        assert self.repo.git("for-each-ref", f"refs/adw/{self.adw_id}/") == ""
        assert self.repo.git("show", "HEAD:made.txt") == "build-1"
        left = [str(path) for path in self.repo.path.rglob(f"*{self.adw_id}*")]
        # Empty directories of refs, and what git logged of them.
        left = [path for path in left if "/.git/refs/" not in path and "/.git/logs/" not in path]
        assert left == []
        locks = [str(path) for path in (self.repo.path / ".git").rglob("*.lock")]
        assert [path for path in locks if not path.endswith("adw.lock")] == []


@pytest.fixture
def yard(tmp_path: Path) -> Iterator[Yard]:
    needs_strace()
    made = Yard(tmp_path / "ground")
    yield made
    made.ground.end()


def words(yard: Yard) -> tuple[str, ...]:
    return ("rm", yard.adw_id, "--force", "--purge")


def points(yard: Yard, process: str) -> list[Point]:
    """All points of a removal that nobody kills."""
    killing = Killing(yard.ground, process)
    done = killing.run(*words(yard))
    assert done.exit_code == 0, done.told()
    yard.assert_gone()
    return killing.points()


def kill_at(yard: Yard, point: Point) -> bool:
    """Remove, kill there, look, remove once more; tells whether the point fired."""
    yard.reset()
    killing = Killing(yard.ground, point.process, point)
    killed = killing.run(*words(yard))
    if not killing.fired():
        return False
    yard.assert_usable()
    again = yard.ground.adw(*words(yard))
    over = again.exit_code == 2 and "unknown run" in again.stderr  # killed at its very end
    assert over or again.exit_code == 0, f"{killed.told()}\n{again.told()}"
    yard.assert_gone()
    return True


def sweep(yard: Yard, chosen: list[Point]) -> None:
    """Kill at each of these; tell of all that went wrong, and of what never fired."""
    wrong, fired = [], 0
    for point in chosen:
        try:
            if kill_at(yard, point):
                fired += 1
            else:
                wrong.append(f"{point}: never fired")
        except AssertionError as error:
            wrong.append(f"{point}: {error}")
    tally(len(chosen), fired, what="removal", wrong=wrong)


@pytest.mark.fault("F1", "F46", by="strace: SIGKILL before each call of `adw rm`")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("process", ["orchestrator", "git"])
def test_every_system_call_of_a_removal(yard: Yard, process: str) -> None:
    sweep(yard, thinned(points(yard, process), 30))


@pytest.mark.sweep
@pytest.mark.parametrize("process", swept(SAMPLE, "orchestrator"))
def test_case_C12_some_system_calls_of_a_removal(yard: Yard, process: str) -> None:
    """A few of `test_every_system_call_of_a_removal`, the same ones each time."""
    found = points(yard, process)
    sweep(yard, random.Random(SEED).sample(found, min(SAMPLE[process], len(found))))
