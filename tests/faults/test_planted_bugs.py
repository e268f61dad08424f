"""The tests of the tests: each kit goes red when the bug that it is there for is in adw.

Each row of `BUGS` puts one bug in, has the kit look, and tells what the kit said. A kit that says
nothing would stay green with that bug; the same kits without bugs are the tests beside this one.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from adw.app import publish
from adw.errors import AdwError
from adw.store import effects, files
from tests.faults import recorded_run
from tests.faults.campaign import Campaign
from tests.faults.crash_states import Recorded, search
from tests.faults.kill_points import SEED
from tests.faults.recorded_run import Replayed
from tests.faults.recording import Op
from tests.faults.test_effect_killed import Sweep
from tests.faults.test_whole_run_calls import Run, try_at
from tests.support.ground import WAIT, Ground, phase
from tests.support.namespaces import INSIDE, needs_pid_namespace
from tests.support.wait import until

REPOSITORY: Final = Path(__file__).parents[2]


@dataclass(frozen=True)
class Bench:
    """Where a bug is put in; what costs time is made when it is asked for."""

    request: pytest.FixtureRequest
    patch: pytest.MonkeyPatch

    @property
    def path(self) -> Path:
        """A directory on a disk."""
        found: Path = self.request.getfixturevalue("tmp_path")
        return found

    @property
    def memory(self) -> Path:
        """A directory in memory."""
        found: Path = self.request.getfixturevalue("place")
        return found

    @property
    def replayed(self) -> Replayed:
        """The recorded run."""
        found: Replayed = self.request.getfixturevalue("replayed")
        return found


# --- the kits: what each says of a bug -------------------------------------------------------


def replay(
    fault: Callable[[Recorded], list[Op]], *, ordered: bool = False
) -> Callable[[Bench], list[str]]:
    """Power cuts of a recorded run."""

    def look(bench: Bench) -> list[str]:
        run = recorded_run.broken(bench.replayed.run, fault)
        return search(run, bench.memory, seed=SEED, most=8, ordered=ordered).wrong

    return look


def single_write(bench: Bench) -> list[str]:
    """A write that is done by half is not gone on with; each call of a whole run."""

    def once(fd: int, data: bytes) -> None:
        vars(files)["os"].write(fd, data)  # the stand-in, where there is one

    bench.patch.setattr(files, "write_all", once)
    bench.patch.setattr(publish, "HOLD_S", 0.0)
    said = []
    for at in range(1, 20, 4):
        try:
            try_at(Run(bench.memory / str(at)), "short", at, errno.EIO)
        except (AssertionError, AdwError, ValueError) as error:
            said.append(f"short write at {at}: {error!r}")
    return said


def effect(name: str, value: object, *, probes: bool) -> Callable[[Bench], list[str]]:
    """Effects killed at each call, against a remote whose answer was lost."""

    def look(bench: Bench) -> list[str]:
        bench.patch.setattr(effects, "PAUSE_S", 0.0)
        bench.patch.setattr(effects, name, value)
        sweep = Sweep(bench.path)
        sweep.run("took hold, answer lost", probes=probes)
        return sweep.wrong

    return look


def _nothing(*_: object, **__: object) -> None:
    """What is left out."""


def group_only(bench: Bench) -> list[str]:
    """Double kills; bodies leave a daemon with a lock."""
    campaign = Campaign("cgroup", SEED, plant="group_only")
    campaign.run(bench.path, 30, most_wrong=2)
    met, left = campaign.counts["met, NOT told"], campaign.counts["left, NOT told"]
    return campaign.wrong if met and left else []


def pid_file(bench: Bench) -> list[str]:
    """See `two_namespaces`."""
    bodies = two_namespaces(bench.path, "pid_file")
    return [f"{bodies} live at once"] if len(bodies) > 1 else []


def two_namespaces(base: Path, plant: str) -> list[str]:
    """Run, and resume from where the number of who runs means nothing: another PID namespace.

    A container with the repository in it is such a place, and so is a machine with a number that
    was given to nobody again: a number in a file tells who lives only as long as it is looked up
    where it was written.

    Returns:
        The bodies that ran while the first orchestrator lived.
    """
    needs_pid_namespace()
    ground = Ground(base / "ground", {"one": phase(WAIT)}, env={"ADW_DISABLE": "cgroup"})
    adw = (sys.executable, "-m", "tests.faults.planted", plant)
    try:
        first = ground.start("run", "w", "47", argv=adw, PYTHONPATH=str(REPOSITORY))
        body = ground.pid()
        second = ground.start(
            "resume", ground.adw_id, wrap=INSIDE, argv=adw, PYTHONPATH=str(REPOSITORY)
        )
        until(lambda: len(ground.ran("one")) > 1 or second.poll() is not None, 30, "second adw")
        assert first.poll() is None
        os.kill(body, 0)
        if len(ground.ran("one")) == 1:
            out, err = second.communicate(timeout=10)
            assert second.returncode == 5, (out, err)
        return ground.ran("one")
    finally:
        ground.go()
        for process in ground.started:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=20)
        ground.end()


BUGS: Final[Mapping[str, tuple[Callable[[Bench], list[str]], str, bool]]] = {
    "no file is synced": (replay(recorded_run.no_file_sync), "the state cannot be read", True),
    "no folder is synced": (replay(recorded_run.no_folder_sync), "is lost", True),
    "single write": (single_write, "short write", False),
    "process group only": (group_only, "", True),
    "receipt without look-up": (effect("_look", _nothing, probes=True), "", False),
    "alive by PID file": (pid_file, "live at once", False),
    "parent of a new folder not synced": (
        replay(recorded_run.no_parent_sync),
        "the run is gone, and was told of",
        True,
    ),
    "replaced in place": (replay(recorded_run.in_place), "the state cannot be read", True),
    # Beyond the eight that any durable program can have, those of this one.
    "go before the commit": (replay(recorded_run.go_before_commit), "are recorded", True),
    "go before the commit, with a journal": (
        replay(recorded_run.go_before_commit, ordered=True),
        "are recorded",
        True,
    ),
    "receipt not synced": (
        replay(recorded_run.receipt_not_synced),
        "an effect was done without a durable intent",
        True,
    ),
    "no intent": (effect("_save", _nothing, probes=False), "", False),
    "nobody knows, and it is not told": (effect("_unknown", _nothing, probes=False), "", False),
}
"""The bug: the kit, a part of what it says, whether that takes long."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("look", "said"),
    [
        pytest.param(look, said, id=name, marks=[pytest.mark.sweep] if long else [])
        for name, (look, said, long) in BUGS.items()
    ],
)
def test_the_kit_goes_red(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    look: Callable[[Bench], list[str]],
    said: str,
) -> None:
    found = look(Bench(request, monkeypatch))
    assert any(said in line for line in found), found


@pytest.mark.sweep
def test_P6_without_the_bug_another_namespace_is_no_way_in(tmp_path: Path) -> None:
    assert two_namespaces(tmp_path, "") == ["one-1"]
