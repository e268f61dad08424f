"""SIGKILL at every system call of a phase program that posts a comment, and of `adw effect`.

Real processes, a real remote on loopback that takes comments and fails as test_effect_killed.py's
does. The first try is killed; plain tries follow, as a retry or a resume would make them.
"""

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from adw.store import effects
from adw.store.effects import Effect
from tests.faults.kill_points import (
    CHANGING,
    SEED,
    Point,
    needs_strace,
    points_of,
    thinned,
)
from tests.support.counting import tally
from tests.support.fake_remote import Remote, serving

CALLS: Final = (*CHANGING, "connect", "recvfrom", "wait4")
PROGRAM: Final = str(Path(__file__).with_name("effect_phase.py"))
POST: Final = ("sh", "-c", 'echo "$ADW_ID/$ADW_PHASE/$ADW_ROUND" >> "$OUTSIDE"')
LOOK: Final = 'test -e "$OUTSIDE" && grep -qx "$ADW_ID/$ADW_PHASE/$ADW_ROUND" "$OUTSIDE"'
EXIT: Final = 79


@dataclass
class Phase:
    """One run's directory, an outside, and the program that acts."""

    base: Path
    argv: Sequence[str]
    env: dict[str, str]
    outside: Callable[[], list[str]]

    def run(self, number: int, wrap: Sequence[str] = ()) -> int:
        """One try in a round; its exit code."""
        env = {
            "PATH": os.environ["PATH"],
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.getcwd(),
            "ADW_ID": "cc73faf1",
            "ADW_PHASE": "review",
            "ADW_ROUND": str(number),
            "ADW_ATTEMPT": "1",
            "ADW_CHILD": "review-1",
            "ADW_INPUTS": "{}",
            **dict.fromkeys(("ADW_STATE", "ADW_TASK", "ADW_RESPONSE", "ADW_RESULT"), "/x"),
            **dict.fromkeys(("ADW_ARTIFACTS", "ADW_WORKTREE"), "/x"),
            "ADW_STATE_ROOT": str(self.run_dir),
            **self.env,
        }
        done = subprocess.run(
            [*wrap, *self.argv], env=env, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        return done.returncode

    @property
    def run_dir(self) -> Path:
        return self.base / "cc73faf1"

    def record(self) -> Effect:
        return Effect(str(self.run_dir), "review", 1, "review-1", "comment")

    def finish(self, number: int, *, blind: bool) -> None:
        """Plain tries; a person settles what nobody can tell."""
        for _ in range(8):
            code = self.run(number)
            if code == 0:
                return
            path = self.record().path
            if code == EXIT:
                assert blind
                record = effects.read_record(path)
                assert record is not None
                took = f"cc73faf1/review/{number}" in self.outside()
                effects.write_settled(path, record, "done" if took else "not_done")
        message = "never done"
        raise AssertionError(message)

    def points(self) -> list[Point]:
        """All calls of a try that nobody kills."""
        trace = self.base / "trace"
        self.run(1, ["strace", "-q", "-o", str(trace), "-e", f"trace={','.join(CALLS)}"])
        found = points_of("effect", trace)
        # What comes before is the start of Python.
        begun = next(i for i, each in enumerate(found) if "effects" in each.text)
        return found[begun:]

    def killed(self, point: Point) -> bool:
        """A try that is killed there; whether it was."""
        trace = self.base / "trace"
        inject = f"inject={point.call}:signal=KILL:when={point.k}"
        what = ["-e", f"trace={point.call}", "-e", inject]
        self.run(1, ["strace", "-q", "-o", str(trace), *what])
        return "+++ killed by SIGKILL +++" in trace.read_text("utf-8", "replace")


@pytest.fixture
def remote() -> Iterator[Remote]:
    with serving(Remote()) as found:
        yield found


def by_api(base: Path, remote: Remote, *, blind: bool) -> Phase:
    """The program of this folder, and the remote."""
    env = {"REMOTE": remote.url, "BLIND": "x" if blind else ""}
    return Phase(base, [sys.executable, PROGRAM], env, lambda: remote.look()[1])


def by_command(base: Path, *, blind: bool) -> Phase:
    """`adw effect`, and a file as the outside."""
    path = base / "outside"
    probe = [] if blind else ["--probe", LOOK]
    argv = [sys.executable, "-m", "adw", "effect", "comment", *probe, "--", *POST]
    return Phase(
        base,
        argv,
        {"OUTSIDE": str(path)},
        lambda: path.read_text().split() if path.exists() else [],
    )


def sweep(
    what: str,
    make: Callable[[Path], Phase],
    points: Sequence[Point],
    base: Path,
    *,
    blind: bool,
) -> None:
    """Kill at each point, go on plainly, look at the outside."""
    wrong, fired = [], 0
    for number, point in enumerate(points):
        phase = make(base / str(number))
        phase.run_dir.mkdir(parents=True)
        hit = phase.killed(point)
        fired += hit
        try:
            assert hit, "did not fire"
            phase.finish(1, blind=blind)
            phase.finish(2, blind=blind)
            assert sorted(phase.outside()) == ["cc73faf1/review/1", "cc73faf1/review/2"]
        except AssertionError as error:
            wrong.append(f"{point}: {error}")
    tally(len(points), fired, what=what, wrong=wrong)


def _points(phase: Phase) -> list[Point]:
    phase.run_dir.mkdir(parents=True)
    return phase.points()


WAYS: Final = [("ok", False), ("lost", False), ("bad_gateway", False), ("cut", False), ("ok", True)]


@pytest.mark.fault(
    "F49", "F50", by="strace: SIGKILL before each call; a remote that loses its answer"
)
@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "blind"), WAYS)
def test_every_system_call_of_a_phase_program(
    tmp_path: Path, remote: Remote, mode: str, *, blind: bool
) -> None:
    """Must show 3: exactly one effect at every point, and two in two rounds."""
    needs_strace()
    api(tmp_path, remote, mode, blind=blind, sample=None)


def api(base: Path, remote: Remote, mode: str, *, blind: bool, sample: int | None) -> None:
    """The sweep of the Python API."""
    remote.again([mode])
    points = _points(by_api(base / "baseline", remote, blind=blind))
    chance = random.Random(SEED)
    points = thinned(points, 24) if sample is None else chance.sample(points, sample)

    def make(path: Path) -> Phase:
        remote.again([mode])
        return by_api(path, remote, blind=blind)

    sweep(f"Python API, {mode}, blind={blind}", make, points, base, blind=blind)


@pytest.mark.fault("F49", "F50", by="strace: SIGKILL before each call of `adw effect`")
@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("blind", [False, True])
def test_every_system_call_of_adw_effect(tmp_path: Path, *, blind: bool) -> None:
    """What was started to act lives on when `adw effect` is killed: the next try waits for it."""
    needs_strace()
    points = _points(by_command(tmp_path / "baseline", blind=blind))
    sweep("adw effect", lambda path: by_command(path, blind=blind), points, tmp_path, blind=blind)


@pytest.mark.sweep
def test_some_system_calls(tmp_path: Path, remote: Remote) -> None:
    """A few of the sweeps above, the same ones each time."""
    needs_strace()
    api(tmp_path, remote, "lost", blind=False, sample=3)
    points = _points(by_command(tmp_path / "command", blind=True))
    acting = next(i for i, each in enumerate(points) if each.call in {"vfork", "clone", "clone3"})
    chosen = points[acting : acting + 2]
    base = tmp_path / "commands"
    sweep("adw effect", lambda path: by_command(path, blind=True), chosen, base, blind=True)
