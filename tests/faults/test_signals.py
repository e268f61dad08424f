"""Signals to the orchestrator: the first asks, the second leaves at once, a hang-up is nothing."""

import os
import signal

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import WAIT, Done, Ground, Process, dead, phase
from tests.support.wait import until

STUBBORN = f'if [ "$ADW_ATTEMPT" = 1 ]; then trap "" TERM; {WAIT}; fi'
BOTH = pytest.mark.parametrize(
    ("number", "exit_code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)


def running(make_ground: MakeGround, text: str = WAIT) -> tuple[Ground, Process, int]:
    ground = make_ground({"build": phase(text), "test": phase("true", needs=["build"])})
    process = ground.start("run", "w", "47")
    body = ground.pid()
    ground.await_line("build-1", "body")
    return ground, process, body


@pytest.mark.fault("F10", by="the signal")
@pytest.mark.sweep
@BOTH
def test_case_E14_the_first_signal_ends_the_phase_and_records_it_interrupted(
    make_ground: MakeGround, number: int, exit_code: int
) -> None:
    ground, process, body = running(make_ground)
    process.send_signal(number)
    done = Done.of(process)

    assert done.exit_code == exit_code, done.told()
    assert dead(body)
    assert ground.entries() == [("build", 1, False, "interrupted")]
    view = ground.status(ground.adw_id)
    assert (view["status"], view["living"]) == ("interrupted", [])
    assert view["next_action"] == f"adw resume {ground.adw_id}"
    ground.go()
    ground.ok("resume", ground.adw_id)
    assert ground.entries()[1:] == [("build", 2, True, None), ("test", 1, True, None)]


@pytest.mark.fault("F11", by="two signals")
@pytest.mark.sweep
@BOTH
def test_case_E14_the_second_signal_leaves_at_once_and_the_run_is_resumable(
    make_ground: MakeGround, number: int, exit_code: int
) -> None:
    ground, process, body = running(make_ground, STUBBORN)
    process.send_signal(number)
    # Its phase ignores SIGTERM, so the first signal has to wait for the grace to pass.
    until(lambda: not fresh(process), what="the first signal to be taken up")
    process.send_signal(number)
    done = Done.of(process, timeout_s=2)

    assert done.exit_code == exit_code, done.told()
    assert ground.entries() == []
    assert not dead(body)
    ground.go()
    ground.ok("resume", ground.adw_id)
    assert [entry[0] for entry in ground.entries() if entry[2]] == ["build", "test"]
    assert len(ground.ran("build")) <= 2
    ground.all_gone()


def fresh(process: Process) -> bool:
    """Whether a signal still waits to be handled."""
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        pending = [line.split()[1] for line in file if line.startswith(("SigPnd", "ShdPnd"))]
    return any(int(mask, 16) for mask in pending)


@pytest.mark.fault("F10", by="the signal")
def test_a_hang_up_changes_nothing(make_ground: MakeGround) -> None:
    ground, process, _ = running(make_ground)
    process.send_signal(signal.SIGHUP)
    supervisor = ground.await_line("build-1", "supervisor")
    for pid in (supervisor["pid"], supervisor["nursery"]["pid"]):
        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGINT)
    ground.go()
    assert Done.of(process).exit_code == 0
    assert ground.entries() == [("build", 1, True, None), ("test", 1, True, None)]


def test_a_signal_to_an_orchestrator_that_adopted_ends_the_phase_too(
    make_ground: MakeGround,
) -> None:
    ground, process, body = running(make_ground)
    process.kill()
    process.wait()
    resumed = ground.start("resume", ground.adw_id)
    until(lambda: ground.events("child_adopted"), what="adoption")
    resumed.send_signal(signal.SIGTERM)
    assert Done.of(resumed).exit_code == 143
    assert dead(body)
    assert ground.entries() == [("build", 1, False, "interrupted")]


def test_a_signal_while_the_run_waits_leaves_at_once(make_ground: MakeGround) -> None:
    retry = {"attempts": 2, "delay": "1h", "max_delay": "1h", "on": ["exit"]}
    ground = make_ground({"build": phase("false", retry=retry)})
    process = ground.start("run", "w", "47")
    until(lambda: ground.ids() and ground.events("child_completed"), what="the failure")
    process.send_signal(signal.SIGTERM)
    assert Done.of(process, timeout_s=5).exit_code == 143
    assert ground.entries() == [("build", 1, False, "exit")]
    assert ground.status(ground.adw_id)["status"] == "interrupted"
