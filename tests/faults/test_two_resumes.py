"""Two resumes of one run at once: one goes on, the other is told who, however close they are."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path
from typing import Final, Self

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import ADW, Done, Ground, phase

SEED: Final = 20261130
SPREAD_S: Final = 0.5  # a resume takes about as long
_HOLDER: Final = re.compile(r"process \d+ \(`adw resume \w+`\)|another adw \(starting\)")


class Lister:
    """A process that lists the status of all runs in a loop, as a person's script does."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.seen: set[str] = set()
        self.count = 0
        self.pause = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._over.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._over.is_set():
            with self.pause:
                self._list()
            self._over.wait(0.1)

    def _list(self) -> None:
        found = subprocess.run(
            [*ADW, "status", "--json"],
            cwd=self.ground.repo.path,
            env={**os.environ, **self.ground.env},
            capture_output=True,
            check=True,
        )
        self.seen.update(run["status"] for run in json.loads(found.stdout)["runs"])
        self.count += 1


@pytest.fixture
def interrupted(make_ground: MakeGround) -> Ground:
    """A run whose orchestrator died when its first phase was done and recorded."""
    phases = {"build": phase("true"), "test": phase("sleep 0.3", needs=["build"])}
    ground = make_ground(phases, config={"ports": "none"})
    killed = ground.adw("run", "w", "47", ADW_FAILPOINT="publish.before")
    assert killed.exit_code == -9
    ground.all_gone()
    return ground


def put_back(ground: Ground, saved: Path) -> None:
    """Make the run what it was when it was interrupted."""
    ground.all_gone()
    shutil.rmtree(ground.agents)
    copy(saved, ground.agents)
    shutil.rmtree(ground.base / "counts")
    os.mkdir(ground.base / "counts")
    # The body of the phase that is done.
    (ground.base / "counts" / "build").write_text("build-1\n")


def copy(source: Path, target: Path) -> None:
    """Copy a folder of runs; FIFOs are made anew by who needs them."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("wake"))


def race(ground: Ground, offset_s: float) -> str:
    """Two resumes, one later by `offset_s`: which of the allowed ends it was."""
    first = ground.start("resume", ground.adw_id)
    with contextlib.suppress(subprocess.TimeoutExpired):
        first.wait(offset_s)
    second = ground.start("resume", ground.adw_id)
    ends = [Done.of(first), Done.of(second)]
    codes = sorted(end.exit_code for end in ends)
    told = "\n".join(end.told() for end in ends)
    assert codes in ([0, 0], [0, 5]), told
    if codes == [0, 5]:
        loser = next(end for end in ends if end.exit_code == 5)
        assert _HOLDER.search(loser.stderr), told
    assert (ground.ran("build"), ground.ran("test")) == (["build-1"], ["test-1"]), told
    assert ground.entries() == [("build", 1, True, None), ("test", 1, True, None)], told
    return "refused" if 5 in codes else "after the end"


def races(ground: Ground, count: int) -> None:
    chosen = random.Random(SEED)
    ends: dict[str, int] = {"refused": 0, "after the end": 0}
    saved = ground.base / "saved"
    copy(ground.agents, saved)
    with Lister(ground) as lister:
        for _ in range(count):
            ends[race(ground, chosen.uniform(0, SPREAD_S))] += 1
            with lister.pause:
                put_back(ground, saved)
    print(f"{count} races: {ends}, status listed {lister.count} times")
    assert ends["refused"] > 0
    assert lister.seen <= {"interrupted", "running", "succeeded"}


@pytest.mark.fault("F12", by="two processes")
def test_case_K2_one_of_two_resumes_goes_on(interrupted: Ground) -> None:
    races(interrupted, 4)


@pytest.mark.fault("F12", by="two processes, 200 times")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
def test_one_of_two_resumes_goes_on_200_times(interrupted: Ground) -> None:
    """Must show 5."""
    races(interrupted, 200)


@pytest.mark.fault("F12", by="eight processes")
@pytest.mark.sweep
def test_case_E8_of_eight_resumes_one_goes_on(interrupted: Ground) -> None:
    started = [interrupted.start("resume", interrupted.adw_id) for _ in range(8)]
    ends = [Done.of(process) for process in started]
    codes = [end.exit_code for end in ends]
    assert set(codes) <= {0, 5}
    assert 0 in codes
    assert interrupted.ran("build") == ["build-1"]
    assert interrupted.ran("test") == ["test-1"]


@pytest.mark.sweep
def test_a_resume_after_success_starts_nothing(interrupted: Ground) -> None:
    interrupted.ok("resume", interrupted.adw_id)
    before = (interrupted.run_dir / "adw_state.json").read_bytes()
    attempts = sorted(os.listdir(interrupted.run_dir / "attempts"))
    interrupted.ok("resume", interrupted.adw_id)
    assert (interrupted.run_dir / "adw_state.json").read_bytes() == before
    assert sorted(os.listdir(interrupted.run_dir / "attempts")) == attempts
    assert interrupted.ran("build") == ["build-1"]


@pytest.mark.fault("F57", by="another program with the recorded process id")
@pytest.mark.sweep
def test_case_E6_a_holder_whose_number_another_program_has_is_nobody(interrupted: Ground) -> None:
    stranger = subprocess.Popen(["sleep", "1000"])
    lock = interrupted.run_dir / "lock"
    who = json.loads(lock.read_text())
    lock.write_text(json.dumps({**who, "pid": stranger.pid}))
    interrupted.ok("resume", interrupted.adw_id)
    assert stranger.poll() is None
    stranger.send_signal(signal.SIGKILL)
    stranger.wait()
