"""`adw wait-port`, and what becomes of servers that phases leave."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.store.state import load_state
from adw.workspace import leases
from adw.workspace.listeners import listeners
from tests.cli.handmade import ID, call, made_run
from tests.support.ground import WAIT, Ground, dead, phase
from tests.support.repo import Repo
from tests.support.wait import until

# Listens a moment late, in a session of its own, without the variables of the phase.
SERVER = """\
import os, socket, sys
os.setsid()
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(os.getpid(), file=open(sys.argv[2], "w"), flush=True)
sys.stdin.read() if len(sys.argv) > 3 else __import__("signal").pause()
"""
SERVE = '{python} "$GROUND/server.py" "$ADW_BACKEND_PORT" "$GROUND/server" & '
# Its parent is gone before it listens, so that the supervisor of the phase is its parent.
CLEAN = '(env -i {python} "$GROUND/server.py" "$ADW_BACKEND_PORT" "$GROUND/server" &); '
ASK = (
    '{python} -P -m adw wait-port > "$GROUND/said" 2>&1 && code=0 || code=$?;'
    ' echo "exit $code" >> "$GROUND/said"'
)


def text(words: str) -> str:
    return words.replace("{python}", sys.executable)


def made(tmp_path: Path, words: str) -> Ground:
    ground = Ground(tmp_path / "g", {"a": phase(text(words), writes=False)})
    (ground.base / "server.py").write_text(SERVER)
    return ground


@pytest.fixture
def ended() -> Iterator[list[Ground]]:
    grounds: list[Ground] = []
    yield grounds
    for ground in grounds:
        ground.end()


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("serve", "without"),
    [(SERVE, ""), (CLEAN, "cgroup")],
    ids=["as a child", "an orphan without its environment, no control groups"],
)
def test_case_D8_a_server_of_the_phase_is_waited_for_and_ends_with_it(
    tmp_path: Path, ended: list[Ground], serve: str, without: str
) -> None:
    ground = made(tmp_path, serve + ASK)
    ended.append(ground)

    ground.ok("run", "w", "47", ADW_DISABLE=without)

    server = ground.pid("server")
    port = load_state(str(ground.run_dir))[0].backend_port
    said = (ground.base / "said").read_text()
    assert said == f"port {port} is served by process {server}\nexit 0\n"
    assert dead(server)
    assert port is not None
    assert leases.port_free(port)


@pytest.mark.hostile("H54")
def test_case_D7_a_stranger_on_the_port_is_named_and_left_alone(
    tmp_path: Path, ended: list[Ground]
) -> None:
    ground = made(tmp_path, 'echo "$ADW_BACKEND_PORT" > "$GROUND/port"; ' + WAIT + "; " + ASK)
    ended.append(ground)
    run = ground.start("run", "w", "47")
    port = ground.pid("port")
    stranger = subprocess.Popen(
        [sys.executable, str(ground.base / "server.py"), str(port), str(tmp_path / "up"), "stdin"],
        stdin=subprocess.PIPE,
    )
    try:
        until((tmp_path / "up").exists)
        outside = ground.adw("wait-port", ground.adw_id, "backend")
        ground.go()
        assert run.wait(20) == 0
        assert stranger.poll() is None
    finally:
        assert stranger.stdin is not None
        stranger.stdin.close()
        stranger.wait(10)

    command = f"{sys.executable} {ground.base}/server.py {port} {tmp_path}/up stdin"[:100]
    told = (
        f"error: port {port} is served by process {stranger.pid} (`{command}`),"
        f" which is not of run `{ground.adw_id}`\n"
        "  hint: end that program yourself; adw ends nothing by its port\n"
    )
    assert (outside.exit_code, outside.stdout, outside.stderr) == (5, "", told)
    assert (ground.base / "said").read_text() == told + "exit 5\n"


def test_nothing_listens_in_time(repo: Repo) -> None:
    made_run(repo)
    with socket.create_server(("127.0.0.1", 0)) as bound:
        port = bound.getsockname()[1]

    said = call(repo, "wait-port", ID, str(port), "--timeout", "10ms")

    assert (said.code, said.out) == (4, "")
    assert said.err == (
        f"error: nothing of run `{ID}` listens on port {port} after 0.01 s\n"
        f"  hint: see what the server printed: adw logs {ID}\n"
    )


def test_a_server_of_this_very_run_is_known_from_outside(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run_dir = made_run(repo)
    (tmp_path / "server.py").write_text(SERVER)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    env = {**os.environ, "ADW_STATE_ROOT": str(run_dir)}
    server = subprocess.Popen(
        [sys.executable, str(tmp_path / "server.py"), str(port), str(tmp_path / "up"), "stdin"],
        stdin=subprocess.PIPE,
        env=env,
    )
    try:
        said = call(repo, "wait-port", ID, str(port), "--json")
        monkeypatch.setenv("ADW_STATE_ROOT", str(run_dir))
        monkeypatch.setenv("ADW_CHILD", "plan-1")
        inside = call(repo, "wait-port", str(port))
    finally:
        assert server.stdin is not None
        server.stdin.close()
        server.wait(10)

    assert said.code == 0, said.err
    assert json.loads(said.out) == {"schema_version": 1, "port": port, "pid": server.pid}
    assert inside.out == f"port {port} is served by process {server.pid}\n"


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ((), "outside of a phase, the ID of a run is expected\n  hint: adw wait-port ID backend"),
        (
            (ID, "frontend"),
            f"run `{ID}` has no ports\n  hint: name the port by its number",
        ),
        (
            (ID, "0"),
            "`0` is found, `backend`, `frontend` or a port number is expected",
        ),
        (
            (ID, "8000", "8001"),
            "one ID and one PORT are expected\n  hint: adw wait-port --help",
        ),
        (
            (ID, "--timeout", "soon"),
            (
                "invalid value for `--timeout`: `soon` is not a duration such as 30s or 2m\n"
                "  hint: adw wait-port --help"
            ),
        ),
    ],
)
def test_what_is_no_port_and_no_run_is_refused(
    repo: Repo, words: tuple[str, ...], error: str
) -> None:
    made_run(repo)

    said = call(repo, "wait-port", *words)

    assert (said.code, said.out, said.err) == (2, "", f"error: {error}\n")


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0", "::1", "::"])
def test_a_listener_is_found_on_every_address(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.create_server((host, 0), family=family) as server:
        port = server.getsockname()[1]
        (found,) = listeners(port)
        assert found.uid == os.geteuid()
        assert os.getpid() in found.pids
    assert listeners(port) == []
