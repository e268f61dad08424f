"""Killed at any failpoint between the packet and RESPONSE.md, a run that promotes is whole again.

Each point: kill there, look at what lies, open it as it lies and with each derived file gone, and
resume it once.
"""

import shutil
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from adw import failpoints
from tests.faults import promotions
from tests.faults.promotions import PHASES, RAN, assert_settled, assert_sound, end_of, open_again
from tests.support.counting import tally
from tests.support.ground import Ground

_LAUNCHER: Final = str(Path(__file__).with_name("counted_adw.py"))
_NOT_HERE: Final = {"create.before_rename", "request.applied", "request.moved"}
"""Before there is a run, and where somebody asks something: others walk these."""
_VIEWS: Final = {"latest.written", "response.written"}
"""How often they are written depends on how fast boundaries follow each other."""
ORCHESTRATOR: Final = sorted(
    name for name in failpoints.NAMES - _NOT_HERE if not name.startswith("shim.")
)


class Undisturbed:
    """A run that nobody kills."""

    def __init__(self, base: Path) -> None:
        ground = Ground(base / "ground", PHASES)
        try:
            path = base / "hits"
            done = ground.start("run", "w", "47", argv=[sys.executable, _LAUNCHER, str(path)])
            _, told = done.communicate(timeout=50)
            assert done.returncode == 0, told
            assert_settled(ground.run_dir)
            self.hits = Counter(path.read_text().split())
            self.end = end_of(ground)
            self.events = [event["event"] for event in ground.events()]
        finally:
            ground.end()


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Undisturbed:
    return Undisturbed(tmp_path_factory.mktemp("undisturbed"))


def test_FS_11_the_run_tells_all_that_is_to_be_told(undisturbed: Undisturbed) -> None:
    """What is compared below is what is meant: two attempts, a narrowed retry, three promotions."""
    assert undisturbed.end["bodies"] == RAN
    assert undisturbed.end["made"] == "plan 2\n[2]\n"
    assert undisturbed.end["commits"] == 1
    assert {n: e["producer"].partition("-")[0] for n, e in undisturbed.end["manifest"].items()} == (
        promotions.NAMES
    )
    assert undisturbed.end["actions"] == [("plan-1", "narrowed_retry", "missing_output")]
    assert undisturbed.end["causes"] == [
        ("plan-1", "attempt"),
        ("plan-2", "narrowed_retry"),
        ("build-1", "attempt"),
        ("commit-1", "attempt"),
    ]
    assert undisturbed.end["told"]["plan-2", "warning", None] == 1
    assert set(ORCHESTRATOR) <= set(undisturbed.hits)


@pytest.mark.fault("F1", "F8", by="SIGKILL at each failpoint")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("name", ORCHESTRATOR)
def test_FS_16_FS_17_killed_at_each_hit_of_each_failpoint(
    name: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """Must show 3."""
    points = undisturbed.hits[name]
    fired = sum(
        killed_at(tmp_path / str(k), f"{name}:{k}", undisturbed.end) for k in range(1, points + 1)
    )
    if name in _VIEWS:
        points = fired
    tally(points, fired, what=name)


@pytest.mark.parametrize("point", ["verdict.written:2", "manifest.written:3"])
def test_FS_16_FS_17_killed_between_the_copy_and_its_event(
    point: str, undisturbed: Undisturbed, tmp_path: Path
) -> None:
    """The outputs of `plan-2`: before the commit, and before the events."""
    assert killed_at(tmp_path, point, undisturbed.end, singly=False)


def killed_at(base: Path, point: str, undisturbed: dict[str, Any], *, singly: bool = True) -> bool:
    """Whether it fired."""
    ground = Ground(base / "ground", PHASES)
    try:
        killed = ground.adw("run", "w", "47", ADW_FAILPOINT=point)
        if killed.exit_code == 0:
            return False
        assert killed.exit_code == -9, killed.told()
        assert_sound(ground.run_dir)
        ground.all_gone()
        assert_sound(ground.run_dir)
        open_again(ground, base / "kept", singly=singly)
        assert_resumed(ground, undisturbed)
    finally:
        ground.end()
    shutil.rmtree(base)
    return True


def assert_resumed(ground: Ground, undisturbed: dict[str, Any]) -> None:
    """One plain resume ends it as if nobody had been killed."""
    recorded = ground.entries()
    ground.ok("resume", ground.adw_id)
    assert ground.entries()[: len(recorded)] == recorded
    assert_settled(ground.run_dir)
    assert end_of(ground) == undisturbed
    ground.all_gone()
