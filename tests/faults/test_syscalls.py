"""SIGKILL at every system call that changes something, of each process of a two-phase run.

Whatever was killed wherever: before the run's directory has its name there is no run and the next
`adw run` works; afterwards one plain `adw resume` ends it with 0, and what ran is what is recorded.
"""

import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

from adw.store import runs
from adw.store.state import load_state
from tests.faults.conftest import disable, swept
from tests.faults.kill_points import SEED, Killing, Point, needs_strace, thinned
from tests.support.counting import tally
from tests.support.ground import Done, Ground, phase

SAMPLE: Final = {"orchestrator": 1, "nursery": 1, "supervisor": 2, "git": 2}
_DRIFT: Final = 6
"""So many calls of a name fewer than the baseline a run may make: those that look at files or into
/proc depend on how things fall out in time. Then the point is that much earlier."""
PHASES: Final = {
    "build": phase('echo "$ADW_CHILD" > made.txt'),
    "commit": {"use": "commit", "needs": ["build"]},
}


def baseline(base: Path, process: str, mode: str) -> list[Point]:
    """All points of a process, from a run that nobody kills."""
    ground = Ground(base, PHASES, env=disable(mode))
    killing = Killing(ground, process)
    try:
        done = killing.run("run", "w", "47")
        assert done.exit_code == 0, done.told()
        assert_ended(ground)
        before = ground.entries()
        ground.ok("resume", ground.adw_id)
        assert (ground.entries(), ground.ran("build")) == (before, ["build-1"])
        return killing.points()
    finally:
        ground.end()


def kill_at(base: Path, point: Point, mode: str) -> bool:
    """Run, kill there, resume, look at everything.

    Returns:
        Whether the point fired; what is wrong is an AssertionError.
    """
    ground = Ground(base, PHASES, env=disable(mode))
    killing = Killing(ground, point.process, point)
    try:
        killed = killing.run("run", "w", "47")
        if not killing.fired():
            return False
        assert_valid(ground)
        if not ground.ids():
            assert point.process.startswith(("orchestrator", "git")), killed.told()
            ground.ok("run", "w", "47")
        else:
            finish(ground, point, killed)
        assert_ended(ground)
        return True
    finally:
        ground.end()


def finish(ground: Ground, point: Point, killed: Done) -> None:
    """One plain resume; what had an exit line by then did not run again."""
    kept = [c for c in ("build-1", "commit-1") if (ground.line(c, "exit") or {}).get("started_at")]
    before = ground.entries()
    done = ground.adw("resume", ground.adw_id)
    assert done.exit_code == 0, f"{killed.told()}\n{done.told()}"
    assert ground.entries()[: len(before)] == before
    bodies = ground.ran("build")
    if point.process != "supervisor" or "build-1" in kept:
        # Only the death of a supervisor loses a body that ran.
        assert len(bodies) == 1, bodies
    assert len(bodies) <= 2, bodies
    tried = [e for e in ground.entries() if e[0] == "commit" and e[1] > 0]
    if "commit-1" in kept and point.process != "git":
        assert len([e for e in tried if e[3] != "exit"]) == 1, tried


def assert_valid(ground: Ground) -> None:
    """Whatever is listed has a whole state."""
    for name in ground.ids():
        load_state(str(ground.agents / name))


def assert_ended(ground: Ground) -> None:
    """The run is over, all that is recorded happened, nothing is left."""
    done = [entry for entry in ground.entries() if entry[2]]
    assert [entry[0] for entry in done] == ["build", "commit"], ground.entries()
    child = f"build-{done[0][1]}"
    assert ground.ran("build")[-1] == child
    for name, attempt, _, _ in done:
        line = ground.line(f"{name}-{attempt}", "exit")
        assert line is not None, name
        assert (line["reason"], line["exit_code"]) == (None, 0)
    assert ground.commits() == 1
    state, _ = load_state(str(ground.run_dir))
    assert ground.repo.git("show", f"{state.branch_name}:made.txt") == child
    tree = ground.repo.path / str(state.worktree_path)
    assert ground.repo.git("-C", str(tree), "status", "--porcelain") == ""
    assert ground.repo.git("status", "--porcelain") == ""
    left = [str(p) for p in ground.agents.rglob("*") if p.name.endswith(".tmp")]
    left += [str(p) for p in ground.agents.glob(".new-*")]
    assert left == []
    assert not runs.held(str(ground.run_dir))
    ground.all_gone()


def sweep(base: Path, points: list[Point], mode: str) -> None:
    """Kill at each of these; tell of all that went wrong, and of what never fired."""
    wrong: list[str] = []
    fired = 0
    for number, point in enumerate(points):
        try:
            hit = any(
                kill_at(base / f"{number}.{less}", point._replace(k=point.k - less), mode)
                for less in range(min(_DRIFT, point.k))
            )
        except AssertionError as error:
            hit = True
            wrong.append(f"{point}: {error}")
        else:
            for place in base.glob(f"{number}.*"):
                shutil.rmtree(place)
        fired += hit
        if not hit:
            wrong.append(f"{point}: did not fire")
    names = Counter(point.process.partition("-")[0] for point in points)
    tally(len(points), fired, what=f"{dict(names)} ({mode})", wrong=wrong)


@pytest.mark.fault(
    "F1",
    "F3",
    "F5",
    "F6",
    "F7",
    "F8",
    "F46",
    "F47",
    by="strace: SIGKILL before each changing call of a process",
)
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize(
    ("process", "mode"),
    [
        ("orchestrator", "cgroup"),
        ("git", "cgroup"),
        ("supervisor", "cgroup"),
        ("supervisor", "tag"),
        ("nursery", "cgroup"),
        ("nursery", "tag"),
    ],
)
def test_every_system_call(tmp_path: Path, process: str, mode: str) -> None:
    """Must show 7; cases A1, B19."""
    needs_strace()
    points = baseline(tmp_path / "baseline", process, mode)
    sweep(tmp_path, thinned(points, 60), mode)


@pytest.mark.sweep
@pytest.mark.parametrize("process", swept(SAMPLE, "orchestrator"))
def test_case_A1_some_system_calls(tmp_path: Path, process: str) -> None:
    """A few of `test_every_system_call`, the same ones each time."""
    needs_strace()
    points = baseline(tmp_path / "baseline", process, "cgroup")
    chosen = random.Random(SEED).sample(points, SAMPLE[process])
    if process == "orchestrator":
        chosen += replacing_the_state(points)
    sweep(tmp_path, chosen, "cgroup")


def replacing_the_state(points: list[Point]) -> list[Point]:
    """The last time: open, write, sync, and what comes until the rename."""
    names = [number for number, point in enumerate(points) if "adw_state.json" in point.text]
    begun = [number for number in names if points[number].call == "openat"][-1]
    ended = [number for number in names if points[number].call == "rename"]
    return points[begun : max([begun + 2, *ended]) + 1]
