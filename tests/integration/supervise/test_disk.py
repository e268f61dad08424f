"""A limit on what a run keeps on disk: what reaches it, and what a supervisor does about it."""

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from adw.supervise import procs
from tests.integration.supervise.room import STUBBORN, Room
from tests.support.wait import until

LIMIT = 20 << 20
MIB = "head -c 1048576 /dev/zero"


@pytest.fixture
def roots(room: Room) -> tuple[tuple[str, str], ...]:
    """A worktree and a run's directory within the room."""
    found = (
        ("the worktree", str(room.path / "tree")),
        ("the run's directory", str(room.path / "run")),
    )
    for _, path in found:
        os.makedirs(path)
    return found


Roots = tuple[tuple[str, str], ...]


@pytest.mark.fault("F14", by="a body that writes without end, a disk limit of 20 MiB")
@pytest.mark.hostile("H42")
def test_a_body_that_fills_the_disk_is_ended_as_a_tree(room: Room, roots: Roots) -> None:
    text = f"{STUBBORN} mkdir -p tree/cache; while :; do {MIB}; done > tree/cache/fill"
    room.shell("build-1", text, disk_bytes=LIMIT, disk_roots=roots)

    found = room.record("build-1")

    assert (found.reason, found.survivors) == ("disk", ())
    size = (room.path / "tree/cache/fill").stat().st_size
    assert LIMIT < size < 50 * LIMIT  # 0.5 s of writing, where the disk takes 2 GB a second
    told = str(found.error)
    assert told.startswith("the run keeps ")
    assert " on disk, `disk` allows 20M; " in told
    way_out = "remove what is not needed, or raise `disk`"
    assert told.endswith(f" of it are in `cache` in the worktree; {way_out}")
    until(lambda: procs.look(room.pid("stubborn")) is None, what="end of the tree")


@pytest.mark.hostile("H42")
@pytest.mark.parametrize("code", [0, 3])
def test_a_body_over_the_limit_has_failed_though_it_was_faster_than_any_look(
    room: Room, roots: Roots, code: int
) -> None:
    text = f"mkdir -p run/children/build-1; for i in $(seq 24); do {MIB}; done > run/children/build-1/x; exit {code}"
    room.shell("build-1", text, disk_bytes=LIMIT, disk_roots=roots)

    found = room.record("build-1")

    assert (found.reason, found.exit_code) == ("disk", code)
    assert found.error == (
        "the run keeps 24M on disk, `disk` allows 20M; 24M of it are in `children/build-1` in the"
        " run's directory; remove what is not needed, or raise `disk`"
    )


def test_what_ensure_writes_counts_and_what_was_removed_does_not(room: Room, roots: Roots) -> None:
    write = f"for i in $(seq 24); do {MIB}; done > tree/x"
    room.shell("build-1", f"{write}; rm tree/x", disk_bytes=LIMIT, disk_roots=roots)
    assert room.record("build-1").reason is None

    ensure = (("sh", "-c", write),)
    room.shell("build-2", "true", disk_bytes=LIMIT, disk_roots=roots, ensure=ensure)
    found = room.record("build-2")
    assert (found.reason, found.exit_code) == ("disk", 0)
    assert str(found.error).endswith(
        "in the worktree itself; remove what is not needed, or raise `disk`"
    )


def test_other_names_of_a_file_and_holes_take_nothing(room: Room, roots: Roots) -> None:
    text = (
        f"for i in $(seq 12); do {MIB}; done > tree/x; ln tree/x tree/y; ln tree/x run/z;"
        "truncate -s 1G tree/holes; ln -s / tree/all"
    )
    room.shell("build-1", text, disk_bytes=LIMIT, disk_roots=roots)
    assert room.record("build-1").reason is None


