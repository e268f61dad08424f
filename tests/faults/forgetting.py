"""Grounds whose folder of runs lies on the file system of `tests/faults/forgetful.py`."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from adw.store import attempts, effects
from tests.faults.crash_states import Told
from tests.faults.kill_points import SEED
from tests.faults.power_cuts import end_all, started, told
from tests.faults.three_phases import assert_over, three_phases
from tests.support.counting import tally
from tests.support.ground import Ground
from tests.support.wait import until

_ROOT: Final = Path(__file__).parents[2]


class Forgetful:
    """The process that serves the file system, mounted on a folder."""

    def __init__(self, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.faults.forgetful", str(folder)],
            cwd=_ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._hear()

    def ask(self, word: str) -> dict[str, Any]:
        """Give a word; returns what is known after it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def close(self) -> None:
        """Unmount, and wait for it."""
        self._process.communicate(timeout=10)
        assert self._process.returncode == 0


@contextlib.contextmanager
def forgetting(
    base: Path, phases: dict[str, Any] | None = None
) -> Iterator[tuple[Ground, Forgetful]]:
    """A ground, of three phases where nothing else is asked for, on such a disk."""
    ground = three_phases(base) if phases is None else Ground(base, phases)
    with mounted(ground.agents) as disk:
        try:
            yield ground, disk
        finally:
            ground.end()


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[Forgetful]:
    """Such a disk, on a new folder."""
    if os.geteuid() != 0 or not os.access("/dev/fuse", os.W_OK):
        pytest.skip("mounting needs root and /dev/fuse: this fault was NOT tested")
    folder.mkdir()
    disk = Forgetful(folder)
    try:
        yield disk
    finally:
        disk.close()


def pull_the_plug(ground: Ground, disk: Forgetful) -> Told:
    """Cut the power, if it is not; end everybody; mount what is on the disk. Returns what was told."""
    disk.ask("cut")
    end_all(ground)
    known = told(ground)
    disk.ask("mount")
    return known


def evidence(ground: Ground) -> dict[str, Any]:
    """What the state says that happened, and what the attempts and effects say of it.

    Each attempt of the history with its launch, its end, and a verdict that names outputs; each
    effect with its state.
    """
    found: dict[str, Any] = {}
    for name, attempt, success, reason in ground.entries():
        child = f"{name}-{attempt}"
        lines = attempts.lines_of(str(ground.run_dir), child)
        verdict = attempts.verdict(lines)
        found[child] = [
            success,
            reason,
            attempts.find(lines, "launch"),
            attempts.find(lines, "exit"),
        ]
        found[child].append(verdict if verdict and verdict["outputs"] else None)
    for path in sorted((ground.run_dir / effects.DIR).glob("[!.]*.json")):
        record = effects.read_record(str(path))
        found[path.name] = record and record["state"]
    return found


def assert_kept(before: dict[str, Any], ground: Ground) -> None:
    """Nothing that had been recorded and told is lost by a cut."""
    after = evidence(ground)
    lost = {
        name: (each, after.get(name)) for name, each in before.items() if each != after.get(name)
    }
    assert lost == {}, lost


def run_until(ground: Ground, disk: Forgetful, which: str, *words: str) -> str | None:
    """Run until a call was made, as `cut-after` takes it; which it was, or None: it never came."""
    disk.ask(f"cut-after {which}")
    run = started(ground, *(words or ("run", "w", "47")))
    until(lambda: disk.ask("told")["cut"] or run.poll() is not None, 30, f"call {which}")
    found: str | None = disk.ask("told")["cut"]
    return found


def goes_on(ground: Ground) -> None:
    """One plain command ends the run."""
    ground.ok(*(("resume", ground.adw_id) if ground.ids() else ("run", "w", "47")))
    assert_over(ground)


def sweep(tmp_path: Path, points: Iterable[object], one: Callable[[Path, str], str | None]) -> None:
    """Try each point, and count those that `one` tells to have come."""
    fired, wrong = 0, []
    tried = [str(point) for point in points]
    for point in tried:
        try:
            fired += one(tmp_path / point, point) is not None
        except AssertionError as error:
            fired += 1
            place = traceback.extract_tb(error.__traceback__)[-1].line
            wrong.append(f"seed {SEED}, point {point}: {place}: {error}")
        shutil.rmtree(tmp_path / point)
    tally(len(tried), fired, what=one.__name__, wrong=wrong)
