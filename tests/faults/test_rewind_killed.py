"""SIGKILL for `adw rewind` at each call that changes something: nothing is lost, and another
`adw rewind`, or a plain resume, goes on."""

import random
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.faults.kill_points import SEED, Killing, Point, needs_strace, thinned
from tests.support.counting import tally
from tests.support.ground import Ground, phase

PHASES: Final = {
    "plan": phase("echo plan >plan.txt"),
    "build": phase('echo "$ADW_CHILD" >>work.txt', needs=["plan"]),
    "commit": {"use": "commit", "needs": ["build"]},
}


def begun(base: Path) -> Ground:
    """A run that is over, and a person's file in its tree."""
    ground = Ground(base, PHASES, config={"ports": "none"})
    ground.ok("run", "w", "47")
    (tree(ground) / "mine.txt").write_text("mine\n")
    return ground


def tree(ground: Ground) -> Path:
    return ground.repo.path / "trees" / ground.adw_id


def baseline(base: Path, process: str) -> list[Point]:
    ground = begun(base)
    try:
        killing = Killing(ground, process)
        done = killing.run("rewind", ground.adw_id, "build")
        assert done.exit_code == 0, done.told()
        return killing.points()
    finally:
        ground.end()


def kill_at(base: Path, point: Point, *, again: bool) -> bool:
    """Whether it fired; what is wrong is an AssertionError."""
    ground = begun(base)
    try:
        killing = Killing(ground, point.process, point)
        killing.run("rewind", ground.adw_id, "build")
        if not killing.fired():
            return False
        assert somewhere(ground, "mine.txt"), "the person's file is lost"
        if again:
            ground.ok("rewind", ground.adw_id, "build")
            assert not (tree(ground) / "work.txt").exists()
            assert (tree(ground) / "plan.txt").read_text() == "plan\n"
        ground.ok("resume", ground.adw_id)
        assert ground.ran("plan") == ["plan-1"]
        assert somewhere(ground, "mine.txt")
        assert (tree(ground) / "work.txt").read_text().splitlines()[-1] == ground.ran("build")[-1]
        branch = ground.repo.git("-C", str(tree(ground)), "branch", "--show-current")
        assert "rewind" not in ground.repo.git("log", "--format=%s", branch)
        ground.repo.git("fsck", "--connectivity-only")
        ground.all_gone()
        return True
    finally:
        ground.end()


def somewhere(ground: Ground, name: str) -> bool:
    """Whether a file is in the tree, or in what was kept."""
    refs = ground.repo.git("for-each-ref", "--format=%(refname)", "refs/adw").split()
    return (tree(ground) / name).exists() or any(
        name in ground.repo.git("ls-tree", "-r", "--name-only", ref).split() for ref in refs
    )


_DRIFT: Final = 6
"""As in test_syscalls: so many calls of a name fewer than the baseline a run may make."""


def sweep(base: Path, points: list[Point]) -> None:
    wrong, fired = [], 0
    for number, point in enumerate(points):
        place = base / str(number)
        try:
            hit = any(
                kill_at(place / str(less), point._replace(k=point.k - less), again=number % 2 == 0)
                for less in range(min(_DRIFT, point.k))
            )
        except AssertionError as error:
            hit = True
            wrong.append(f"{point}: {error}")
        else:
            shutil.rmtree(place)
        fired += hit
        if not hit:
            wrong.append(f"{point}: did not fire")
    tally(len(points), fired, what="rewind", wrong=wrong)


@pytest.mark.sweep
@pytest.mark.fault("F1", "F46", by="strace: SIGKILL before calls of adw rewind")
def test_a_kill_in_rewind(tmp_path: Path) -> None:
    needs_strace()
    points = baseline(tmp_path / "baseline", "git")

    sweep(tmp_path, random.Random(SEED).sample(points, 1))


@pytest.mark.sweep
@pytest.mark.timeout(1500)
@pytest.mark.parametrize("process", ["orchestrator", "git"])
def test_every_kill_in_rewind(tmp_path: Path, process: str) -> None:
    needs_strace()
    points = baseline(tmp_path / "baseline", process)
    assert len(points) > 20

    sweep(tmp_path, thinned(points, 16))
