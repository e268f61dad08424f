"""Runs on file systems of their own: cut off, turned read-only, without inodes.

The power of an ext4 file system in a loop device is cut by its own ioctl, without a flush of the
journal: what was not synced is gone when it is mounted again. Such a device is kinder than the
model of `tests/faults/replay.py`, since any fsync takes others along; but it is a real one.

Source: EXT4_IOC_SHUTDOWN in the kernel's fs/ext4/ext4.h; mount(8), `abort` of ext4.
"""

import contextlib
import fcntl
import os
import random
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.crash_states import Told
from tests.faults.kill_points import SEED, WHOLE
from tests.faults.power_cuts import await_bodies, end_all, found_wrong, started, told
from tests.faults.three_phases import assert_over, three_phases
from tests.support.counting import Counted
from tests.support.ground import Ground

_SHUTDOWN: Final = 0x8004587D
_NO_FLUSH: Final = 2
CUTS: Final = 200 if WHOLE else 20


class Disk:
    """A file system under a ground's folder of runs."""

    def __init__(self, ground: Ground, kind: str, options: str = "defaults") -> None:
        self.folder = ground.agents
        self.folder.mkdir()
        self.image = ground.base / "disk"
        self.kind, self.options = kind, options
        if kind == "ext4":
            with self.image.open("wb") as file:
                file.truncate(24 << 20)
            _do("mkfs.ext4", "-q", "-F", str(self.image))
        self.mount()

    def mount(self) -> None:
        """Have it there."""
        if self.kind == "ext4":
            _do("mount", "-o", f"loop,{self.options}", str(self.image), str(self.folder))
        else:
            _do("mount", "-t", self.kind, "-o", self.options, self.kind, str(self.folder))
        self.folder.chmod(0o700)

    def unmount(self) -> None:
        """Take it away, whoever is still there."""
        done = subprocess.run(["umount", str(self.folder)], capture_output=True, check=False)
        if done.returncode != 0:
            _do("umount", "--lazy", str(self.folder))

    def cut(self) -> None:
        """Cut the power: what is not on the device now never gets there."""
        fd = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.ioctl(fd, _SHUTDOWN, struct.pack("I", _NO_FLUSH))
        finally:
            os.close(fd)


def _do(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, check=False, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"


@contextlib.contextmanager
def on_disk(base: Path, kind: str, options: str = "defaults") -> Iterator[tuple[Ground, Disk]]:
    """A ground of three phases whose runs lie on a disk of their own."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root: this fault was NOT tested")
    if kind == "ext4" and shutil.which("mkfs.ext4") is None:
        pytest.skip("apt-get install e2fsprogs: ext4 was NOT tested")
    ground = three_phases(base)
    disk = Disk(ground, kind, options)
    try:
        yield ground, disk
    finally:
        ground.end()
        disk.unmount()


def pull_the_plug(ground: Ground, disk: Disk) -> Told:
    """Cut the power; end everybody, as it does; mount the disk again. Returns what was told."""
    known = told(ground)
    disk.cut()
    end_all(ground)
    disk.unmount()
    disk.mount()
    return known


def goes_on(ground: Ground) -> None:
    """One plain command ends the run.

    One more where a body, or its log, had met the full disk: such an attempt has failed by itself.
    """
    done = ground.adw(*(("resume", ground.adw_id) if ground.ids() else ("run", "w", "47")))
    if done.exit_code == 1 and "No space left on device" in done.stdout:
        done = ground.adw("resume", ground.adw_id)
    assert done.exit_code == 0, done.told()
    assert_over(ground)


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F33", by="ext4 in a loop device, shut down without a flush of its journal")
def test_P1_P2_P9_a_power_cut_of_a_real_disk(tmp_path: Path, counted: Counted) -> None:
    dice = random.Random(SEED)
    wrong = []
    for number in range(CUTS):
        with on_disk(tmp_path / str(number), "ext4") as (ground, disk):
            run = started(ground, "run", "w", "47")
            bodies = dice.randrange(6)
            await_bodies(ground, run, bodies)
            time.sleep(dice.random() * 0.1 + 0.2 * (bodies == 0))
            known = pull_the_plug(ground, disk)
            try:
                found = found_wrong(ground, known)
                assert not found, found
                goes_on(ground)
            except AssertionError as error:
                wrong.append(f"seed {SEED}, cut {number} after {bodies} bodies: {error}")
        shutil.rmtree(tmp_path / str(number))
    print(f"seed {SEED}")
    counted(CUTS, CUTS, CUTS - len(wrong), what="power cuts of ext4", wrong=wrong)


@pytest.mark.sweep
@pytest.mark.fault("F22", by="ext4 that was shut down: each access is an I/O error")
def test_P4_a_disk_that_is_gone_is_told_and_nothing_starts_afresh(tmp_path: Path) -> None:
    with on_disk(tmp_path / "g", "ext4") as (ground, disk):
        run = started(ground, "run", "w", "47")
        await_bodies(ground, run, 1)
        disk.cut()
        assert run.wait(30) == 4
        before = _all(ground)
        for words in (("resume", "--all"), ("run", "w", "48")):
            done = ground.adw(*words)
            assert done.exit_code in {4, 2}, done.told()
            assert "Input/output error" in done.stderr, done.told()
            assert "Traceback" not in done.stderr
        assert _all(ground) == before
        pull_the_plug(ground, disk)
        goes_on(ground)


@pytest.mark.sweep
@pytest.mark.fault("F42", by="ext4, aborted: it is read-only from then on")
def test_P4_a_disk_that_turns_read_only_stops_the_run_with_its_state_intact(
    tmp_path: Path,
) -> None:
    with on_disk(tmp_path / "g", "ext4") as (ground, disk):
        run = started(ground, "run", "w", "47")
        await_bodies(ground, run, 1)
        _do("mount", "-o", "remount,abort", str(ground.agents))
        assert run.wait(30) == 4
        done = ground.adw("resume", "--all")
        assert done.exit_code == 4, done.told()
        assert "Read-only file system" in done.stderr
        assert "Traceback" not in done.stderr
        known = pull_the_plug(ground, disk)
        assert found_wrong(ground, known) == []
        goes_on(ground)


@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.fault("F15", by="tmpfs with so many inodes")
def test_P4_a_disk_without_inodes_is_told_and_the_run_goes_on_when_there_are_some(
    tmp_path: Path, counted: Counted
) -> None:
    counts = list(range(2, 62, 2 if WHOLE else 6))
    fired, wrong = 0, []
    for inodes in counts:
        options = f"size=8m,nr_inodes={inodes}"
        with on_disk(tmp_path / str(inodes), "tmpfs", options) as (ground, _):
            done = ground.adw("run", "w", "47")
            try:
                assert done.exit_code == 4, done.told()
                assert "No space left on device" in done.stderr, done.told()
                assert "Traceback" not in done.stderr
                fired += 1
                more = "remount,size=8m,nr_inodes=10000"
                _do("mount", "-o", more, str(ground.agents))
                goes_on(ground)
            except AssertionError as error:
                wrong.append(f"{inodes} inodes: {error}")
    counted(len(counts), fired, fired - len(wrong), what="tmpfs without inodes", wrong=wrong)


def _all(ground: Ground) -> Any:
    """Names of all that lies in the folder of runs, as far as they can be read."""
    return sorted(str(path) for path in ground.agents.rglob("*"))
