"""Runs on a file system that forgets: what was not synced is gone, what failed to sync never comes.

The power goes after any call that changes something in the folder of runs; the worktree and what
happens outside are elsewhere and forget nothing. Or adw is killed there, goes on from what the
page cache has, and the power goes when all is over: then what the resume read and acted upon must
be on the disk too, though nobody alive had synced it.
"""

import random
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.faults.forgetting import Forgetful, assert_kept, evidence, forgetting, pull_the_plug
from tests.faults.kill_points import SEED, WHOLE
from tests.faults.power_cuts import end_all, found_wrong, started, told
from tests.faults.three_phases import assert_over
from tests.support.counting import tally
from tests.support.ground import Ground
from tests.support.wait import until

CALLS: Final = 225
"""Calls of a run that change something, at least: another run has a few more or less."""
CUTS: Final = CALLS if WHOLE else 64
PLAIN: Final = (60, 150)
"""After these calls in the plain suite: the first body runs; the effect is on its way."""


def points(salt: str) -> list[int]:
    """Numbers of calls, from a seeded sample."""
    return sorted(random.Random(f"{SEED} {salt}").sample(range(1, CALLS + 1), CUTS))


def run_until(ground: Ground, disk: Forgetful, number: int) -> str | None:
    """Run until so many calls were made; the last one, or None where there were less."""
    disk.ask(f"cut-after {number}")
    run = started(ground, "run", "w", "47")
    until(lambda: disk.ask("told")["cut"] or run.poll() is not None, 30, f"call {number}")
    found: str | None = disk.ask("told")["cut"]
    return found


def goes_on(ground: Ground) -> None:
    """One plain command ends the run."""
    ground.ok(*(("resume", ground.adw_id) if ground.ids() else ("run", "w", "47")))
    assert_over(ground)


def cut_after(base: Path, number: int, ignored: Sequence[str] = ()) -> str | None:
    """Cut the power after a call of a run, look at what is left, go on; the call."""
    with forgetting(base) as (ground, disk):
        for each in ignored:
            disk.ask(f"ignore {each}")
        at = run_until(ground, disk, number)
        known = pull_the_plug(ground, disk)
        assert found_wrong(ground, known) == []
        goes_on(ground)
    return at


def killed_after(base: Path, number: int) -> str | None:
    """Kill all of adw after a call, go on from the cache, cut when it is over; the call."""
    with forgetting(base) as (ground, disk):
        at = run_until(ground, disk, number)
        end_all(ground)
        disk.ask("heal")
        goes_on(ground)
        before = evidence(ground)
        known = told(ground)
        assert pull_the_plug(ground, disk) == known
        assert_kept(before, ground)
        goes_on(ground)
    return at


def sweep(tmp_path: Path, numbers: Sequence[int], one: Callable[[Path, int], str | None]) -> None:
    """Try each number, and count."""
    fired, wrong = 0, []
    for number in numbers:
        try:
            fired += one(tmp_path / str(number), number) is not None
        except AssertionError as error:
            fired += 1
            wrong.append(f"seed {SEED}, after call {number}: {error}")
        shutil.rmtree(tmp_path / str(number))
    tally(len(numbers), fired, what=one.__name__, wrong=wrong)


@pytest.mark.fault("F32", by="a forgetful FUSE file system, cut while a body and an effect run")
@pytest.mark.parametrize("number", PLAIN)
def test_P1_P2_P9_what_was_told_is_on_the_disk(tmp_path: Path, number: int) -> None:
    assert cut_after(tmp_path / "g", number)


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F32", by="a forgetful FUSE file system, cut after calls of a whole run")
def test_P1_P2_P9_after_a_cut_one_resume_ends_the_run(tmp_path: Path) -> None:
    sweep(tmp_path, points("cut"), cut_after)


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F32", by="the same, killed first: a resume read from the cache before the cut")
def test_P2_P9_what_a_resume_read_from_the_cache_is_on_the_disk(tmp_path: Path) -> None:
    sweep(tmp_path, points("killed"), killed_after)


@pytest.mark.parametrize(
    ("ignored", "seen"),
    [
        ("files", "the state cannot be read"),
        ("folders", "the run is gone, and was told of"),
        ("/", "the run is gone, and was told of"),
    ],
)
def test_a_forgetful_disk_shows_a_sync_that_is_left_out(
    tmp_path: Path, ignored: str, seen: str
) -> None:
    with pytest.raises(AssertionError, match=seen):
        cut_after(tmp_path / "g", 120, [ignored])
