"""Killed at any failpoint and resumed once, a run ends as one that nobody killed."""

from pathlib import Path
from typing import Any, Final

import pytest

from adw import failpoints
from adw.store.state import load_state
from tests.faults.conftest import MakeGround, swept
from tests.support.ground import Ground, phase

OF_REQUESTS: Final = {"request.applied", "request.moved"}
"""Reached only when somebody asks something: tests/faults/test_requests.py walks these."""
PHASES: Final = {
    "build": phase("echo built > made.txt", outputs={"made": {"path": "made.txt"}}),
    "commit": {"use": "commit", "needs": ["build"]},
}
_VARYING: Final = {
    "adw_id", "all_adws", "branch_name", "worktree_path", "updated_at", "phase_history",
    "backend_port", "frontend_port", "workflow",
}  # fmt: skip


def end_of(ground: Ground) -> dict[str, Any]:
    """What must not depend on kills: fields, outcomes, the commit."""
    state, _ = load_state(str(ground.run_dir))
    branch = str(state.branch_name)
    return {
        "fields": state.model_dump(exclude=_VARYING),
        "done": [entry[0] for entry in ground.entries() if entry[2]],
        "status": ground.status(ground.adw_id)["status"],
        "changed": ground.repo.git("show", "--format=", branch),
        "commits": ground.commits(),
    }


@pytest.fixture(scope="session")
def unkilled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    ground = Ground(Path(tmp_path_factory.mktemp("unkilled")) / "ground", PHASES)
    ground.ok("run", "w", "47")
    end = end_of(ground)
    ground.end()
    assert end["done"] == ["build", "commit"]
    return end


@pytest.mark.fault("F1", "F5", "F8", by="SIGKILL at each failpoint")
@pytest.mark.sweep
@pytest.mark.parametrize(
    "name",
    swept(
        sorted(failpoints.NAMES - OF_REQUESTS),
        "create.before_rename",
        "packet.handed_over",
        "state.after_rename",
        "shim.exit_written",
    ),
)
def test_case_B19_killed_at_a_failpoint_a_run_ends_the_same(
    name: str, make_ground: MakeGround, unkilled: dict[str, Any]
) -> None:
    ground = make_ground(PHASES)
    killed = ground.adw("run", "w", "47", ADW_FAILPOINT=name)
    in_supervisor = name.startswith("shim.")
    # A run whose supervisors all die fails after the third that takes a body along.
    assert killed.exit_code in ({0, 1} if in_supervisor else {-9}), killed.told()
    recorded = ground.entries() if ground.ids() else []

    if ground.ids():
        assert_true(ground)
        ground.ok("resume", ground.adw_id)
    else:
        assert name == "create.before_rename"
        ground.ok("run", "w", "47")

    assert ground.entries()[: len(recorded)] == recorded
    assert_true(ground)
    assert end_of(ground) == unkilled
    if not in_supervisor:
        assert len(ground.ran("build")) == 1
    ground.all_gone()


def assert_true(ground: Ground) -> None:
    """No phase is recorded done that did not run."""
    for name, attempt, success, _ in ground.entries():
        if success:
            line = ground.line(f"{name}-{attempt}", "exit")
            assert line is not None
            assert line["exit_code"] == 0
    done = {f"{e[0]}-{e[1]}" for e in ground.entries() if e[2] and e[0] == "build"}
    assert done <= set(ground.ran("build"))
