"""Faults that a run must outlive: limits reached, files that cannot be read, survivors that died."""

import errno
import json
import os
from pathlib import Path
from typing import Any

import pytest

from adw.app import reading
from adw.core.interfaces import TreeEnd
from adw.errors import AdwError, Survivor
from adw.model import state as model
from adw.store import attempts, files, runs
from adw.store.state import load_state
from tests.support.fakes import AT, exits
from tests.unit.app.test_session import World, phase


def left_attempt(world: World, child: str, *lines: dict[str, Any]) -> str:
    """An attempt that an earlier orchestrator started."""
    name, number = attempts.split(child)
    launch = {"phase": name, "attempt": number, "repairs": None, "at": AT}
    packet = attempts.write_packet(world.run_dir, child, b"# task", launch)
    for line in lines:
        files.append(packet.lock_fd, attempts.encode(line))
    os.close(packet.lock_fd)
    return packet.attempt_dir


def test_an_attempt_file_that_cannot_be_read_is_a_fault_and_no_attempt_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: EIO is loud; the attempt may be alive."""
    world = World(tmp_path, phase("a"))
    folder = left_attempt(world, "a-1", {"line": "supervisor", "pid": 1})
    real = files.read

    def broken(path: str, **keys: Any) -> bytes:
        if path.endswith("attempt.jsonl"):
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return real(path, **keys)

    monkeypatch.setattr(files, "read", broken)

    with pytest.raises((AdwError, OSError)):
        world.open()

    assert os.path.exists(os.path.join(folder, "attempt.jsonl"))


def test_an_attempt_file_of_any_size_is_an_attempt(tmp_path: Path) -> None:
    world = World(tmp_path, phase("a"))
    long = {"line": "body", "pid": 1, "start_time": 1, "from_a_newer_adw": "x" * (2 << 20)}
    left_attempt(
        world, "a-1", long, {"line": "exit", "reason": None, "exit_code": 0, "ended_at": AT}
    )

    world.drive()

    assert world.history() == ["a ok"]
    assert ("go", "a-1") not in world.supervision.calls


def test_a_line_after_a_torn_one_is_read(tmp_path: Path) -> None:
    """A full disk tears the body line; the exit line that follows counts."""
    world = World(tmp_path, phase("a"))
    folder = left_attempt(world, "a-1", {"line": "supervisor", "pid": 1})
    with Path(folder, "attempt.jsonl").open("ab") as file:
        file.write(b'{"line": "bo')
    fd = files.open_append(os.path.join(folder, "attempt.jsonl"))
    line = {"line": "exit", "reason": None, "exit_code": 0, "ended_at": AT}
    files.append(fd, json.dumps(line).encode())
    os.close(fd)

    world.drive()

    assert world.history() == ["a ok"]


def test_survivors_that_died_meanwhile_hold_the_run_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, phase("a"))
    exit_line = {"line": "exit", "reason": "timeout", "ended_at": AT, "survivors": [4242]}
    supervisor = {"line": "supervisor", "pid": 1, "start_time": 1}
    left_attempt(world, "a-1", supervisor, exit_line)
    world.supervision.end = TreeEnd(proved=True, survivors=(4242,))
    locks: list[runs.RunLock] = []
    real = runs.open_run

    def open_run(run_dir: str) -> runs.RunLock:
        locks.append(real(run_dir))
        return locks[-1]

    monkeypatch.setattr(runs, "open_run", open_run)
    with pytest.raises(Survivor):
        world.drive()
    locks[0].close()

    world.supervision.end = TreeEnd(proved=True)
    world.drive()

    assert world.history()[0] == "a timeout"


def test_the_entry_at_the_limit_is_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state stays one that can be read, whatever still ran or is asked."""
    monkeypatch.setattr("adw.app.session.MAX_ENTRIES", 3)
    world = World(tmp_path, *(phase(name, writes=False) for name in "abcde"), max_parallel=2)
    monkeypatch.setattr(world.supervision, "script", {("b", 1): exits(1)})

    outcome = world.drive()

    assert world.history() == ["a ok", "b exit", "c stuck"]
    assert outcome.closing == "failed"
    assert world.drive().closing == "failed"
    assert len(load_state(world.run_dir)[0].phase_history) == 3
    assert model.MAX_ENTRIES == 10_000


def test_an_attempt_of_a_phase_that_the_graph_has_not_is_recorded(tmp_path: Path) -> None:
    """`adw run other --adw-id` adopts what lives, whatever the other workflow holds."""
    world = World(tmp_path, phase("a"))
    supervisor = {"line": "supervisor", "pid": 1, "start_time": 1}
    done = {"line": "exit", "reason": None, "exit_code": 0, "ended_at": AT}
    left_attempt(world, "gone-1", supervisor, done)

    world.drive()

    assert world.history() == ["gone ok", "a ok"]


@pytest.mark.parametrize("kind", ["directory", "deep", "entries", "zeros", "fifo"])
def test_a_damaged_history_file_never_stops_a_run(tmp_path: Path, kind: str) -> None:
    world = World(tmp_path, phase("a"))
    world.drive()
    path = Path(world.run_dir, "state", "task_history.jsonl")
    if kind in {"directory", "fifo"}:
        path.unlink()
        path.mkdir() if kind == "directory" else os.mkfifo(path)
    elif kind == "zeros":
        path.write_bytes(b"\0" * 5000)
    else:
        bad = {"deep": b"[" * 100_000, "entries": b'{"seq": 9, "entries": "x"}'}[kind]
        path.write_bytes(path.read_bytes() + bad + b"\n")

    assert world.drive().closing == "succeeded"
    assert world.drive().closing == "succeeded"


def test_a_request_that_the_state_refuses_does_not_stop_the_run(tmp_path: Path) -> None:
    from adw.store import requests

    world = World(tmp_path, phase("a"))
    requests.ask(world.run_dir, "state_set", 0, {"model_set": "huge"})

    assert world.drive().closing == "succeeded"
    assert requests.pending(world.run_dir) == []


def test_a_run_that_ends_while_it_is_looked_at_is_not_called_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is probed first, then the state is read: design 16."""
    world = World(tmp_path, phase("a"))
    left_attempt(world, "a-1")
    session = world.open()
    session.commit(lambda: None)
    session.parts.lock.close()
    for look in (reading.status, lambda d: reading.listing(os.path.dirname(d))["runs"][0]):
        answers = iter([True])
        monkeypatch.setattr(runs, "held", lambda _dir, answers=answers: next(answers, False))

        assert look(world.run_dir)["status"] == "running"


def test_a_state_that_names_no_workflow_is_read_whatever_has_succeeded(tmp_path: Path) -> None:
    """A run that was written elsewhere, design 5."""
    world = World(tmp_path, phase("a"), phase("b", ("a",)))
    world.drive()
    Path(world.run_dir, "state", "latest.json").unlink()

    found = reading.status(world.run_dir)

    assert [(each["phase"], each["status"]) for each in found["phases"]] == [
        ("a", "done"),
        ("b", "done"),
    ]
