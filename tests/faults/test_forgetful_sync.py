"""One fsync of a file fails, and what it was to write never reaches the disk (fsync-gate).

Processes still read it, and every later sync of that file succeeds. So a resume must not take what
it reads for durable because its own sync went well; the power that goes afterwards shows whether
it did. Looked through for this, with what makes each sound:

- state file, receipts and intents of effects, manifest, definitions, copies of outputs: replaced,
  and renamed only after their own sync; a failed one leaves no name. The name itself may be
  unsynced: who opens a run syncs its folder, who finds a receipt syncs the folder of receipts.
- lines of attempt.jsonl: whoever records an attempt that others ran writes them anew, behind what
  there is, and syncs those.
- the packet of an attempt: refused by its supervisor; the next attempt has a packet of its own.
- requests: one that could not be synced is told as not asked, and if it is found nevertheless, it
  is applied in the same replacement of the state as its effect.
- history, RESPONSE.md, latest.json: made from the above again.
"""

import random
from pathlib import Path
from typing import Any, Final

import pytest

from adw.errors import StoreError
from tests.faults.conftest import swept
from tests.faults.forgetting import (
    Forgetful,
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
from tests.faults.power_cuts import end_all
from tests.faults.three_phases import acts
from tests.integration.supervise.room import Room
from tests.support.ground import WAIT, Done, Ground, dead, kill, phase
from tests.support.wait import until

SYNCS: Final = 33
"""Files that are synced in a run."""


def failing(ground: Ground, disk: Forgetful, which: str, *words: str) -> tuple[Done, str | None]:
    """A command during which one sync of a file fails, as `fail` takes it; the file."""
    disk.ask(f"fail {which}")
    done = ground.adw(*words)
    with (ground.base / "counts" / "stdout").open("a") as file:
        file.write(done.stdout)
    ground.all_gone()
    known = disk.ask("told")
    failed: list[Any] | None = known["failed"]
    if failed is None:
        return done, None
    assert known["syncs"].count(failed) == 1, f"the descriptor of {failed} was synced again"
    return done, str(failed[0])


def assert_loud(done: Done, failed: str) -> None:
    """The file is named, or, where a body wrote it, its attempt has failed."""
    if "/effects/" in failed:
        assert done.exit_code == 1, done.told()
        assert "failed: exit code" in done.stdout, done.told()
    else:
        assert done.exit_code == 4, f"{failed} {done.told()}"
        where, _, name = failed.rpartition("/")
        assert where.rpartition("/")[2] in done.stderr, f"{failed} {done.told()}"
        assert name in done.stderr or name.split(".")[1] in done.stderr, f"{failed} {done.told()}"
        assert "Input/output error" in done.stderr, done.told()
    assert "Traceback" not in done.stderr, done.told()


def ends_well(ground: Ground, disk: Forgetful) -> None:
    """Resume, cut the power, resume again."""
    assert acts(ground) <= 1
    goes_on(ground)
    before = evidence(ground)
    pull_the_plug(ground, disk)
    assert_kept(before, ground)
    goes_on(ground)


def failed_at(base: Path, which: str) -> str | None:
    """Fail a sync, resume, cut the power, resume again; the file."""
    with forgetting(base) as (ground, disk):
        done, failed = failing(ground, disk, which, "run", "w", "47")
        if failed is not None:
            assert_loud(done, failed)
        ends_well(ground, disk)
    return failed


@pytest.mark.fault("F19", by="a forgetful FUSE file system fails the sync of an exit line")
@pytest.mark.parametrize("child", swept(["build-1", "test-2"], "build-1"))
def test_P2_P4_an_end_that_could_not_be_synced_is_told_and_written_anew(
    tmp_path: Path, child: str
) -> None:
    assert failed_at(tmp_path / "g", f"2 /attempts/{child}/")


@pytest.mark.fault("F19", by="the same, while the orchestrator is dead: nobody hears of it")
def test_P2_P4_an_adopted_end_that_could_not_be_synced_is_written_anew(tmp_path: Path) -> None:
    phases = {"build": phase(WAIT), "test": phase("true", needs=["build"])}
    with forgetting(tmp_path / "g", phases) as (ground, disk):
        run = ground.start("run", "w", "47")
        ground.pid()
        kill(run.pid)
        disk.ask("fail 1 /attempts/build-1/")
        resume = ground.start("resume", ground.adw_id)
        ground.await_line("build-1", "adopt")
        ground.go()
        done = Done.of(resume)
        assert done.exit_code == 0, done.told()
        assert disk.ask("told")["failed"]
        before = evidence(ground)
        pull_the_plug(ground, disk)
        assert_kept(before, ground)
        assert [entry[:3] for entry in ground.entries()] == [("build", 1, True), ("test", 1, True)]


@pytest.mark.fault("F19", by="the same, and its supervisor leaves before it gets the next attempt")
def test_P2_P4_the_last_word_of_a_supervisor_that_is_gone_is_heard(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk") as disk:
        room = Room(tmp_path / "disk")
        try:
            room.shell("a-1", "true", go=False)
            supervisor = room.await_line("a-1", "supervisor")["pid"]
            until(lambda: disk.ask("told")["syncs"], what="sync of the packet")
            disk.ask("fail 1 /a-1/")
            room.local.go("a-1")
            assert room.end("a-1").record
            until(lambda: dead(supervisor), what="death of the supervisor")
            room.shell("b-1", "true")
            with pytest.raises(StoreError, match=r"a-1/attempt\.jsonl.*Input/output error"):
                room.local.await_durable(["a-1"])
            assert room.record("b-1").reason is None
        finally:
            room.local.close()


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F19", by="a forgetful FUSE file system fails each sync of a file in a run")
def test_P2_P4_P9_a_sync_that_failed_is_told_and_not_believed_later(tmp_path: Path) -> None:
    sweep(tmp_path, range(1, SYNCS + 1), failed_at)


def failed_in_resume(base: Path, which: str) -> str | None:
    """Kill all of adw after a call, fail a sync of the resume, and as `failed_at`; the file."""
    first, second = which.split("+")
    with forgetting(base) as (ground, disk):
        run_until(ground, disk, first)
        end_all(ground)
        disk.ask("heal")
        done, failed = failing(ground, disk, second, "resume", ground.adw_id)
        if failed is not None:
            assert_loud(done, failed)
        ends_well(ground, disk)
    return failed


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F19", by="the same in a resume, after all of adw was killed")
def test_P2_P4_P9_a_sync_that_failed_in_a_resume_is_not_believed_later(tmp_path: Path) -> None:
    dice = random.Random(f"{SEED} resume")
    both = [(dice.randint(60, 160), dice.randint(1, 8)) for _ in range(150 if WHOLE else 24)]
    sweep(tmp_path, [f"{first}+{second}" for first, second in both], failed_in_resume)
