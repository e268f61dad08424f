"""Runs on a file system that forgets: what was not synced is gone, what failed to sync never comes.

The power goes after any call that changes something in the folder of runs; the worktree and what
happens outside are elsewhere and forget nothing. Or adw is killed there, goes on from what the
page cache has, and the power goes when all is over: then what the resume read and acted upon must
be on the disk too, though nobody alive had synced it.
"""

import os
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from adw.store import effects, files
from adw.store.encoding import json_bytes
from tests.faults.conftest import swept
from tests.faults.forgetting import (
    assert_kept,
    evidence,
    forgetting,
    goes_on,
    mounted,
    pull_the_plug,
    run_until,
    sweep,
)
from tests.faults.kill_points import SEED, WHOLE
from tests.faults.power_cuts import end_all, found_wrong, told
from tests.support.wait import until

CALLS: Final = 225
"""Calls of a run that change something, at least: another run has a few more or less."""
CUTS: Final = CALLS if WHOLE else 40


def points(salt: str) -> list[int]:
    """Numbers of calls, from a seeded sample."""
    return sorted(random.Random(f"{SEED} {salt}").sample(range(1, CALLS + 1), CUTS))


def cut_after(base: Path, which: str, ignored: Sequence[str] = ()) -> str | None:
    """Cut the power after a call of a run, look at what is left, go on; the call."""
    with forgetting(base) as (ground, disk):
        for each in ignored:
            disk.ask(f"ignore {each}")
        at = run_until(ground, disk, which)
        known = pull_the_plug(ground, disk)
        assert found_wrong(ground, known) == []
        goes_on(ground)
    return at


def killed_after(base: Path, which: str) -> str | None:
    """Kill all of adw after a call, go on from the cache, cut when it is over; the call."""
    with forgetting(base) as (ground, disk):
        at = run_until(ground, disk, which)
        end_all(ground)
        disk.ask("heal")
        goes_on(ground)
        before = evidence(ground)
        known = told(ground)
        assert pull_the_plug(ground, disk) == known
        assert_kept(before, ground)
        goes_on(ground)
    return at


def cut_in_resume(base: Path, which: str) -> str | None:
    """Kill all of adw after a call, cut the power after a later one of the resume; that call."""
    first, second = which.split("+")
    with forgetting(base) as (ground, disk):
        run_until(ground, disk, first)
        end_all(ground)
        disk.ask("heal")
        words = ("resume", ground.adw_id) if ground.ids() else ()
        at = run_until(ground, disk, second, *words)
        known = pull_the_plug(ground, disk)
        have = [entry[:2] for entry in ground.entries()] if ground.ids() else []
        lost = set(known.ended) - set(have)
        assert not lost, f"told and lost: {lost}"
        goes_on(ground)
    return at or "the resume was over before"


@pytest.mark.fault("F32", by="a forgetful FUSE file system, cut while a body and an effect run")
@pytest.mark.parametrize(
    "which", swept(["1 write /attempts/plan-1", "2 fsyncdir /effects"], "2 fsyncdir /effects")
)
def test_P1_P2_P9_what_was_told_is_on_the_disk(tmp_path: Path, which: str) -> None:
    assert cut_after(tmp_path / "g", which)


@pytest.mark.fault("F32", by="the same, killed first: a resume read from the cache before the cut")
@pytest.mark.parametrize(
    "which", swept(["2 rename /effects", "1 write /attempts/test-1"], "2 rename /effects")
)
def test_P2_P9_a_receipt_and_a_lost_attempt_that_nobody_had_synced(
    tmp_path: Path, which: str
) -> None:
    assert killed_after(tmp_path / "g", which)


def test_a_receipt_that_was_waited_for_is_on_the_disk_too(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        run_dir = tmp_path / "disk" / "cc73faf1"
        files.make_dirs(str(run_dir / effects.DIR))
        effect = effects.Effect(str(run_dir), "build", 1, "build-1", "post")
        acted = effects.perform(effect, lambda: "out").record
        receipt = Path(effect.path)
        receipt.unlink()
        files.sync_dir(str(receipt.parent))
        with ThreadPoolExecutor(1) as pool:
            with effects.locked(effect.path) as lock:
                found = pool.submit(effects.perform, effect, lambda: "again")
                until(lambda: waited_for(lock), what="another one who waits")
                receipt.with_suffix(".tmp").write_bytes(json_bytes(acted))
                files.sync_file(str(receipt.with_suffix(".tmp")))
                receipt.with_suffix(".tmp").rename(receipt)
            assert not found.result(10).acted
        disk.ask("cut")
        disk.ask("mount")
        assert effects.read_record(effect.path) == acted


def waited_for(fd: int) -> bool:
    """Whether somebody waits for the lock of an open file."""
    number = f":{os.fstat(fd).st_ino} "
    locks = Path("/proc/locks").read_text().splitlines()
    return any("->" in line and number in line for line in locks)


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


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F32", by="the same, killed first, and cut in the resume")
def test_P1_P2_P9_a_cut_in_a_resume_is_a_cut(tmp_path: Path) -> None:
    dice = random.Random(f"{SEED} both")
    both = [(dice.randint(30, CALLS), dice.randint(1, 90)) for _ in range(CUTS // 2)]
    sweep(tmp_path, [f"{first}+{second}" for first, second in both], cut_in_resume)


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
        cut_after(tmp_path / "g", "120", [ignored])
