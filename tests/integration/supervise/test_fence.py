"""Limits on memory and processes of a body: what reaches them, and what is left of them."""

import os
import signal
import sys

import pytest

from adw.model.workflow import MIN_MEMORY
from adw.supervise import cgroups, fence, procs
from tests.integration.supervise.room import Room
from tests.support.wait import until

HOG = f"{sys.executable} -I -S -c 'x = bytearray(300 << 20); x[::4096] = bytes(len(x[::4096]))'"
LIMIT = 60 << 20
MANY = "i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i + 1)); done; echo all"


@pytest.fixture(autouse=True)
def _offered() -> None:
    if lacking := fence.missing():
        pytest.skip(f"no control group with {', '.join(lacking)} here: fences were NOT tested")


def groups(room: Room) -> list[str]:
    """Fences of this room's nursery; other tests may have theirs beside them at the same time."""
    nursery = room.await_line("build-1", "supervisor")["nursery"]
    prefix = cgroups.name_of(nursery["pid"], nursery["start_time"], "")
    found = []
    for controller in fence.CONTROLLERS:
        path, _ = fence.parent(controller) or ("", 0)
        found += [f"{path}/{name}" for name in os.listdir(path) if name.startswith(prefix)]
    return found


@pytest.mark.fault("F27", by="a memory limit of 60 MiB, a body that takes 300")
@pytest.mark.hostile("H42")
@pytest.mark.parametrize("text", [f"exec {HOG}", f"{HOG} || exit 3", f"{HOG} | cat; exit 1"])
def test_more_memory_than_the_limit_is_told_as_oom(room: Room, text: str) -> None:
    room.shell("build-1", text, memory_bytes=LIMIT)

    found = room.record("build-1")

    assert found.reason == "oom"
    assert room.line("build-1", "supervisor")


@pytest.mark.fault("F27", by="a kill that is none of the memory's")
def test_another_kill_is_no_oom(room: Room) -> None:
    room.shell("build-1", "kill -9 $$", memory_bytes=LIMIT)
    assert room.record("build-1").reason == "signal"


def test_a_body_that_outlives_the_death_of_its_child_succeeds(room: Room) -> None:
    room.shell("build-1", f"{HOG} || true", memory_bytes=LIMIT)
    assert room.record("build-1").reason is None


@pytest.mark.fault("F29", by="a limit of 12 processes, a body that starts 40")
@pytest.mark.hostile("H42")
def test_more_processes_than_the_limit_cannot_be_made(room: Room) -> None:
    room.shell("build-1", MANY, processes=12)

    found = room.record("build-1")

    assert found.reason == "exit"
    assert b"fork" in room.log("build-1", "stderr")


def test_one_process_is_enough_for_one(room: Room) -> None:
    room.shell("build-1", "exec true", processes=1)
    assert room.record("build-1").reason is None


def test_neither_the_supervisor_nor_the_next_body_is_fenced_in(room: Room) -> None:
    room.shell("build-1", MANY, processes=12)
    room.record("build-1")
    room.shell("build-2", f"{MANY}; {HOG}")
    assert room.record("build-2").reason is None
    assert groups(room) == []


def test_ensure_has_the_same_limits(room: Room) -> None:
    room.shell("build-1", "true", processes=12, ensure=(("sh", "-c", MANY),))
    found = room.record("build-1")
    assert (found.reason, found.exit_code) == ("contract", 0)


@pytest.mark.fault("F28", by="SIGKILL of the supervisor of a fenced body")
def test_a_killed_supervisor_leaves_no_fence(room: Room) -> None:
    room.shell("build-1", "echo $$ > body; sleep 100", memory_bytes=LIMIT, processes=12)
    body = room.pid("body")
    assert len(groups(room)) == 2
    supervisor = room.await_line("build-1", "supervisor")

    os.kill(supervisor["pid"], signal.SIGKILL)

    until(lambda: procs.look(body) is None, what="death of the body")
    until(lambda: groups(room) == [], what="end of the fence")


def test_the_smallest_limit_harms_no_supervisor(room: Room) -> None:
    room.shell("build-1", f"exec {HOG}", memory_bytes=MIN_MEMORY, processes=1)
    assert room.record("build-1").reason == "oom"
    room.shell("build-2", "true")
    assert room.record("build-2").reason is None
    first, second = (room.await_line(f"build-{n}", "supervisor")["pid"] for n in (1, 2))
    assert first == second


def test_a_limit_that_cannot_be_set_is_no_start(room: Room) -> None:
    room.shell("build-1", "touch ran", processes=1 << 40)
    found = room.record("build-1")
    assert found.reason == "spawn_failed"
    assert str(found.error).startswith("cannot limit pids: ")
    assert not (room.path / "ran").exists()
    assert groups(room) == []
