"""Ports of runs that adw itself made: many at once, killed ones, old ones."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from adw.store import runs
from adw.store.state import load_state
from adw.workspace import leases
from tests.support.ground import Ground, phase
from tests.support.repo import make_repo
from tests.support.wait import until

LEASING = Path(__file__).with_name("leasing.py")
COUNT, VICTIM = 20, 7
DAY_S = 86400
FILES = {
    "workflows/w.yaml": 'schema_version: 1\nname: w\nphases: {a: {run: ["true"]}}\n',
    "issues/47.md": "---\ntitle: Mend it\n---\nIt is broken.\n",
}


class Taken(NamedTuple):
    """A run and its pair."""

    run_dir: str
    pair: tuple[int, int]


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    return str(tmp_path / "host")


@pytest.fixture
def twenty(tmp_path: Path, host: str) -> Iterator[list[Taken]]:
    """Runs in the order in which they took their pairs; one of them is dead or dying."""
    del host
    repositories = [str(make_repo(tmp_path / name, FILES).path) for name in ("one", "two")]
    process = subprocess.Popen(
        [sys.executable, str(LEASING), *repositories, str(COUNT), str(VICTIM)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline().decode().split() for _ in range(COUNT)]
        yield [Taken(run_dir, (int(back), int(front))) for run_dir, back, front in lines]
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(20)


def test_case_D2_twenty_runs_of_two_repositories_get_distinct_pairs(
    twenty: list[Taken], host: str, tmp_path: Path
) -> None:
    """D4: one is killed between lease and state; its pair is free, that of a live old run is not."""
    (killed,) = [each for each in twenty if load_state(each.run_dir)[0].backend_port is None]
    living = [each for each in twenty if each is not killed]
    pairs = {each.pair for each in living}
    assert len(pairs) == COUNT - 1
    assert {str(Path(each.run_dir).parents[1]) for each in living} == {
        str(tmp_path / "one"),
        str(tmp_path / "two"),
    }
    for each in living:
        state = load_state(each.run_dir)[0]
        assert (state.backend_port, state.frontend_port) == each.pair
    until(lambda: not runs.alive(killed.run_dir))

    new = take(host, tmp_path / "new", killed.pair)

    assert new not in pairs
    # Another may have been given the dead one's pair before.
    assert new == killed.pair or killed.pair in pairs
    old = living[0]
    three_days_ago = time.time() - 3 * DAY_S
    for top, _, names in os.walk(old.run_dir):
        for name in names:
            os.utime(os.path.join(top, name), (three_days_ago, three_days_ago))
    assert take(host, tmp_path / "newer", old.pair) not in pairs


def take(host: str, run_dir: Path, wanted: tuple[int, int]) -> tuple[int, int]:
    run_dir.mkdir()
    return leases.lease(host, run_dir.name, str(run_dir), wanted, 100, runs.alive)


def test_case_D1_the_first_choice_is_the_same_in_every_process(tmp_path: Path) -> None:
    """By the id alone, whatever the process hashes with."""
    code = (
        "import sys; from adw.workspace import leases; leases.port_free = lambda port: True;"
        "print(leases.lease(sys.argv[1], 'cc73faf1', sys.argv[1], None, 100, bool))"
    )
    said = {
        subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / seed)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert said == {"(9161, 9261)\n"}


@pytest.mark.sweep
def test_case_D5_every_phase_has_the_pair_in_its_environment_and_after_a_resume_too(
    tmp_path: Path,
) -> None:
    """D1: the first choice was occupied when the run began; the state keeps what it used."""
    say = 'echo "$ADW_BACKEND_PORT $ADW_FRONTEND_PORT" >> "$GROUND/ports"'
    ground = Ground(
        tmp_path / "g",
        {"a": phase(say), "b": phase(f'{say}; test -e "$GROUND/go"', needs=["a"])},
    )
    with contextlib.ExitStack() as occupied:
        with contextlib.suppress(OSError):  # then somebody else has it, which is as good
            occupied.enter_context(socket.create_server(("127.0.0.1", 9161)))
        first = ground.adw("run", "w", "47", "--adw-id", "cc73faf1", ADW_LOG="info")
    assert first.exit_code == 1, first.told()
    state = load_state(str(ground.run_dir))[0]
    pair = (state.backend_port, state.frontend_port)
    assert f"wanted=(9161, 9261) used={pair}" in first.stderr

    ground.go()
    ground.ok("resume", "cc73faf1")

    after = load_state(str(ground.run_dir))[0]
    assert (after.backend_port, after.frontend_port) == pair != (9161, 9261)
    told = (ground.base / "ports").read_text().splitlines()
    assert told == [f"{pair[0]} {pair[1]}"] * 3


def test_a_host_directory_that_cannot_be_written_is_told_with_the_way_out(tmp_path: Path) -> None:
    (tmp_path / "host").write_text("no folder")
    env = {"ADW_HOST_DIR": str(tmp_path / "host")}
    ground = Ground(tmp_path / "g", {"a": phase("true")}, env)

    done = ground.adw("run", "w", "47")

    assert (done.exit_code, done.stderr.splitlines()) == (
        4,
        [
            f"error: cannot write `{tmp_path}/host`: File exists",
            (
                "  hint: ADW_HOST_DIR names a folder that can be written,"
                " or `ports: none` in adw.yaml"
            ),
        ],
    )
