"""Killed at any system call between an exit line and RESPONSE.md, a run that promotes is whole again.

The calls of the orchestrator from the one that opens the file for the verdict of `plan-1` to the
last one of the run: copies, verdict lines, commits, manifest, events, views, and the next packets.
"""

import random
import shutil
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.kill_points import SEED, Killing, Point, needs_strace, thinned
from tests.faults.promotions import PHASES, assert_sound, end_of, open_again
from tests.faults.test_promotion_killed import assert_resumed
from tests.support.counting import tally
from tests.support.ground import Ground

SAMPLE: Final = 1
PARTS: Final = 8
_DRIFT: Final = 8
"""As in test_syscalls: so many calls of a name fewer than the baseline a run may make."""


class Baseline:
    """A run that nobody kills, traced."""

    def __init__(self, base: Path) -> None:
        needs_strace()
        ground = Ground(base / "ground", PHASES)
        try:
            killing = Killing(ground, "orchestrator")
            done = killing.run("run", "w", "47")
            assert done.exit_code == 0, done.told()
            self.points = after_the_exit(killing.points())
            self.end = end_of(ground)
        finally:
            ground.end()


def after_the_exit(points: list[Point]) -> list[Point]:
    """From the verdict of `plan-1` on, which follows its exit line."""
    texts = [point.text for point in points]
    first = min(n for n, text in enumerate(texts) if "verdict" in text)
    last = max(n for n, text in enumerate(texts) if "RESPONSE.md" in text)
    return points[first - 1 : last + 2]


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return Baseline(tmp_path_factory.mktemp("traced"))


@pytest.mark.fault("F1", "F8", by="strace: SIGKILL before each call of a promotion")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("part", range(PARTS))
def test_FS_16_FS_17_killed_at_each_system_call(
    part: int, baseline: Baseline, tmp_path: Path
) -> None:
    """Must show 3."""
    sweep(tmp_path, thinned(baseline.points[part::PARTS], 5), baseline.end)


@pytest.mark.sweep
def test_FS_16_FS_17_killed_at_some_system_calls(baseline: Baseline, tmp_path: Path) -> None:
    """A few of `test_FS_16_FS_17_killed_at_each_system_call`, the same ones each time."""
    chosen = random.Random(SEED).sample(baseline.points, SAMPLE)
    sweep(tmp_path, chosen, baseline.end, singly=False)


def sweep(
    base: Path, points: list[Point], undisturbed: dict[str, Any], *, singly: bool = True
) -> None:
    """Kill at each of these; tell of all that went wrong, and of what never fired."""
    wrong: list[str] = []
    fired = 0
    for number, point in enumerate(points):
        try:
            hit = any(
                killed_at(base / f"{number}.{less}", earlier, undisturbed, singly=singly)
                for less, earlier in enumerate(_earlier(point))
            )
        except AssertionError as error:
            hit = True
            wrong.append(f"{point}: {error}")
        fired += hit
        if not hit:
            wrong.append(f"{point}: did not fire")
    tally(len(points), fired, what="orchestrator", wrong=wrong)


def _earlier(point: Point) -> list[Point]:
    return [point._replace(k=point.k - less) for less in range(min(_DRIFT, point.k))]


def killed_at(base: Path, point: Point, undisturbed: dict[str, Any], *, singly: bool) -> bool:
    """Whether it fired; what is wrong is an AssertionError."""
    ground = Ground(base / "ground", PHASES)
    try:
        killing = Killing(ground, point.process, point)
        killing.run("run", "w", "47")
        fired = killing.fired()
        if fired:
            assert_sound(ground.run_dir)
            ground.all_gone()
            assert_sound(ground.run_dir)
            open_again(ground, base / "kept", singly=singly)
            assert_resumed(ground, undisturbed)
    finally:
        ground.end()
    shutil.rmtree(base)
    return fired
