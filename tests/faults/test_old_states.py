"""A state from before: brought back by a person or a backup tool, after what followed had happened."""

import shutil
from pathlib import Path

import pytest

from adw.app import copying_state
from adw.errors import StateError
from adw.store.state import load_state
from tests.faults.conftest import MakeGround
from tests.faults.three_phases import PHASES, acts, assert_over
from tests.support.counting import Counted
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


@pytest.mark.sweep
@pytest.mark.fault("F37", by="each byte of a state changed, the run then opened")
@pytest.mark.hostile("H40")
def test_P1_no_changed_byte_of_a_state_goes_unseen(
    make_ground: MakeGround, counted: Counted
) -> None:
    """It is refused, or told: a digit that became another one leaves a state that is valid."""
    ground = make_ground(PHASES)
    (ground.base / "counts" / "outside").touch()
    ground.ok("run", "w", "47")
    path = ground.run_dir / "adw_state.json"
    whole = path.read_bytes()
    copy = copying_state.folder(str(ground.repo.path / ".git"), ground.adw_id)
    assert copying_state.newest(copy)[1] == whole
    points, refused, wrong = 0, 0, []
    for at in range(len(whole)):
        for flip in (1, 0x10, 0x80):
            points += 1
            path.write_bytes(whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :])
            try:
                state, data = load_state(str(ground.run_dir))
            except StateError:
                refused += 1
                continue
            said = copying_state.altered(copy, state, data)
            if said is None and b'"updated_at"' not in _line_of(whole, at):
                wrong.append(f"byte {at} of {_line_of(whole, at)!r} by {flip}")
    path.write_bytes(whole)
    print(f"{refused} refused")
    counted(points, points, points - len(wrong), what="changed bytes", wrong=wrong)


@pytest.mark.sweep
@pytest.mark.fault("F37", by="a valid state that somebody changed")
@pytest.mark.hostile("H40")
def test_a_state_that_somebody_changed_is_told(make_ground: MakeGround) -> None:
    ground = make_ground({"one": phase("true"), "two": phase("test -e ../../go", needs=["one"])})
    assert ground.adw("run", "w", "47").exit_code == 1
    assert "not as adw wrote it" not in ground.adw("doctor", ground.adw_id).stdout
    path = ground.run_dir / "adw_state.json"
    path.write_text(path.read_text().replace('"model_set": "base"', '"model_set": "heavy"'))
    assert "its state is not as adw wrote it: `model_set` differ" in (
        ground.adw("doctor", ground.adw_id).stdout
    )
    (ground.repo.path / "go").touch()

    done = ground.ok("resume", ground.adw_id)

    told = [event["detail"] for event in ground.events("warning")]
    assert len(told) == 1
    assert told[0].startswith("its state is not as adw wrote it: `model_set` differ")
    assert f"warning: {told[0]}" in done.stdout + done.stderr


def _line_of(data: bytes, at: int) -> bytes:
    return data[data.rfind(b"\n", 0, at) + 1 :].partition(b"\n")[0]
