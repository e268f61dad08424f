"""The orchestrator is killed while a phase runs: the phase lives on and is adopted."""

import json
import os
import select
import signal
import subprocess

import pytest

from tests.faults.conftest import MakeGround, disable
from tests.support.ground import WAIT, Done, Ground, dead, free_after_s, phase
from tests.support.wait import until

FREE_S = 0.1


def kill_while_it_waits(ground: Ground) -> int:
    """Run, kill the orchestrator while `build` waits; the pid of its body."""
    process = ground.start("run", "w", "47")
    body = ground.pid()
    process.kill()
    process.wait()
    assert free_after_s(ground.run_dir) < FREE_S
    assert sees_end_of_file(process)
    assert not dead(body)
    return body


def sees_end_of_file(process: "subprocess.Popen[bytes]") -> bool:
    """Whether nobody holds the write end of the killed process's stdout any more."""
    assert process.stdout is not None
    poll = select.poll()
    poll.register(process.stdout, select.POLLIN)
    while poll.poll(1000):
        if not process.stdout.read1(1 << 16):  # type: ignore[attr-defined]
            return True
    return False


@pytest.fixture
def ground(make_ground: MakeGround, mode: str) -> Ground:
    phases = {
        "plan": phase("true"),
        "build": phase(f"{WAIT}; exit 7", needs=["plan"]),
        "test": phase("true", needs=["build"]),
    }
    return make_ground(phases, env=disable(mode))


@pytest.mark.fault("F2", by="SIGKILL while a phase runs")
@pytest.mark.sweep
def test_ST_14_a_phase_lives_on_and_is_adopted_with_its_true_exit_status(
    ground: Ground, mode: str
) -> None:
    body = kill_while_it_waits(ground)

    view = ground.status(ground.adw_id)
    assert view["status"] == "interrupted"
    assert view["next_action"] == f"adw resume {ground.adw_id}"
    assert view["living"] == [{"child_id": "build-1", "pid": body}]
    assert view["tree_end"] == mode
    assert [p["status"] for p in view["phases"]] == ["done", "running", "pending"]

    resumed = ground.start("resume", ground.adw_id, "--json")
    until(lambda: ground.events("child_adopted"), what="adoption")
    ground.go()
    done = Done.of(resumed)

    assert done.exit_code == 1, done.told()
    attempt = json.loads(done.stdout)["phases"][1]["attempts"][0]
    assert (attempt["adopted"], attempt["exit_code"], attempt["reason"]) == (True, 7, "exit")
    assert_once(ground)


@pytest.mark.fault("F2", "F8", by="SIGKILL while a phase runs")
@pytest.mark.sweep
def test_case_B14_a_phase_that_ends_while_nobody_watches_is_recorded_and_not_repeated(
    ground: Ground,
) -> None:
    kill_while_it_waits(ground)
    ground.go()
    ground.await_line("build-1", "exit")
    ground.all_gone()
    assert ground.status(ground.adw_id)["status"] == "interrupted"

    done = ground.adw("resume", ground.adw_id, "--json")

    assert done.exit_code == 1, done.told()
    attempt = json.loads(done.stdout)["phases"][1]["attempts"][0]
    assert (attempt["adopted"], attempt["exit_code"], attempt["reason"]) == (True, 7, "exit")
    assert_once(ground)


def assert_once(ground: Ground) -> None:
    assert ground.entries() == [("plan", 1, True, None), ("build", 1, False, "exit")]
    assert ground.ran("plan") == ["plan-1"]
    assert ground.ran("build") == ["build-1"]
    assert ground.ran("test") == []
    completed = [(e["child_id"], e["exit_code"]) for e in ground.events("child_completed")]
    assert completed == [("plan-1", 0), ("build-1", 7)]
    assert [e["child_id"] for e in ground.events("child_adopted")] == ["build-1"]
    ground.all_gone()


def test_case_B14_exit_0_while_nobody_watches_lets_the_rest_run(make_ground: MakeGround) -> None:
    ground = make_ground({"build": phase(WAIT), "test": phase("true", needs=["build"])})
    kill_while_it_waits(ground)
    ground.go()
    ground.await_line("build-1", "exit")
    ground.ok("resume")
    assert ground.entries() == [("build", 1, True, None), ("test", 1, True, None)]
    assert (ground.ran("build"), ground.ran("test")) == (["build-1"], ["test-1"])


@pytest.mark.sweep
def test_case_B3_a_killed_run_needs_no_unlocking_and_a_new_run_of_its_issue_is_possible(
    make_ground: MakeGround,
) -> None:
    ground = make_ground({"build": phase(WAIT)})
    kill_while_it_waits(ground)
    first = ground.adw_id

    # Its phase lives, so another run of the issue would work beside it.
    busy = ground.adw("run", "w", "47")
    assert busy.exit_code == 5, busy.told()
    assert first in busy.stderr

    ground.go()
    ground.await_line("build-1", "exit")
    ground.all_gone()
    assert ground.status(first)["status"] == "interrupted"
    ground.ok("run", "w", "47")
    assert len(ground.ids()) == 2
    ground.ok("resume", first)
    statuses = [run["status"] for run in ground.status()["runs"]]
    assert statuses == ["succeeded", "succeeded"]


