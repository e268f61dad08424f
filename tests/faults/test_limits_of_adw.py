"""adw itself without file descriptors, or without memory."""

from pathlib import Path

import pytest

from tests.faults.conftest import swept
from tests.faults.three_phases import assert_over, three_phases
from tests.support.counting import Counted
from tests.support.ground import Done, Ground

HINT = "hint: raise the limit on open files, as `ulimit -n 1024` does for a shell"


def limited(ground: Ground, limit: str, *words: str) -> Done:
    return ground.adw(*words, wrap=["prlimit", f"--{limit}"])


def goes_on(ground: Ground) -> None:
    """Without the limit one plain command ends the run."""
    if ground.ids():
        ground.ok("resume", ground.adw_id)
    else:
        ground.ok("run", "w", "47")
    assert_over(ground)


@pytest.mark.sweep
@pytest.mark.fault("F25", by="so many file descriptors and no more")
def test_P4_without_file_descriptors_no_run_is_half_begun(tmp_path: Path, counted: Counted) -> None:
    points, wrong = 0, []
    for most in range(6, 30, 2):
        ground = three_phases(tmp_path / str(most))
        done = limited(ground, f"nofile={most}", "run", "w", "47")
        try:
            if done.exit_code == 0:
                break  # this many are enough
            points += 1
            assert done.exit_code == 4, done.told()
            # Some limits are met before adw has begun: the interpreter or git tells of them.
            assert "Too many open files" in done.stderr, done.told()
            assert "Traceback" not in done.stderr, done.told()
            goes_on(ground)
        except AssertionError as error:
            wrong.append(f"{most}: {error}")
        finally:
            ground.end()
    counted(points, points, points - len(wrong), what="limits on descriptors", wrong=wrong)
    assert points >= 4


@pytest.mark.fault("F25", by="so many file descriptors and no more")
def test_too_few_file_descriptors_are_told_with_the_way_out(tmp_path: Path) -> None:
    ground = three_phases(tmp_path / "g")
    done = limited(ground, "nofile=12", "run", "w", "47")
    ground.end()
    assert done.exit_code == 4, done.told()
    assert done.stderr.splitlines()[-2:] == ["error: Too many open files", f"  {HINT}"]


@pytest.mark.fault("F26", by="so much address space and no more")
@pytest.mark.parametrize("mib", swept([24, 28, 32, 36, 40, 48, 56, 64], 32))
def test_P4_without_memory_the_state_is_intact(tmp_path: Path, mib: int) -> None:
    ground = three_phases(tmp_path / "g")
    done = limited(ground, f"as={mib << 20}", "run", "w", "47")
    try:
        # Where not even the interpreter can load its parts, it has its own words for that.
        assert done.exit_code == 0 or done.stderr, done.told()
        goes_on(ground)
    finally:
        ground.end()
