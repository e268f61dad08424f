"""F9: a process of adw that was stopped is told by name, and goes on as if nothing had been."""

import os
import signal

import pytest

from adw.supervise import procs
from tests.faults.conftest import MakeGround
from tests.support.ground import WAIT, Done, Ground, Process, phase
from tests.support.wait import until


def waiting(make_ground: MakeGround) -> tuple[Ground, Process, dict[str, int]]:
    ground = make_ground({"build": phase(WAIT), "test": phase("true", needs=["build"])})
    run = ground.start("run", "w", "47")
    ground.pid()
    line = ground.await_line("build-1", "supervisor")
    pids = {"adw": run.pid, "supervisor": line["pid"], "nursery": line["nursery"]["pid"]}
    return ground, run, pids


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGSTOP)
    until(lambda: (seen := procs.look(pid)) is not None and seen.state == "T", what="the stop")


@pytest.mark.fault("F9", by="SIGSTOP of orchestrator, nursery or supervisor")
def test_P4_who_stands_still_is_told_with_the_way_on(make_ground: MakeGround) -> None:
    ground, run, pids = waiting(make_ground)
    assert ground.status(ground.adw_id)["stopped"] == []
    words = {"adw": "adw", "supervisor": "the supervisor of build-1", "nursery": "the nursery"}
    for pid in pids.values():
        stop(pid)

    view = ground.status(ground.adw_id)
    text = ground.ok("status", ground.adw_id).stdout

    assert view["status"] == "running"
    assert view["stopped"] == [
        {"process": name, "child_id": "build-1" if name == "supervisor" else None, "pid": pid}
        for name, pid in pids.items()
    ]
    assert text.endswith(
        "\n\n"
        + "".join(
            f"{words[name]} stands still: process {pid} is stopped\n  hint: kill -CONT {pid}\n"
            for name, pid in pids.items()
        )
    )

    for pid in pids.values():
        os.kill(pid, signal.SIGCONT)
    until(lambda: ground.status(ground.adw_id)["stopped"] == [], what="all to go on")
    ground.go()
    assert Done.of(run).exit_code == 0
    assert ground.entries() == [("build", 1, True, None), ("test", 1, True, None)]


@pytest.mark.sweep
@pytest.mark.fault("F9", by="SIGSTOP of a supervisor whose orchestrator was killed")
def test_P5_a_supervisor_that_stands_still_is_told_without_an_orchestrator_too(
    make_ground: MakeGround,
) -> None:
    ground, run, pids = waiting(make_ground)
    run.kill()
    stop(pids["supervisor"])

    view = ground.status(ground.adw_id)

    assert (view["status"], [each["child_id"] for each in view["living"]]) == (
        "interrupted",
        ["build-1"],
    )
    assert [each["process"] for each in view["stopped"]] == ["supervisor"]
    ground.ok("cancel", ground.adw_id)
    assert ground.status(ground.adw_id)["stopped"] == []
    ground.all_gone()
