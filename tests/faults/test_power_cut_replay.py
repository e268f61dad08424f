"""Every legal state that a power cut may leave of a recorded run is a run that goes on.

The calls of a real run are recorded, and cut after each one; what was not synced is there or not,
in many combinations (`tests/faults/replay.py`). The real loader and the commands that read must
find what had been told or acted upon by then. Of a sample, a real `adw resume` ends the run.
"""

import os
import random
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from tests.faults import recording
from tests.faults.crash_states import Laid, Recorded, Told, instants, search
from tests.faults.kill_points import SEED, WHOLE, needs_strace
from tests.faults.recording import Op
from tests.faults.replay import choices
from tests.faults.three_phases import ORDER, assert_over, three_phases
from tests.support.counting import Counted
from tests.support.ground import Ground

MOST: Final = 2000 if WHOLE else 24
"""Choices at each instant."""
RESUMED: Final = 2000 if WHOLE else 24
"""States from which a real resume goes on, in each part."""
PARTS: Final = 2
_INTO: Final = (
    "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600);"
    " os.dup2(f, 1); os.execv(sys.executable, [sys.executable, '-m', 'adw', *sys.argv[2:]])"
)
"""adw with its stdout in a file, so that what it tells people is among the calls."""


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    return three_phases(tmp_path_factory.mktemp("replay") / "ground")


@pytest.fixture(scope="module")
def run(ground: Ground) -> Recorded:
    needs_strace()
    counts, trace = ground.base / "counts", ground.base / "trace"
    command = [sys.executable, "-c", _INTO, str(counts / "stdout"), "run", "w", "47"]
    code = recording.record(command, trace, ground.repo.path, {**os.environ, **ground.env})
    assert code == 0, (counts / "stdout").read_text()
    ground.all_gone()
    history = [entry[:3] for entry in ground.entries()]
    assert [(entry[0], entry[2]) for entry in history] == list(ORDER)
    ops = recording.operations(trace, [ground.agents, counts])
    return Recorded(ops, str(ground.agents), str(counts), ground.adw_id, history)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """In memory where there is such a place: thousands of small files are written."""
    shared = Path("/dev/shm") / f"adw-test-{os.getpid()}"
    found = shared if os.access("/dev/shm", os.W_OK) else tmp_path / "laid"
    found.mkdir(mode=0o700)
    return found


@pytest.fixture(autouse=True)
def _cleared(place: Path) -> object:
    yield
    shutil.rmtree(place)


@pytest.mark.sweep
@pytest.mark.fault(
    "F31", "F34", "F35", "F36", "F40", by="replay of un-synced calls in the weakest model"
)
def test_P1_P2_P3_whatever_a_power_cut_leaves_is_sound(
    run: Recorded, place: Path, counted: Counted
) -> None:
    found = search(run, place, seed=SEED, most=MOST)

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
@pytest.mark.timeout(1100)
@pytest.mark.fault("F31", "F40", by="replay of un-synced calls, then a real resume")
@pytest.mark.parametrize("part", range(PARTS))
def test_P9_one_resume_ends_the_run_after_a_power_cut(
    ground: Ground, run: Recorded, part: int, tmp_path: Path, counted: Counted
) -> None:
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


# --- the search itself can fail ------------------------------------------------------------------


def folders(ops: Sequence[Op]) -> set[str]:
    """Paths that are folders at one time, by the calls that make them."""
    return {op.path for op in ops if op.call == "dir"} | {
        op.target for op in ops if op.call == "rename" and "/.new-" in op.path
    }


def without(ops: Sequence[Op], lost: Callable[[str], bool]) -> list[Op]:
    """As if these paths were never synced."""
    return [op for op in ops if not (op.call in {"begin", "sync"} and lost(op.path))]


def no_file_sync(run: Recorded) -> list[Op]:
    known = folders(run.ops)
    return without(run.ops, lambda path: path not in known and path != str(Path(run.agents).parent))


def no_folder_sync(run: Recorded) -> list[Op]:
    known = folders(run.ops)
    return without(run.ops, lambda path: path in known)


def no_parent_sync(run: Recorded) -> list[Op]:
    return without(run.ops, lambda path: path == os.path.dirname(run.agents))


def go_before_commit(run: Recorded) -> list[Op]:
    """Each body tells that it runs before the rename that records the end of the one before it."""
    ops = list(run.ops)
    bodies = [
        op for op in ops if re.fullmatch(r"(plan|build|test|fix)-\d+\n", op.data.decode("latin-1"))
    ]
    for body in [op for op in bodies if os.path.basename(op.path) in {"build", "test", "fix"}]:
        at = ops.index(body)
        renames = [n for n in range(at) if ops[n].target.endswith("/adw_state.json")]
        ops.insert(renames[-1], ops.pop(at))
    return ops


def receipt_not_synced(run: Recorded) -> list[Op]:
    return without(run.ops, lambda path: "/effects" in path)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("bug", "seen"),
    [
        (no_file_sync, "the state cannot be read"),
        (no_folder_sync, "is lost"),
        (no_parent_sync, "the run is gone, and was told of"),
        (go_before_commit, "are recorded"),
        (receipt_not_synced, "an effect was done without a durable intent"),
    ],
)
def test_the_search_sees_planted_bugs(
    run: Recorded, place: Path, bug: Callable[[Recorded], list[Op]], seen: str
) -> None:
    ops = bug(run)
    assert ops != list(run.ops)
    broken = Recorded(ops, run.agents, run.counts, run.adw_id, run.history)

    found = search(broken, place, seed=SEED, most=8)

    assert any(seen in line for line in found.wrong), found
