"""What a body gets, how its end is told, and what limits it."""

import errno
import os
import random
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adw.errors import StoreError
from adw.supervise import procs
from tests.integration.supervise.room import DAEMON, STUBBORN, Room, dead
from tests.support.wait import until


def test_a_body_inherits_three_descriptors_its_own_environment_and_directory(room: Room) -> None:
    script = (
        "import os; print(sorted(int(f) for f in os.listdir('/proc/self/fd'))[:-1],"
        "os.getcwd(), sorted(os.environ), os.read(0, 9), os.getpgrp() == os.getpid(),"
        "open('/proc/self/status').read().count('SigBlk:\\t0000000000000000'))"
    )
    room.start("build-1", sys.executable, "-I", "-S", "-c", script, env={"LC_CTYPE": "C.UTF-8"})
    assert room.record("build-1").reason is None
    assert room.log("build-1").decode() == (
        f"[0, 1, 2] {room.path} ['ADW_CHILD', 'ADW_ID', 'LC_CTYPE', 'PATH', 'PLACE'] b'' True 1\n"
    )


def test_signals_that_supervisors_ignore_have_their_default_action_in_a_body(room: Room) -> None:
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ, signal.SIGTERM):
        child = f"build-{int(number)}"
        room.shell(child, f"kill -{int(number)} $$; sleep 1000")
        record = room.record(child)
        assert (record.reason, record.signal, record.exit_code) == ("signal", number, None)


def test_an_exit_code_is_told_as_it_is(room: Room) -> None:
    for code in (1, 2, 75, 77, 126, 127, 255):
        room.shell(f"build-{code}", f"exit {code}")
        record = room.record(f"build-{code}")
        assert (record.reason, record.exit_code, record.signal) == ("exit", code, None)
        assert record.started_at is not None
        assert record.started_at <= record.ended_at
        assert record.ended_at.endswith("Z")


def test_the_lines_of_an_attempt_name_supervisor_and_body(room: Room, mode: str) -> None:
    room.shell("build-1", "echo $$")
    room.record("build-1")
    launch, supervisor, body, exit_ = room.lines("build-1")
    assert launch["line"] == "launch"
    assert supervisor["boot_id"] == procs.boot_id()
    assert supervisor["session"] == supervisor["pid"]
    assert procs.is_alive(supervisor["pid"], supervisor["start_time"])
    assert os.readlink(f"/proc/{supervisor['pid']}/cwd") == "/"  # keeps no worktree busy
    assert bool(supervisor["cgroup"]) == (mode == "cgroup")
    assert body == {
        "line": "body",
        "pid": int(room.log("build-1")),
        "start_time": body["start_time"],
    }
    assert exit_["line"] == "exit"


