"""Every legal state that a power cut may leave of a recorded run is a run that goes on.

The calls of a real run are recorded, and cut after each one; what was not synced is there or not,
in many combinations (`tests/faults/replay.py`). The real loader and the commands that read must
find what had been told or acted upon by then. Of a sample, a real `adw resume` ends the run.
"""

import random
import shutil
from pathlib import Path
from typing import Final

import pytest

from tests.faults.crash_states import Laid, Recorded, Told, instants, search
from tests.faults.kill_points import SEED, WHOLE
from tests.faults.recorded_run import Replayed
from tests.faults.replay import choices
from tests.faults.three_phases import assert_over
from tests.support.counting import Counted
from tests.support.ground import Ground

MOST: Final = 2000 if WHOLE else 24
"""Choices at each instant."""
RESUMED: Final = 2000 if WHOLE else 24
"""States from which a real resume goes on, in each part."""
PARTS: Final = 2


@pytest.mark.sweep
@pytest.mark.fault(
    "F31", "F34", "F35", "F36", "F40", by="replay of un-synced calls in the weakest model"
)
def test_P1_P2_P3_whatever_a_power_cut_leaves_is_sound(
    replayed: Replayed, place: Path, counted: Counted
) -> None:
    found = search(replayed.run, place, seed=SEED, most=MOST)

    print(f"seed {SEED}: {found.crashes} cuts, {found.states} different states")
    counted(
        found.checked,
        found.checked,
        found.checked - len(found.wrong),
        what="crash states",
        wrong=found.wrong,
    )
    assert found.states > 1000


@pytest.mark.sweep
@pytest.mark.fault("F31", "F34", "F35", "F36", by="replay, changes kept in order as by a journal")
def test_P1_P2_P3_whatever_a_journal_leaves_is_sound(
    replayed: Replayed, place: Path, counted: Counted
) -> None:
    found = search(replayed.run, place, seed=SEED, most=0, ordered=True)

    checked = found.checked
    counted(checked, checked, checked - len(found.wrong), what="ordered", wrong=found.wrong)
    assert found.states > 100


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F31", "F40", by="replay of un-synced calls, then a real resume")
@pytest.mark.parametrize("part", range(PARTS))
def test_P9_one_resume_ends_the_run_after_a_power_cut(
    replayed: Replayed, place: Path, part: int, tmp_path: Path, counted: Counted
) -> None:
    ground, run = replayed
    after = shutil.copytree(ground.base, tmp_path / "after", symlinks=True)
    rng = random.Random(f"{SEED} {part}")
    begun = first_body(run)
    wanted = set(rng.sample(range(begun, len(run.ops)), min(RESUMED, len(run.ops) - begun)))
    wrong = []
    points = 0
    for number, disk, told in instants(run):
        if number in wanted:
            points += 1
            chosen = rng.choice(list(choices(disk.pending, rng, 12)))
            tree = disk.after_cut(chosen)
            try:
                back_to(ground, after, told)
                shutil.rmtree(ground.agents)
                laid = Laid(ground.repo.path)
                laid.lay(tree)
                ground.ok("resume", run.adw_id)
                assert_over(ground)
            except AssertionError as error:
                wrong.append(f"seed {SEED}, part {part}, after call {number}, {chosen}: {error}")
    back_to(ground, after, None)
    counted(points, points, points - len(wrong), what="power cuts, each resumed", wrong=wrong)


def first_body(run: Recorded) -> int:
    """Number of the call by which the first body told that it runs: the worktree is there."""
    bodies = (n for n, op in enumerate(run.ops) if op.path == f"{run.counts}/plan")
    return next(bodies)


def back_to(ground: Ground, after: Path, told: Told | None) -> None:
    """The repository as it was in the end; what is outside as others had seen it by then.

    The worktree is that of the end, but for what `fix` had not mended by then: whatever a body has
    done stays done, which is the worst that a phase that runs again can meet.
    """
    shutil.rmtree(ground.base)
    shutil.copytree(after, ground.base, symlinks=True)
    if told is not None:
        outside = ground.base / "counts" / "outside"
        outside.write_text(outside.read_text() if told.acted else "")
        if "fix-1" not in told.bodies:
            tree = next((ground.repo.path / "trees").iterdir())
            (tree / "mended.txt").unlink(missing_ok=True)
