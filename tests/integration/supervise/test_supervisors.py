"""The pool: who is reused, who is replaced, and what must never be signalled."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adw.store import files
from adw.supervise import procs
from tests.integration.supervise.room import DAEMON, REPOSITORY, Room, dead, kill
from tests.support.wait import until


def test_a_chain_is_served_by_one_supervisor(room: Room, mode: str) -> None:
    seen = set()
    for n in range(1, 9):
        room.start(f"build-{n}", "true")
        assert room.record(f"build-{n}").reason is None
        seen.add(room.lines(f"build-{n}")[1]["pid"])
    assert len(seen) == 1


def test_a_packet_may_be_handed_over_before_the_last_exit_line_is_durable(room: Room) -> None:
    room.start("build-1", "true")
    room.end("build-1")
    room.start("test-1", "true", go=False)
    room.local.await_durable(["build-1"])
    room.local.go("test-1")
    assert room.record("test-1").reason is None


@pytest.mark.sweep
def test_phases_that_run_at_once_have_a_supervisor_each(room: Room, mode: str) -> None:
    names = [f"p{n}-1" for n in range(6)]
    for name in names:
        room.shell(name, "while [ ! -e stop ]; do sleep 0.02; done")
    pids = {room.await_line(name, "supervisor")["pid"] for name in names}
    (room.path / "stop").touch()
    assert {room.record(name).reason for name in names} == {None}
    assert len(pids) == len(names)
    room.start("last-1", "true")
    room.record("last-1")
    assert room.lines("last-1")[1]["pid"] in pids


def test_a_tree_is_not_ended_with_another_ones(room: Room, mode: str) -> None:
    room.shell("p1-1", f"{DAEMON}touch ready; while [ ! -e stop ]; do sleep 0.02; done")
    until((room.path / "ready").exists)
    room.start("p2-1", "true")
    room.record("p2-1")
    assert not dead(room.pid("daemon"))
    (room.path / "stop").touch()
    room.record("p1-1")
    assert dead(room.pid("daemon"))


def test_a_byte_in_a_wake_descriptor_ends_a_wait(room: Room) -> None:
    from adw.supervise.local import LocalSupervision

    reader, writer = os.pipe()
    room.supervision = LocalSupervision(wake_fds=(reader,))
    room.shell("build-1", "sleep 0.3")
    os.write(writer, b"x")
    assert room.local.wait(None) == []
    os.read(reader, 1)
    assert len(room.local.wait(None)) == 1
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("point", ["shim.recorded", "shim.body_started", "shim.body_ended"])
def test_case_F3_a_supervisor_killed_before_its_exit_line_is_told_at_once(
    room: Room, mode: str, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADW_FAILPOINT", point)
    room.shell("build-1", "echo $$ > body; sleep 0.3")
    ended = room.end("build-1", timeout_s=2)
    assert ended.record is None
    assert not files.locked(room.jsonl("build-1"))
    assert room.local.end_tree("build-1", room.lines("build-1")).proved
    if point == "shim.recorded":
        assert not (room.path / "body").exists()


@pytest.mark.parametrize("point", ["shim.exit_written", "shim.exit_durable"])
def test_case_F8_a_supervisor_killed_after_its_exit_line_loses_nothing(
    room: Room, point: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADW_FAILPOINT", point)
    room.shell("build-1", "exit 5")
    ended = room.end("build-1")
    assert ended.record is not None
    assert ended.record.exit_code == 5
    room.local.await_durable(["build-1"])
    assert room.line("build-1", "exit") is not None


def test_a_killed_supervisors_whole_tree_is_ended(room: Room, mode: str) -> None:
    room.shell("build-1", f"{DAEMON}sleep 1000")
    daemon = room.pid("daemon")
    kill(room.await_line("build-1", "supervisor")["pid"])
    assert room.end("build-1", timeout_s=1).record is None
    end = room.local.end_tree("build-1", room.lines("build-1"))
    assert (end.proved, end.survivors) == (True, ())
    assert dead(daemon)
    room.start("build-2", "true")
    assert room.record("build-2").reason is None


def test_a_killed_nursery_harms_nobody_and_is_replaced(room: Room, mode: str) -> None:
    room.shell("p1-1", "while [ ! -e stop ]; do sleep 0.02; done; exit 3")
    nursery = room.await_line("p1-1", "supervisor")["nursery"]["pid"]
    kill(nursery)
    room.start("p2-1", "true")
    assert room.record("p2-1").reason is None
    assert room.await_line("p2-1", "supervisor")["nursery"]["pid"] != nursery
    (room.path / "stop").touch()
    assert room.record("p1-1").exit_code == 3


def test_an_idle_supervisor_that_was_killed_is_replaced(room: Room) -> None:
    room.start("p1-1", "true")
    room.record("p1-1")
    kill(room.lines("p1-1")[1]["pid"])
    room.start("p2-1", "true")
    assert room.record("p2-1").reason is None


def test_case_E6_F57_a_strangers_process_is_never_signalled(room: Room, mode: str) -> None:
    stranger = subprocess.Popen(["sleep", "1000"], cwd="/", start_new_session=True)
    try:
        seen = procs.look(stranger.pid)
        assert seen is not None
        folder = room.path / "attempts/build-1"
        fd = room.packet(room.spec("build-1", "true"))
        line = {
            "line": "supervisor",
            "pid": stranger.pid,
            "start_time": seen.start_time - 1,
            "session": stranger.pid,
            "boot_id": procs.boot_id(),
            "cgroup": None,
            "adw_id": room.adw_id,
            "child_id": "build-1",
            "attempt_dir": str(folder),
        }
        body = {"line": "body", "pid": stranger.pid, "start_time": seen.start_time - 1}
        # While the lock is held somebody lives: waited for, but never signalled by that number.
        assert room.local.adopt("build-1", str(folder), line)
        with pytest.raises(Exception, match="cannot be reached"):
            room.local.stop("build-1")
        os.close(fd)
        assert room.end("build-1").record is None
        end = room.local.end_tree("build-1", [line, body])
        assert (end.proved, end.survivors) == (False, ())
        assert not procs.send(stranger.pid, seen.start_time - 1, signal.SIGKILL)
        assert not dead(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.fault("F56", by="another boot id")
def test_case_F56_after_a_reboot_nothing_is_looked_for(room: Room) -> None:
    stranger = subprocess.Popen(["sleep", "1000"], cwd="/", start_new_session=True)
    try:
        seen = procs.look(stranger.pid)
        assert seen is not None
        line = {
            "line": "supervisor",
            "pid": stranger.pid,
            "start_time": seen.start_time,
            "boot_id": "another",
            "cgroup": "/sys/fs/cgroup",
        }
        assert room.local.end_tree("build-1", [line]).proved
        assert not dead(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


def test_no_interpreter_is_executed_and_all_is_synced_between_orchestrator_and_body(
    room: Room,
) -> None:
    if shutil.which("strace") is None:
        pytest.skip("apt-get install strace: this was NOT tested")
    trace = room.path / "trace"
    script = (
        "from adw.supervise import nursery; started = nursery.start()\n"
        "import pathlib\n"
        "from adw.supervise.local import LocalSupervision\n"
        "from tests.integration.supervise.room import Room\n"
        f"room = Room(pathlib.Path({str(room.path)!r}), LocalSupervision(started))\n"
        "for n in range(3):\n"
        "    room.start(f'p{n}-1', '/bin/true'); room.record(f'p{n}-1')\n"
        "room.supervision.close()\n"
    )
    subprocess.run(
        [
            "strace",
            "-f",
            "-qq",
            "-y",
            "-e",
            "trace=execve,fork,vfork,clone,clone3,fsync,fdatasync",
            "-o",
            trace,
            sys.executable,
            "-c",
            script,
        ],
        check=True,
        cwd=REPOSITORY,
        timeout=30,
    )
    text = trace.read_text()
    assert re.findall(r'execve\("([^"]+)"', text)[1:] == ["/bin/true"] * 3
    for n in range(3):
        folder = re.escape(f"{room.path}/attempts/p{n}-1")
        synced = re.findall(rf"(fsync|fdatasync)\(\d+<{folder}(/attempt.jsonl)?>", text)
        assert synced == [
            ("fsync", "/attempt.jsonl"),
            ("fsync", ""),
            ("fdatasync", "/attempt.jsonl"),
        ]
    forks = [line for line in text.splitlines() if re.search(r" (clone|clone3|fork)\(", line)]
    plain = [line for line in forks if "CLONE_VFORK" not in line]
    assert len(plain) == 2, plain  # the nursery, and one supervisor for the whole chain


@pytest.mark.sweep
def test_eight_waiting_supervisors_are_small(room: Room) -> None:
    names = [f"p{n}-1" for n in range(8)]
    for name in names:
        room.shell(name, "while [ ! -e stop ]; do sleep 0.05; done")
    pids = [room.await_line(name, "supervisor")["pid"] for name in names]
    for name in names:
        room.await_line(name, "body")
    sizes = [_pss_bytes(pid) / (1 << 20) for pid in pids]
    (room.path / "stop").touch()
    for name in names:
        room.record(name)
    print(f"PSS of waiting supervisors, MB: {[round(size, 2) for size in sizes]}")
    assert sum(sizes) / len(sizes) < 3.0  # benchmarks hold the exact goal


def _pss_bytes(pid: int) -> int:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024