@pytest.fixture
def limited(room: Room, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A group of the controller that the test names, with the room's nursery in it."""
    controller = str(request.param)
    home = _v1_group(controller)
    group = home / f"adw-test-{os.getpid()}"
    try:
        group.mkdir()
        (group / "cgroup.procs").write_text(str(os.getpid()))
    except OSError:
        pytest.skip(f"no writable {controller} group here: oom was NOT tested")
    try:
        assert room.local.tree_end
    finally:
        (home / "cgroup.procs").write_text(str(os.getpid()))
    yield group
    room.local.close()
    until(lambda: not (group / "cgroup.procs").read_text(), what="empty group")
    group.rmdir()


def _v1_group(controller: str) -> Path:
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return Path(f"/sys/fs/cgroup/{controller}{path}")
    return Path("/nowhere")


@pytest.mark.parametrize("limited", ["memory"], indirect=True)
def test_case_F27_an_oom_kill_is_told_from_a_plain_kill(room: Room, limited: Path) -> None:
    room.shell("build-1", "kill -9 $$")
    assert room.record("build-1").reason == "signal"
    (limited / "memory.limit_in_bytes").write_text(str(60 << 20))
    hog = f"import os; os.write(1, b'on'); x = b'x' * {200 << 20}"
    room.start("build-2", sys.executable, "-I", "-S", "-c", hog)
    record = room.record("build-2")
    assert (record.reason, record.signal) == ("oom", signal.SIGKILL)
    assert room.log("build-2") == b"on"


@pytest.mark.parametrize("limited", ["pids"], indirect=True)
def test_case_F29_a_machine_without_room_for_a_process_is_asked_again(
    room: Room, limited: Path
) -> None:
    (limited / "pids.max").write_text("2")
    room.start("build-1", "true")
    assert room.local.wait(0.3) == []
    (limited / "pids.max").write_text("20")
    assert room.record("build-1").reason is None


CANNOT_START = [
    (["no-such"], "cannot start `no-such`: No such file or directory (looked in PATH)"),
    (["./missing"], "cannot start `./missing`: No such file or directory"),
    (["./plain"], "cannot start `./plain`: Permission denied"),
    (["plain"], "cannot start `plain`: Permission denied (looked in PATH)"),
    (["./garbage"], "cannot start `./garbage`: Exec format error"),
    (["true", "x" * 200_000], "cannot start `true`: Argument list too long"),
    (["true", "a\0b"], "cannot start `true`: embedded null byte"),
    ([""], "cannot start ``: the name is empty"),
]


@pytest.mark.fault("F30", by="programs that are none, may not be started, or are missing")
def test_case_F16_F30_a_program_that_cannot_start_is_told_at_once(room: Room) -> None:
    (room.path / "plain").write_text("data")
    (room.path / "garbage").write_text("data")
    (room.path / "garbage").chmod(0o755)
    path = f"/nowhere:{os.environ['PATH']}:{room.path}"
    for n, (argv, told) in enumerate(CANNOT_START):
        room.start(f"build-{n}", *argv, env={"PATH": path})
        record = room.record(f"build-{n}", timeout_s=4)
        assert (record.reason, record.exit_code, record.signal) == ("spawn_failed", None, None)
        assert record.error == told
        assert room.line(f"build-{n}", "body") is None


def test_case_F16_a_missing_directory_is_told_at_once(room: Room) -> None:
    room.start("build-1", "true", cwd=str(room.path / "gone"))
    record = room.record("build-1", timeout_s=2)
    assert record.reason == "spawn_failed"
    assert record.error == f"cannot enter `{room.path}/gone`: No such file or directory"


@pytest.mark.fault("F30", by="a program that is open for writing")
def test_case_F30_a_program_that_is_being_written_is_tried_again(room: Room) -> None:
    program = room.path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    with program.open("ab"):
        with pytest.raises(OSError, match=os.strerror(errno.ETXTBSY)):
            os.posix_spawn(program, ["program"], {})
        room.start("build-1", "./program")
        assert room.local.wait(0.2) == []
    assert room.record("build-1").reason is None


@pytest.mark.sweep
def test_silence_ends_a_body_and_output_on_either_stream_is_no_silence(room: Room) -> None:
    talk = "echo a; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.1; echo $i >&2; done; sleep 1000"
    room.shell("build-1", talk, idle_timeout_s=0.9)
    record = room.record("build-1")
    assert record.reason == "idle"
    assert room.log("build-1") == b"a\n"
    assert room.log("build-1", "stderr").endswith(b"\n10\n")


@pytest.mark.sweep
def test_case_E1_E3_a_limit_ends_grandchildren_and_daemons_before_it_is_recorded(
    room: Room, mode: str
) -> None:
    room.shell("build-1", f"{DAEMON}{STUBBORN}touch ready; sleep 1000", timeout_s=1)
    record = room.record("build-1")
    assert (room.path / "ready").exists()
    assert (record.reason, record.survivors) == ("timeout", ())
    assert dead(room.pid("daemon"))
    assert dead(room.pid("stubborn"))


def test_case_F58_a_daemon_is_ended_although_the_body_succeeded(room: Room, mode: str) -> None:
    room.shell("build-1", DAEMON)
    record = room.record("build-1")
    assert (record.reason, record.survivors) == (None, ())
    assert dead(room.pid("daemon"))


def test_a_body_may_end_in_its_own_way_within_the_grace(room: Room, mode: str) -> None:
    text = "trap 'echo bye; exit 3' TERM; touch ready; while :; do sleep 0.02; done"
    room.shell("build-1", text, grace_s=20.0)
    until((room.path / "ready").exists)
    room.local.stop("build-1")
    record = room.record("build-1")
    assert (record.reason, record.exit_code) == ("stopped", 3)
    assert room.log("build-1") == b"bye\n"


def test_what_a_body_starts_to_clean_up_is_not_asked_to_end(room: Room, mode: str) -> None:
    cleaning = "sh -c 'sleep 0.3; echo clean'"
    text = f'trap "{cleaning}; exit 3" TERM; touch ready; while :; do sleep 0.02; done'
    room.shell("build-1", text, grace_s=20.0)
    until((room.path / "ready").exists)
    room.local.stop("build-1")
    assert room.record("build-1").exit_code == 3
    assert room.log("build-1") == b"clean\n"


@pytest.mark.sweep
@pytest.mark.timeout(300)
def test_a_child_that_is_born_as_the_stop_comes_does_not_cost_the_grace(
    room: Room, mode: str
) -> None:
    """It was 3 to 8 of 100 stops when TERM went to what one look had found."""
    dice = random.Random(mode)
    text = 'for i in 1 2 3 4 5 6 7 8 9 0; do sh -c "sleep 1000; true" & done; wait'
    slow = []
    for n in range(1, 101):
        room.shell(f"build-{n}", text, grace_s=5.0)
        room.await_line(f"build-{n}", "supervisor")
        time.sleep(dice.uniform(0, 0.05))  # any moment will do
        begun = time.monotonic()
        room.local.stop(f"build-{n}")
        room.record(f"build-{n}")
        slow += [n] if time.monotonic() - begun > 4.5 else []
    assert slow == [], f"{len(slow)} of 100"


@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.fault("F58", by="a daemon that is born as the body is killed")
def test_case_F58_a_daemon_that_is_born_while_it_is_looked_for_is_ended(
    room: Room, mode: str
) -> None:
    """A look at /proc alone missed it in some of a hundred bodies."""
    chain = (
        "w() { [ $1 -gt 0 ] || exec sh -c 'echo $$ >> daemons; exec sleep 1000';"
        " w $(($1 - 1)) & exit 0; }; "
    )
    for n in range(1, 101):
        room.shell(f"build-{n}", f"{chain} w {n % 20 + 1} & kill -9 $$")
        record = room.record(f"build-{n}")
        assert (record.signal, record.survivors) == (9, ())
        path = room.path / "daemons"
        born = path.read_text().split() if path.exists() else []
        assert [pid for pid in born if not dead(int(pid))] == [], n


def test_a_second_stop_ends_the_grace(room: Room) -> None:
    room.shell("build-1", f"{STUBBORN}touch ready; sleep 1000", grace_s=1000.0)
    until((room.path / "ready").exists)
    room.local.stop("build-1")
    assert room.local.wait(0.1) == []
    room.local.stop("build-1")
    assert room.record("build-1").reason == "stopped"
    assert dead(room.pid("stubborn"))


def test_a_stop_before_go_starts_no_body(room: Room) -> None:
    room.shell("build-1", "touch ran", go=False)
    room.local.stop("build-1")
    assert room.record("build-1").reason == "interrupted"
    assert not (room.path / "ran").exists()


def test_a_stopped_body_is_ended_as_well(room: Room, mode: str) -> None:
    room.shell("build-1", "kill -STOP $$", timeout_s=0.3)
    record = room.record("build-1")
    assert record.reason == "timeout"
    assert record.signal == signal.SIGTERM


def test_case_F61_a_grandchild_that_holds_the_pipe_delays_nothing(room: Room, mode: str) -> None:
    room.shell("build-1", "echo first; sleep 1000 & exit 4", grace_s=1000.0)
    record = room.record("build-1", timeout_s=3)
    assert (record.reason, record.exit_code) == ("exit", 4)
    assert room.log("build-1") == b"first\n"


# --- ensure ----------------------------------------------------------------------------------


def test_ensure_commands_run_after_success_and_add_to_the_logs(room: Room) -> None:
    room.shell("build-1", "echo body", ensure=(("sh", "-c", "echo one >&2"), ("echo", "two")))
    assert room.record("build-1").reason is None
    assert room.log("build-1") == b"body\ntwo\n"
    assert room.log("build-1", "stderr") == b"one\n"


def test_ensure_commands_do_not_run_after_a_failure(room: Room) -> None:
    room.shell("build-1", "exit 1", ensure=(("touch", "ensured"),))
    assert room.record("build-1").reason == "exit"
    assert not (room.path / "ensured").exists()


DOES_NOT_HOLD = [
    (["sh", "-c", "exit 9"], "contract", "`ensure` command `sh -c exit 9` exited with 9"),
    (
        ["sh", "-c", "kill -9 $$"],
        "contract",
        "`ensure` command `sh -c kill -9 $$` was ended by signal 9",
    ),
    (["sleep", "1000"], "timeout", "in `ensure` command `sleep 1000`"),
    (
        ["no-such"],
        "spawn_failed",
        "cannot start `no-such`: No such file or directory (looked in PATH)",
    ),
]


@pytest.mark.sweep
def test_an_ensure_command_that_does_not_hold_is_named(room: Room) -> None:
    for n, (command, reason, error) in enumerate(DOES_NOT_HOLD):
        more: dict[str, Any] = {"ensure": (("true",), tuple(command), ("touch", "later"))}
        limit_s = 1.0 if reason == "timeout" else 30.0
        room.shell(f"build-{n}", "true", timeout_s=limit_s, **more)
        record = room.record(f"build-{n}")
        assert (record.reason, record.exit_code, record.error) == (reason, 0, error)
        assert not (room.path / "later").exists()


# --- output ----------------------------------------------------------------------------------


def test_output_is_on_disk_while_the_body_runs(room: Room) -> None:
    room.shell("build-1", "echo now; while [ ! -e stop ]; do sleep 0.02; done")
    until(lambda: room.log("build-1") == b"now\n", what="first line")
    (room.path / "stop").touch()
    room.record("build-1")


def test_a_silent_body_leaves_no_log(room: Room) -> None:
    room.start("build-1", "true")
    room.record("build-1")
    assert sorted(os.listdir(room.path / "attempts/build-1")) == ["attempt.jsonl"]


def test_secrets_are_blotted_out_though_they_arrive_in_pieces(room: Room) -> None:
    text = (
        "printf 'a hunt'; sleep 0.1; printf 'er2! b\\n'; printf hunter2! | od -An -tx1 | tr -d ' '"
    )
    room.shell("build-1", text, redact=("hunter2!",))
    room.record("build-1")
    assert room.log("build-1") == b"a [redacted] b\n[redacted]\n"


@pytest.mark.fault("F60", by="50 MB, or 1 GiB, of output without a line end")
@pytest.mark.parametrize(
    "size", [50_000_000, pytest.param(1 << 30, marks=[pytest.mark.sweep, pytest.mark.timeout(200)])]
)
def test_case_F60_a_flood_is_capped_and_memory_stays_flat(room: Room, size: int) -> None:
    room.start("warm-1", "true")
    room.record("warm-1")
    supervisor = room.lines("warm-1")[1]["pid"]
    before = _rss_bytes(supervisor)
    flood = f"head -c {size} /dev/zero | tr '\\0' x; printf END"
    room.shell("build-1", flood, head_bytes=1 << 20, tail_bytes=1 << 18, timeout_s=180.0)
    assert room.record("build-1", timeout_s=180).reason is None
    assert room.lines("build-1")[1]["pid"] == supervisor

    log = room.log("build-1")
    head, mark, tail = log[: 1 << 20], log[1 << 20 :][:64], log[(1 << 20) + 64 :]
    assert head == b"x" * (1 << 20)
    assert 1 << 18 <= len(tail) <= (1 << 18) + 64
    assert tail.endswith(b"xxxEND")
    left_out = size + 3 - len(head) - len(tail)
    assert mark.strip() == f"[adw: {left_out} bytes left out here]".encode()
    assert _rss_bytes(supervisor) - before < 3 << 20
    assert _peak_rss_bytes(supervisor) - before < 3 << 20


def test_case_F16_a_log_that_cannot_be_written_stops_no_body(room: Room) -> None:
    room.path.joinpath("attempts/build-1/stdout.log").mkdir(parents=True)
    room.shell("build-1", "head -c 300000 /dev/zero; echo fine >&2; touch done")
    record = room.record("build-1")
    assert (room.path / "done").exists()
    assert record.reason is None
    assert record.error == "output is incomplete: `stdout.log`: Is a directory"
    assert room.log("build-1", "stderr") == b"fine\n"


# --- durability ------------------------------------------------------------------------------


def test_a_packet_that_cannot_be_synced_starts_no_body(room: Room) -> None:
    missing = str(room.path / "TASK.md")
    room.shell("build-1", "touch ran", go=False, sync_files=(missing,))
    with pytest.raises(StoreError) as caught:
        room.local.wait(5)
    assert caught.value.message == f"cannot write `{missing}`: No such file or directory"
    line = room.await_line("build-1", "exit")
    assert line["reason"] == "interrupted"
    assert not (room.path / "ran").exists()


def _rss_bytes(pid: int) -> int:
    pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


def _peak_rss_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) << 10
