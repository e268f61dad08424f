"""Port pairs among real processes that hold real locks and real sockets."""

import contextlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from adw.store import files
from adw.workspace import leases
from tests.support.wait import until

# A run: takes its lock, leases, tells the pair, and lives until its stdin ends.
_RUN = """
import json, os, sys
from adw.store import files
from adw.workspace import leases
host, run_dir, slots = sys.argv[1:4]
fd = files.open_lock(os.path.join(run_dir, "lock"))
assert files.lock(fd)
alive = lambda path: files.locked(os.path.join(path, "lock"))
name = os.path.basename(run_dir)
print(json.dumps(leases.lease(host, name, run_dir, None, int(slots), alive)), flush=True)
sys.stdin.read()
"""


class Run:
    """A process that holds a run's lock and its ports."""

    def __init__(self, host: Path, run_dir: Path, slots: int = 100) -> None:
        run_dir.mkdir(parents=True, exist_ok=True)
        self.run_dir = run_dir
        self.process = subprocess.Popen(
            [sys.executable, "-c", _RUN, str(host), str(run_dir), str(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def pair(self) -> tuple[int, int]:
        assert self.process.stdout is not None
        back, front = json.loads(self.process.stdout.readline())
        return back, front

    def crash(self) -> None:
        self.process.kill()
        self.end()

    def end(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            pipe.close()
        self.process.wait(10)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def start(name: str, slots: int = 100) -> Run:
        runs.append(Run(tmp_path / "host", tmp_path / "agents" / name, slots))
        return runs[-1]

    yield start
    for run in runs:
        if run.process.returncode is None:
            run.end()


def alive(run_dir: str) -> bool:
    return files.locked(os.path.join(run_dir, "lock"))


def lease(tmp_path: Path, name: str, wanted: tuple[int, int] | None = None) -> tuple[int, int]:
    run_dir = tmp_path / "agents" / name
    run_dir.mkdir(parents=True, exist_ok=True)
    return leases.lease(str(tmp_path / "host"), name, str(run_dir), wanted, 100, alive)


@contextlib.contextmanager
def listening(port: int, family: socket.AddressFamily = socket.AF_INET) -> Iterator[None]:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1" if family == socket.AF_INET else "::1", port))
        server.listen()
        yield


def test_case_D2_twenty_runs_at_once_get_twenty_pairs(start: Callable[..., Run]) -> None:
    runs = [start(f"run-{number:04}") for number in range(20)]

    pairs = [run.pair() for run in runs]

    assert len(set(pairs)) == 20
    assert all(front - back == 100 and 9100 <= back < 9200 for back, front in pairs)


@pytest.mark.hostile("H54")
def test_case_D1_an_occupied_port_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ADW_LOG", "info")
    back, front = lease(tmp_path, "run-0001")
    for family in (socket.AF_INET, socket.AF_INET6):
        for port in (back, front):
            with listening(port, family):
                assert not leases.port_free(port)
                other = lease(tmp_path, "run-0001", (back, front))
            assert other != (back, front), (family, port)
    told = capfd.readouterr().err
    assert f"wanted=({back}, {front})" in told
    assert f"used=({back + 1}, {front + 1})" in told


def test_case_D4_a_lease_of_a_killed_run_is_reclaimed_and_of_a_living_one_not(
    tmp_path: Path, start: Callable[..., Run]
) -> None:
    old = start("run-0001", slots=1)
    pair = old.pair()
    table = tmp_path / "host/ports.json"
    os.utime(table, (1, 1))  # its age says nothing

    second = start("run-0002", slots=1)
    assert second.process.wait(10) != 0, "exhausted"
    second.end()
    old.crash()
    third = start("run-0003", slots=1)

    assert third.pair() == pair
    assert [e["adw_id"] for e in json.loads(table.read_bytes())["leases"]] == ["run-0003"]


def test_case_D5_a_resume_takes_its_recorded_pair(
    tmp_path: Path, start: Callable[..., Run]
) -> None:
    run = start("run-0001")
    pair = run.pair()
    run.crash()
    moved = pair[0] + 7, pair[1] + 7

    assert lease(tmp_path, "run-0001", pair) == pair
    assert lease(tmp_path, "run-0001", moved) == moved


def test_a_recorded_pair_that_a_living_run_took_is_not_taken_back(
    tmp_path: Path, start: Callable[..., Run]
) -> None:
    pair = start("run-0001").pair()

    assert lease(tmp_path, "run-0002", pair) not in {pair, None}


def test_a_server_of_the_runs_own_living_attempt_does_not_move_it(tmp_path: Path) -> None:
    pair = lease(tmp_path, "run-0001")
    run_dir = str(tmp_path / "agents/run-0001")
    host = str(tmp_path / "host")

    with listening(pair[0]):
        kept = leases.lease(host, "run-0001", run_dir, pair, 100, alive, serving=True)

    assert kept == pair


def test_a_port_is_free_again_while_its_connections_linger(tmp_path: Path) -> None:
    """A server that closes first leaves TIME_WAIT behind."""
    port = lease(tmp_path, "run-0001")[0]
    with socket.socket() as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        server.bind(("127.0.0.1", port))
        server.listen()
        with socket.create_connection(("127.0.0.1", port)) as client:
            accepted, _ = server.accept()
            accepted.close()
            assert client.recv(1) == b""

    until(lambda: leases.port_free(port), timeout_s=2)