def test_a_root_within_another_counts_once(room: Room, roots: Roots) -> None:
    within = (*roots, ("all", str(room.path)))
    room.shell(
        "build-1",
        f"for i in $(seq 12); do {MIB}; done > tree/x",
        disk_bytes=LIMIT,
        disk_roots=within,
    )
    assert room.record("build-1").reason is None


@pytest.mark.sweep
def test_a_slow_writer_is_found_while_it_runs(room: Room, roots: Roots) -> None:
    """What the disks have free tells nothing where as much is freed elsewhere."""
    text = f"for i in $(seq 24); do {MIB}; done > tree/x; rm .other; touch written; sleep 60"
    with (room.path / ".other").open("wb") as file:
        for _ in range(30):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
    begun = time.monotonic()
    room.shell("build-1", text, disk_bytes=LIMIT, disk_roots=roots)
    assert room.record("build-1", timeout_s=8).reason == "disk"
    assert time.monotonic() - begun < 5  # the first walk


@pytest.mark.fault("F14", by="a body that fills a disk beyond its reserve")
def test_a_disk_that_has_less_left_than_its_reserve_ends_the_body(room: Room, roots: Roots) -> None:
    free = shutil.disk_usage(room.path).free
    room.shell(
        "build-1", "sleep 60", disk_bytes=LIMIT, disk_roots=roots, disk_reserve=free + (10 << 30)
    )
    found = room.record("build-1", timeout_s=5)
    assert found.reason == "disk"
    assert " are free on the disk of " in str(found.error)
    assert str(found.error).endswith("; `adw gc` removes runs that are over")


@pytest.mark.sweep
def test_a_fast_writer_is_found_long_before_the_next_walk(room: Room, roots: Roots) -> None:
    text = f"sleep 1.3; touch begun; while :; do {MIB}; done > tree/fill"
    room.shell("build-1", text, disk_bytes=LIMIT, disk_roots=roots)
    until((room.path / "begun").exists, what="the first byte")
    begun = time.monotonic()
    assert room.record("build-1").reason == "disk"
    assert time.monotonic() - begun < 3  # walks are ten seconds apart


@pytest.mark.sweep
def test_without_a_limit_a_supervisor_sleeps(room: Room, roots: Roots) -> None:
    """And with one it wakes twice a second, for microseconds."""
    for number, limit in enumerate((None, LIMIT)):
        child = f"build-{number + 1}"
        room.shell(child, "sleep 60", disk_bytes=limit, disk_roots=roots, timeout_s=None)
        room.await_line(child, "body")
        pid = room.await_line(child, "supervisor")["pid"]
        time.sleep(0.2)
        before = wakes(pid)
        time.sleep(1.1)
        woken = wakes(pid) - before
        assert woken == 0 if limit is None else 1 <= woken <= 8
        room.local.stop(child)
        room.record(child)


@pytest.mark.fault("F14", by="a disk that is filled after SIGKILL of the orchestrator")
def test_the_limit_holds_without_an_orchestrator(room: Room, roots: Roots) -> None:
    text = f"until [ -e go ]; do sleep 0.01; done; while :; do {MIB}; done > tree/fill"
    other = room.orchestrate("build-1", text, disk_bytes=LIMIT, disk_roots=roots)
    room.await_line("build-1", "body")
    other.kill()
    (room.path / "go").touch()
    assert room.await_line("build-1", "exit")["reason"] == "disk"


def test_a_killed_supervisor_that_measured_leaves_nothing(room: Room, roots: Roots) -> None:
    room.shell("build-1", "echo $$ > body; sleep 100", disk_bytes=LIMIT, disk_roots=roots)
    body = room.pid("body")
    os.kill(room.await_line("build-1", "supervisor")["pid"], signal.SIGKILL)
    until(lambda: procs.look(body) is None, what="death of the body")


def wakes(pid: int) -> int:
    """How often a process was put to sleep by its own wish."""
    text = Path(f"/proc/{pid}/status").read_text()
    return int(text.split("\nvoluntary_ctxt_switches:")[1].split()[0])