@pytest.mark.sweep
def test_case_B4_resume_is_refused_while_the_owner_lives_and_accepted_when_it_is_dead(
    make_ground: MakeGround,
) -> None:
    ground = make_ground({"build": phase(WAIT)})
    owner = ground.start("run", "w", "47")
    ground.pid()

    refused = ground.adw("resume", ground.adw_id)
    assert refused.exit_code == 5, refused.told()
    assert f"process {owner.pid} (`adw run w`)" in refused.stderr

    owner.kill()
    owner.wait()
    ground.go()
    ground.ok("resume", ground.adw_id)
    assert ground.ran("build") == ["build-1"]


@pytest.mark.fault("F2", by="SIGKILL while a phase runs")
def test_case_B5_a_run_killed_in_its_third_phase_goes_on_there(make_ground: MakeGround) -> None:
    ground = make_ground(
        {
            "one": phase("true"),
            "two": phase("true", needs=["one"]),
            "three": phase(WAIT, needs=["two"]),
        }
    )
    process = ground.start("run", "w", "47")
    body = ground.pid()
    assert ground.entries() == [("one", 1, True, None), ("two", 1, True, None)]
    supervisor = ground.await_line("three-1", "supervisor")["pid"]
    # The stalled phase is killed with all who watch it, as an operator does.
    for pid in (process.pid, supervisor):
        kill_now(pid)
    process.wait()
    until(lambda: dead(body), what="end of the stalled phase")
    ground.go()
    ground.ok("resume", ground.adw_id)

    assert (ground.ran("one"), ground.ran("two")) == (["one-1"], ["two-1"])
    assert ground.ran("three") == ["three-1", "three-2"]
    assert ground.entries()[2:] == [("three", 1, False, "lost"), ("three", 2, True, None)]


@pytest.mark.sweep
def test_case_B7_a_plain_run_never_continues_an_old_one(make_ground: MakeGround) -> None:
    ground = make_ground({"build": phase('[ -e "$GROUND/go" ]')})
    assert ground.adw("run", "w", "47").exit_code == 1
    first = ground.adw_id
    before = (ground.run_dir / "adw_state.json").read_bytes()
    ground.go()
    ground.ok("run", "w", "47")

    second = next(name for name in ground.ids() if name != first)
    assert (ground.agents / first / "adw_state.json").read_bytes() == before
    assert ground.status(first)["status"] == "failed"
    assert ground.status(second)["status"] == "succeeded"
    assert ground.ran("build") == ["build-1", "build-1"]


@pytest.mark.sweep
def test_case_B15_half_an_output_of_a_killed_phase_is_no_success(make_ground: MakeGround) -> None:
    text = (
        f'echo half > made.txt; if [ "$ADW_ATTEMPT" = 1 ]; then {WAIT}; fi; echo whole > made.txt'
    )
    ground = make_ground({"build": phase(text), "test": phase("true", needs=["build"])})
    process = ground.start("run", "w", "47")
    body = ground.pid()
    kill_now(process.pid)
    process.wait()
    kill_now(ground.await_line("build-1", "supervisor")["pid"])
    until(lambda: dead(body), what="end of the body")
    assert ground.entries() == []

    ground.ok("resume", ground.adw_id)
    assert ground.entries() == [
        ("build", 1, False, "lost"), ("build", 2, True, None), ("test", 1, True, None)
    ]  # fmt: skip


@pytest.mark.sweep
def test_case_K1_two_runs_never_share_a_worktree(make_ground: MakeGround) -> None:
    ground = make_ground(
        {
            "build": phase(f"{WAIT}; echo $ADW_ID > made.txt"),
            "c": {"use": "commit", "needs": ["build"]},
        }
    )
    first = ground.start("run", "w", "47")
    ground.pid()
    refused = ground.adw("run", "w", "47")
    assert refused.exit_code == 5, refused.told()
    assert ground.adw_id in refused.stderr

    second = ground.start("run", "w", "48")
    until(lambda: len(ground.ran("build")) == 2, what="two bodies")
    ground.go()
    assert [Done.of(p).exit_code for p in (first, second)] == [0, 0]
    states = [ground.status(name)["state"] for name in ground.ids()]
    for key in ("worktree_path", "branch_name", "backend_port", "frontend_port"):
        assert len({state[key] for state in states}) == 2
    for state in states:
        shown = ground.repo.git("show", f"{state['branch_name']}:made.txt")
        assert shown == state["adw_id"]


def kill_now(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
