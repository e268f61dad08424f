"""The disk fails or is full while outputs are promoted: told with 4, nothing half, nothing lost.

What comes before the commit leaves the run as it was. What is derived comes after it: an error
there ends the sitting just as loudly, and the commit stands.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Self

import pytest

from tests.faults.conftest import MakeGround
from tests.faults.kill_points import Killing, Point, thinned
from tests.faults.promotions import (
    PHASES,
    assert_settled,
    assert_sound,
    copies,
    events,
    manifest_of,
)
from tests.faults.test_promotion_killed import assert_resumed
from tests.faults.test_promotion_syscalls import Baseline
from tests.support.counting import tally
from tests.support.ground import Ground, phase

DERIVED: Final = ("artifacts/manifest.json", "RESPONSE.md", "state/latest.json")
PARTS: Final = 6
_ERRORS: Final = {
    "write": "ENOSPC",
    "mkdir": "ENOSPC",
    "rename": "EIO",
    "linkat": "EIO",
    "fsync": "EIO",
    "fdatasync": "EIO",
}
_WORDS: Final = ("No space left on device", "Input/output error")
_DRIFT: Final = 8
"""How far off the call may be, in the number among those of its name, from run to run."""


@pytest.fixture(scope="session")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Baseline:
    return Baseline(tmp_path_factory.mktemp("traced"))


def writes(baseline: Baseline) -> list[Point]:
    """What writes files; words for the terminal are no files."""
    return [p for p in baseline.points if p.call in _ERRORS and not p.text.startswith("write(1,")]


@pytest.mark.fault("F14", by="strace: ENOSPC at each write")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("part", range(PARTS))
def test_FS_16_an_error_at_each_write(part: int, baseline: Baseline, tmp_path: Path) -> None:
    sweep(tmp_path, thinned(writes(baseline)[part::PARTS], 5), baseline.end)


def sweep(base: Path, points: list[Point], undisturbed: dict[str, Any]) -> None:
    """One error a run; tell of all that went wrong, and of what never fired."""
    wrong: list[str] = []
    fired = told = 0
    for number, point in enumerate(points):
        try:
            code = code_after(base / str(number), point, undisturbed)
        except AssertionError as error:
            code = 4
            wrong.append(f"{point}: {error}")
        fired += code is not None
        told += code == 4
        if code is None:
            wrong.append(f"{point}: did not fire")
    tally(len(points), fired, what=f"orchestrator, {told} told", wrong=wrong)


def code_after(base: Path, point: Point, undisturbed: dict[str, Any]) -> int | None:
    """The exit code of a run with this error; None where the call did not come."""
    for less in range(min(_DRIFT, point.k)):
        with Failing(base / str(less), point._replace(k=point.k - less)) as run:
            if not run.error:
                continue
            assert_sound(run.ground.run_dir)
            run.ground.all_gone()
            if run.done.exit_code == 0:  # a copy of the state, for restoring: fails nothing
                assert_settled(run.ground.run_dir)
            else:
                assert_told(run)
            assert_resumed(run.ground, undisturbed)
            return run.done.exit_code
    return None


class Failing:
    """One `adw run` with one call that fails."""

    def __init__(self, base: Path, point: Point) -> None:
        self.ground = Ground(base / "ground", PHASES)
        killing = Killing(self.ground, "orchestrator", point, error=_ERRORS[point.call])
        self.done = killing.run("run", "w", "47")
        self.error = killing.injected()
        self.base = base

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_more: object) -> None:
        self.ground.end()
        if kind is None:
            shutil.rmtree(self.base)


def assert_told(run: Failing) -> None:
    """Exit code 4 and one line that names the file."""
    assert run.done.exit_code == 4, run.done.told()
    first = run.done.stderr.splitlines()[0]
    assert first.startswith("error: "), run.done.told()
    assert any(words in first for words in _WORDS), run.done.told()
    assert "`" in first, run.done.told()


# --- before the commit, and after it -----------------------------------------------------


@pytest.mark.sweep
def test_FS_16_a_copy_that_fails_is_no_copy_and_no_entry(
    baseline: Baseline, tmp_path: Path
) -> None:
    with failing_at(baseline, "rename", "artifacts/plan/plan-2/x-", tmp_path) as run:
        assert_told(run)
        run_dir = run.ground.run_dir
        assert run.ground.entries() == [("plan", 1, False, "missing_output")]
        assert manifest_of(run_dir) == {}
        assert [path for _, _, path in copies(run_dir) if not path.name.startswith(".")] == []
        assert_resumed(run.ground, baseline.end)


@pytest.mark.sweep
@pytest.mark.parametrize("name", DERIVED)
def test_FS_17_an_error_at_what_is_derived_is_loud_and_loses_nothing(
    name: str, baseline: Baseline, tmp_path: Path
) -> None:
    with failing_at(baseline, "rename", name, tmp_path) as run:
        assert_told(run)
        assert Path(name).name in run.done.stderr
        recorded = run.ground.entries()
        assert recorded[0] == ("plan", 1, False, "missing_output")
        assert_resumed(run.ground, baseline.end)
        assert run.ground.entries()[: len(recorded)] == recorded


def failing_at(baseline: Baseline, call: str, place: str, base: Path) -> Failing:
    """A run whose last call of this name that leads to this place fails."""
    ending = f"/{place}"
    point = [p for p in baseline.points if p.call == call and _leads_to(p.text, ending)][-1]
    for off in sorted(range(-_DRIFT, _DRIFT + 1), key=abs):
        run = Failing(base / str(off), point._replace(k=point.k + off))
        if _leads_to(run.error, ending):
            return run
        run.ground.end()
    message = f"no {call} to {place} was met"
    raise AssertionError(message)


def _leads_to(text: str, ending: str) -> bool:
    """Whether the second path of a call ends, or goes on, like this."""
    target = text.partition(", ")[2]
    return f'{ending}"' in target or (ending.endswith("-") and ending in target)


# --- a disk that is full -----------------------------------------------------------------

LARGE: Final = 'head -c 900000 /dev/zero > large.bin; echo "plan" > plan.md'
FILLED: Final[dict[str, Any]] = {
    "plan": phase(
        LARGE,
        outputs={"small": {"path": "plan.md"}, "large": {"path": "large.bin"}},
    ),
    "build": phase("true", needs=["plan"], inputs=["small", "large"]),
}


@pytest.fixture
def small(make_ground: MakeGround) -> Iterator[Ground]:
    """A ground whose runs lie on a file system of 1 MiB."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root: A12 was NOT tested")
    ground = make_ground(FILLED)
    ground.agents.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=768k", "tmpfs", str(ground.agents)]
    mounted = subprocess.run(mount, check=False, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted ({mounted.stderr.strip()}): A12 was NOT tested")
    yield ground
    ground.end()
    subprocess.run(["umount", "--lazy", str(ground.agents)], check=True)


@pytest.mark.fault("F14", by="a small tmpfs")
def test_case_A12_FS_16_a_copy_for_which_there_is_no_room(small: Ground) -> None:
    done = small.adw("run", "w", "47")
    small.all_gone()

    assert done.exit_code == 4, done.told()
    assert "No space left on device" in done.stderr
    assert "/artifacts/large/plan-1/" in done.stderr
    assert small.entries() == []
    assert manifest_of(small.run_dir) == {}
    assert [path.name for _, _, path in copies(small.run_dir)] == ["plan.md"]
    assert small.line("plan-1", "verdict") is None
    assert_sound(small.run_dir)

    remount = ["mount", "-o", "remount,size=8m", str(small.agents)]
    subprocess.run(remount, check=True)
    small.ok("resume", small.adw_id)
    assert_settled(small.run_dir)
    assert list(manifest_of(small.run_dir)) == ["small", "large"]
    assert (small.ran("plan"), small.ran("build")) == (["plan-1"], ["build-1"])
    kinds = [event["event"] for event in events(small.run_dir) if event["child_id"] == "plan-1"]
    assert kinds.count("artifact_promoted") == 2
