"""A phase outlives its orchestrator."""

import os
import signal

import pytest

from adw.store import files
from tests.integration.supervise.room import DAEMON, STUBBORN, Room, dead, kill
from tests.support.wait import until

WAITS = "echo $$ > body; while [ ! -e stop ]; do sleep 0.02; done; exit 7"


@pytest.mark.parametrize("disable", ["", "pidfd", "ofd", "subreaper", "cgroup,pidfd,subreaper,ofd"])
def test_a_killed_orchestrators_phase_is_adopted_by_a_stranger(
    room: Room, disable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADW_DISABLE", disable)
    other = room.orchestrate("build-1", WAITS)
    body = room.pid("body")
    other.kill()
    assert files.locked(room.jsonl("build-1"))
    assert not dead(body)

    line = room.await_line("build-1", "supervisor")
    assert room.local.adopt("build-1", str(room.path / "attempts/build-1"), line)
    assert room.local.wait(0.05) == []
    (room.path / "stop").touch()
    ended = room.end("build-1")

    assert ended.adopted
    assert ended.record is not None
    assert (ended.record.reason, ended.record.exit_code) == ("exit", 7)
    room.local.await_durable(["build-1"])
    assert not files.locked(room.jsonl("build-1"))


def test_a_phase_that_ends_without_orchestrator_leaves_its_exit_line(room: Room, mode: str) -> None:
    other = room.orchestrate("build-1", WAITS)
    room.pid("body")
    other.kill()
    (room.path / "stop").touch()
    until(lambda: not files.locked(room.jsonl("build-1")), what="free lock")

    line = room.line("build-1", "exit")
    assert line is not None
    assert (line["reason"], line["exit_code"]) == ("exit", 7)
    supervisor = room.line("build-1", "supervisor")
    assert supervisor is not None
    assert supervisor["tree_end"] == mode
    assert not room.local.adopt("build-1", str(room.path / "attempts/build-1"), supervisor)
    until(lambda: dead(other.nursery), what="the nursery's leave")


def test_case_F5_an_orchestrator_killed_before_go_starts_no_body(room: Room, mode: str) -> None:
    other = room.orchestrate("build-1", "touch ran", go=False)
    room.await_line("build-1", "supervisor")
    other.kill()
    line = room.await_line("build-1", "exit")

    assert line["reason"] == "interrupted"
    assert line["started_at"] is None
    until(lambda: not files.locked(room.jsonl("build-1")), what="free lock")
    assert not (room.path / "ran").exists()
    assert room.line("build-1", "body") is None


def test_ctrl_c_and_hangup_of_the_terminal_do_not_reach_a_phase(room: Room) -> None:
    other = room.orchestrate("build-1", WAITS)
    supervisor = room.await_line("build-1", "supervisor")["pid"]
    body = room.pid("body")
    for number in (signal.SIGINT, signal.SIGHUP):
        os.kill(supervisor, number)
        os.kill(other.nursery, number)
    (room.path / "stop").touch()
    assert room.await_line("build-1", "exit")["exit_code"] == 7
    assert os.getsid(0) not in {supervisor, body}
    other.kill()


@pytest.mark.sweep
def test_case_E1_E3_F59_the_time_limit_holds_without_an_orchestrator(room: Room, mode: str) -> None:
    text = f"{DAEMON}{STUBBORN}echo ready > ready; sleep 1000"
    other = room.orchestrate("build-1", text, timeout_s=1.0)
    room.await_line("build-1", "body")
    other.kill()
    line = room.await_line("build-1", "exit")

    assert (room.path / "ready").exists()
    assert line["reason"] == "timeout"
    assert line["survivors"] == []
    assert dead(room.pid("daemon"))
    assert dead(room.pid("stubborn"))


@pytest.mark.fault("F9", by="SIGSTOP of the supervisor")
@pytest.mark.sweep
def test_case_F9_a_stopped_supervisor_is_not_lost_and_can_be_cancelled(
    room: Room, mode: str
) -> None:
    other = room.orchestrate("build-1", WAITS)
    body = room.pid("body")
    line = room.await_line("build-1", "supervisor")
    os.kill(line["pid"], signal.SIGSTOP)
    other.kill()

    assert room.local.adopt("build-1", str(room.path / "attempts/build-1"), line)
    assert room.local.wait(0.3) == []
    room.local.stop("build-1")
    ended = room.end("build-1")

    assert ended.record is not None
    assert ended.record.reason == "stopped"
    assert dead(body)


def test_stopping_an_adopted_phase_ends_its_daemon_too(room: Room, mode: str) -> None:
    other = room.orchestrate("build-1", f"{DAEMON}sleep 1000")
    daemon = room.pid("daemon")
    line = room.await_line("build-1", "supervisor")
    other.kill()
    assert room.local.adopt("build-1", str(room.path / "attempts/build-1"), line)
    room.local.stop("build-1")
    ended = room.end("build-1")
    assert ended.record is not None
    assert ended.record.reason == "stopped"
    assert dead(daemon)


def test_wait_wakes_at_once_when_an_adopted_supervisor_is_killed(room: Room, mode: str) -> None:
    other = room.orchestrate("build-1", f"{DAEMON}sleep 1000")
    daemon = room.pid("daemon")
    line = room.await_line("build-1", "supervisor")
    other.kill()
    assert room.local.adopt("build-1", str(room.path / "attempts/build-1"), line)
    os.kill(line["pid"], signal.SIGKILL)
    ended = room.end("build-1", timeout_s=1)
    assert ended.record is None

    end = room.local.end_tree("build-1", room.lines("build-1"))
    assert end.proved
    assert end.survivors == ()
    assert dead(daemon)


def test_the_nursery_outlives_its_orchestrator_and_ends_a_killed_supervisors_tree(
    room: Room, mode: str
) -> None:
    other = room.orchestrate("build-1", f"{DAEMON}{STUBBORN}echo $$ > body; sleep 1000")
    body, daemon, stubborn = room.pid("body"), room.pid("daemon"), room.pid("stubborn")
    line = room.await_line("build-1", "supervisor")
    other.kill()
    os.kill(line["pid"], signal.SIGKILL)

    until(lambda: dead(body) and dead(daemon) and dead(stubborn), what="death of the tree")
    assert room.await_line("build-1", "tree") == {"line": "tree", "proved": True, "survivors": []}
    until(lambda: dead(other.nursery), what="the nursery's leave")
    assert room.local.end_tree("build-1", room.lines("build-1")).proved


def test_with_nursery_and_supervisor_killed_a_cgroup_proves_and_a_tag_does_not(
    room: Room, mode: str
) -> None:
    other = room.orchestrate("build-1", f"{DAEMON}{STUBBORN}echo $$ > body; sleep 1000")
    body, daemon, stubborn = room.pid("body"), room.pid("daemon"), room.pid("stubborn")
    line = room.await_line("build-1", "supervisor")
    kill(other.nursery)
    other.kill()
    kill(line["pid"])
    assert not room.local.adopt("build-1", str(room.path / "attempts/build-1"), line)

    end = room.local.end_tree("build-1", room.lines("build-1"))
    assert end.survivors == ()
    assert dead(body)
    assert dead(stubborn)
    assert end.proved == (mode == "cgroup")
    if mode == "cgroup":
        assert dead(daemon)
        assert not os.path.exists(line["cgroup"])
    else:
        kill(daemon)  # what tag cannot find, and therefore does not promise
