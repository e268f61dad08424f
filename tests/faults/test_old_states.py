"""A state from before: brought back by a person or a backup tool, after what followed had happened."""

import shutil
from pathlib import Path

import pytest

from tests.faults.conftest import MakeGround
from tests.faults.three_phases import PHASES, acts, assert_over
from tests.support.ground import Ground, phase


@pytest.fixture
def kept(make_ground: MakeGround) -> tuple[Ground, list[Path]]:
    """A run that was over, and a copy of its state from each of its bodies on."""
    copy = 'cp "$ADW_STATE" "$GROUND/state-$ADW_CHILD"'
    phases = {name: {**given, "run": f"{copy}; {given['run']}"} for name, given in PHASES.items()}
    ground = make_ground({**phases, "last": phase(copy, needs=["test"])})
    (ground.base / "counts" / "outside").touch()
    ground.ok("run", "w", "47")
    assert acts(ground) == 1
    return ground, sorted(ground.base.glob("state-*"))


@pytest.mark.sweep
@pytest.mark.fault("F39", "F40", by="a copy of the state from each earlier body, laid there again")
def test_P8_what_happened_outside_is_not_repeated_by_an_older_state(
    kept: tuple[Ground, list[Path]],
) -> None:
    ground, states = kept
    assert len(states) == 6
    for path in states:
        shutil.copyfile(path, ground.run_dir / "adw_state.json")
        ground.ok("resume", ground.adw_id)
        assert acts(ground) == 1, path
        assert ground.entries()[-1] == ("last", ground.entries()[-1][1], True, None)
        assert ground.status(ground.adw_id)["status"] == "succeeded"


@pytest.mark.sweep
@pytest.mark.fault("F40", by="the history cut to its first lines, or gone")
@pytest.mark.parametrize("lines", [0, 1, 5, None])
def test_P3_a_log_older_than_its_state_is_told_anew(
    make_ground: MakeGround, lines: int | None
) -> None:
    ground = make_ground(PHASES)
    (ground.base / "counts" / "outside").touch()
    ground.ok("run", "w", "47", "--until", "build")
    path = ground.run_dir / "state" / "task_history.jsonl"
    if lines is None:
        path.unlink()
    else:
        path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:lines]))
    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)
    assert_over(ground)
    told = {event["child_id"] for event in ground.events("child_completed")}
    assert told == {"plan-1", "build-1", "test-1", "fix-1", "test-2"}
    assert ground.adw("doctor", ground.adw_id).exit_code == 0
