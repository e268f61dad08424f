"""Twenty runs at once in one repository, some killed at random: all end right, nothing is broken."""

import json
import os
import random
import signal
import time
from pathlib import Path
from typing import Any, Final

import pytest

from adw.store import attempts
from adw.store.state import load_state
from tests.faults.conftest import MakeGround
from tests.faults.kill_points import SEED
from tests.support.counting import Counted
from tests.support.ground import COUNT, Done, Ground, Process
from tests.support.wait import until

RUNS: Final = 20
KILLED: Final = 12
"""Of them; half with their supervisors."""


def workflow() -> dict[str, dict[str, Any]]:
    """Two commits, so that each run writes to the repository that all share."""
    return {
        "one": {"run": f'{COUNT}; sleep 0.2; echo "$ADW_ID" > one.txt'},
        "keep": {"use": "commit", "needs": ["one"]},
        "two": {"run": f'{COUNT}; sleep 0.2; echo "$ADW_ID" > two.txt', "needs": ["keep"]},
        "more": {"use": "commit", "needs": ["two"]},
    }


def kill_some(ground: Ground, dice: random.Random, started: list[Process]) -> tuple[int, int]:
    """Kill at random moments; how many orchestrators and supervisors met their end."""
    orchestrators = supervisors = 0
    for process in dice.sample(started, KILLED):
        time.sleep(dice.uniform(0, 0.6))
        if process.poll() is None and dice.random() < 0.5:
            for pid in supervisors_of(process.pid):
                os.kill(pid, signal.SIGKILL)
                supervisors += 1
        if process.poll() is None:
            process.kill()
            orchestrators += 1
    del ground
    return orchestrators, supervisors


def supervisors_of(orchestrator: int) -> list[int]:
    """Children of the nursery, by kinship alone."""
    return [
        child
        for nursery in children(orchestrator)
        if session(nursery) == nursery
        for child in children(nursery)
        if session(child) == child
    ]


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.fault("F13", "F4", by="20 processes at once, 12 killed at random")
def test_twenty_runs_at_once_end_right_though_some_are_killed(
    make_ground: MakeGround, counted: Counted
) -> None:
    """Must show 6."""
    ground = make_ground(workflow())
    dice = random.Random(SEED)
    started = [ground.start("run", "w", "47", "--parallel") for _ in range(RUNS)]
    until(lambda: len(ground.ids()) >= RUNS // 2, 60, "the first runs")
    killed = kill_some(ground, dice, started)
    ends = [Done.of(process, 120) for process in started]
    wrong = [end.told() for end in ends if end.exit_code not in {0, -signal.SIGKILL}]
    # Who was killed before it had made its run is begun anew, as its user would.
    unmade = RUNS - len(ground.ids())

    resumed = ground.adw("resume", "--all")

    print(
        f"seed {SEED}: killed {killed[0]} orchestrators, {killed[1]} supervisors; {unmade} unmade"
    )
    assert killed[0] > 0
    assert killed[1] > 0
    assert resumed.exit_code == 0, resumed.told()
    for _ in range(unmade):
        ground.ok("run", "w", "47", "--parallel")
    ids = ground.ids()
    assert len(ids) == RUNS
    wrong += [text for adw_id in ids for text in wrong_of(ground, adw_id)]
    counted(RUNS, RUNS, RUNS - len(wrong), what="runs at once", wrong=wrong)
    states = [load_state(str(ground.agents / adw_id))[0] for adw_id in ids]
    for key in ("worktree_path", "branch_name", "backend_port", "frontend_port"):
        assert len({getattr(state, key) for state in states}) == RUNS, key
    ports = {port for state in states for port in (state.backend_port, state.frontend_port)}
    assert len(ports) == 2 * RUNS
    assert_sound(ground, [str(state.worktree_path) for state in states])
    ground.all_gone()


def wrong_of(ground: Ground, adw_id: str) -> list[str]:
    """What is wrong with a run that is over."""
    run_dir = ground.agents / adw_id
    state, _ = load_state(str(run_dir))
    found = []
    won = [e.phase for e in state.phase_history if e.success]
    if won != ["one", "keep", "two", "more"]:
        found.append(f"{adw_id}: {won}")
    tried = [f"{e.phase}-{e.attempt}" for e in state.phase_history if e.attempt]
    if sorted(tried) != sorted(os.listdir(run_dir / "attempts")):
        found.append(f"{adw_id}: recorded {tried}, there are {os.listdir(run_dir / 'attempts')}")
    for child in tried:
        lines = attempts.read_lines(str(run_dir / "attempts" / child))
        # The same one may stand there twice: who adopts it writes it anew before it is believed.
        if len({json.dumps(line) for line in lines if line["line"] == "exit"}) > 1:
            found.append(f"{adw_id}: {child} has two exit lines")
    branch = str(state.branch_name)
    shown = [ground.repo.git("show", f"{branch}:{name}.txt") for name in ("one", "two")]
    log = ground.repo.git("log", "--format=%(trailers:key=ADW-Run,valueonly)", branch).split()
    if shown != [adw_id, adw_id] or log != [adw_id, adw_id]:
        found.append(f"{adw_id}: its branch holds {shown}, commits of {log}")
    return found


def assert_sound(ground: Ground, trees: list[str]) -> None:
    """The repository that all shared is whole, and nothing is locked in it."""
    repo = ground.repo
    assert "missing" not in repo.git("fsck", "--full", "--strict")
    locks = [str(p) for p in (repo.path / ".git").rglob("*.lock") if p.name != "adw.lock"]
    assert locks == []
    listed = repo.git("worktree", "list", "--porcelain")
    found = [line.split(" ", 1)[1] for line in listed.splitlines() if line.startswith("worktree ")]
    assert sorted(found) == sorted([str(repo.path), *(str(repo.path / tree) for tree in trees)])
    assert "prunable" not in listed
    for tree in trees:
        assert repo.git("-C", tree, "status", "--porcelain") == "", tree
