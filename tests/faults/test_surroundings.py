"""What a person, a clock or another program may do around a run while it works."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import WAIT, Ground, phase
from tests.support.shims import compiled
from tests.support.wait import until

DAY_S: Final = 86400
_SHIM: Final = Path(__file__).with_name("wall_clock.c")
_OBEYS: Final = ("setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner")
"""Root that permission bits bind as they do others."""


# --- permissions, F43 ---------------------------------------------------------------------


def bound(ground: Ground, *words: str, wrap: Sequence[str] = _OBEYS) -> Any:
    if os.geteuid() != 0:
        wrap = ()
    return ground.adw(*words, wrap=wrap)


@pytest.mark.sweep
@pytest.mark.fault("F43", by="permissions taken away, for a user whom they bind")
@pytest.mark.parametrize(
    ("what", "mode"),
    [
        ("adw_state.json", 0o000),
        (".", 0o500),
        ("attempts", 0o000),
        ("children", 0o500),
        ("state", 0o500),
        ("state/task_history.jsonl", 0o400),
        ("../", 0o000),
    ],
)
def test_P4_permissions_that_went_are_told_and_nothing_is_lost(
    make_ground: MakeGround, what: str, mode: int
) -> None:
    ground = make_ground({"one": phase("true"), "two": phase("test -e ../../go", needs=["one"])})
    assert ground.adw("run", "w", "47").exit_code == 1
    adw_id, run_dir = ground.adw_id, ground.run_dir
    before = (run_dir / "adw_state.json").read_bytes()
    (ground.repo.path / "go").touch()
    path = os.path.normpath(run_dir / what)
    usual = os.stat(path).st_mode
    os.chmod(path, mode)

    done = bound(ground, "resume", adw_id)

    os.chmod(path, usual)
    assert done.exit_code in {2, 4}, done.told()
    assert "ermission denied" in done.stderr, done.told()
    assert "Traceback" not in done.stderr
    state = json.loads((run_dir / "adw_state.json").read_bytes())
    kept = json.loads(before)["phase_history"]
    assert state["phase_history"][: len(kept)] == kept
    ground.ok("resume", adw_id)
    assert ground.ran("one") == ["one-1"]


# --- the worktree, F45 ---------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.fault("F45", by="removed by hand while a phase runs there")
def test_a_worktree_that_goes_while_a_phase_runs_fails_it_and_comes_back(
    make_ground: MakeGround,
) -> None:
    ground = make_ground({"one": phase("true"), "two": phase(WAIT, needs=["one"])})
    run = ground.start("run", "w", "47")
    ground.pid()
    shutil.rmtree(ground.repo.path / "trees" / ground.adw_id)
    ground.go()

    out, err = run.communicate(timeout=30)

    assert run.returncode == 1, err
    assert ground.entries()[-1] == ("two", 1, False, "workspace"), out
    ground.ok("resume", ground.adw_id)
    assert [entry[0] for entry in ground.entries() if entry[2]][-2:] == ["one", "two"]


# --- output, F61 ---------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.fault("F61", by="a grandchild that sleeps on with the output open")
def test_a_grandchild_with_the_output_open_delays_nothing(
    make_ground: MakeGround, mode: str
) -> None:
    text = "(trap '' TERM; sleep 300) & echo done"
    env = {} if mode == "cgroup" else {"ADW_DISABLE": "cgroup"}
    ground = make_ground({"one": phase(text)}, env=env)
    ground.ok("run", "w", "47")
    attempt = ground.status(ground.adw_id)["phases"][0]["attempts"][0]
    took = datetime.fromisoformat(attempt["ended_at"]) - datetime.fromisoformat(
        attempt["started_at"]
    )
    assert took.total_seconds() < 30
    ground.all_gone()


# --- signals, F24 ----------------------------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.fault("F24", by="a storm of CHLD, STOP and CONT on orchestrator, nursery, supervisor")
def test_P4_a_storm_of_signals_has_no_effect(make_ground: MakeGround) -> None:
    names = [f"p{number}" for number in range(6)]
    ground = make_ground(
        {name: phase("sleep 0.1", needs=names[at - 1 : at]) for at, name in enumerate(names)}
    )
    run = ground.start("run", "w", "47")
    sent = 0
    while run.poll() is None:
        adws = [pid for pid in ground.processes() if b"adw" in _command(pid)]
        for pid in adws:
            for number in (signal.SIGCHLD, signal.SIGSTOP, signal.SIGCONT):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
                    sent += 1
    out, err = run.communicate()
    assert run.returncode == 0, (out, err)
    assert sent > 100
    assert [entry[:3] for entry in ground.entries()] == [(name, 1, True) for name in names]
    ground.all_gone()


def _command(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


# --- the wall clock, F54 and F55 -------------------------------------------------------------


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A library that tells the time as tests want it."""
    return compiled(_SHIM, tmp_path_factory.mktemp("shim"))


def clocked(make_ground: MakeGround, shim: str, base: Path, **phases: Any) -> tuple[Ground, Path]:
    """A ground whose processes all ask the clock in a file."""
    clock = base / "clock"
    clock.write_text("0 0")
    env = {"LD_PRELOAD": shim, "WALL_CLOCK": str(clock)}
    return make_ground(phases, env=env, config={"env_pass": ["LD_PRELOAD", "WALL_CLOCK"]}), clock


def test_the_shim_sets_the_clock(shim: str, tmp_path: Path) -> None:
    (tmp_path / "clock").write_text(f"{-400 * DAY_S} 0")
    env = {**os.environ, "LD_PRELOAD": shim, "WALL_CLOCK": str(tmp_path / "clock")}
    code = "import time; print(time.time(), time.monotonic())"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, check=True)
    wall, monotonic = map(float, done.stdout.split())
    assert abs(datetime.now().timestamp() - 400 * DAY_S - wall) < 60  # noqa: DTZ005
    assert abs(monotonic - float(Path("/proc/uptime").read_text().split()[0])) < 60


@pytest.mark.sweep
@pytest.mark.fault("F54", by="a library that sets the wall clock, in all processes of a run")
@pytest.mark.parametrize("days", [-400, 365, -20_000])
@pytest.mark.parametrize("when", ["before", "within"])
def test_P18_a_jump_of_the_clock_changes_no_order_and_no_decision(
    make_ground: MakeGround, shim: str, tmp_path: Path, days: int, when: str
) -> None:
    ground, clock = clocked(
        make_ground,
        shim,
        tmp_path,
        one=phase(WAIT, timeout="20s"),
        two=phase("test -e ../../go", needs=["one"], retry={"attempts": 2, "delay": "300ms"}),
        three=phase("true", needs=["two"]),
    )
    run = ground.start("run", "w", "47")
    ground.pid()
    if when == "before":
        run.kill()
        run.communicate()
    clock.write_text(f"{days * DAY_S} 0")
    ground.go()
    if when == "before":
        run = ground.start("resume", ground.adw_id)
        until(lambda: len(ground.ran("two")) == 1, what="the first try")
    until(lambda: len(ground.ran("two")) == 1, what="the first try")
    clock.write_text(f"{-days * DAY_S} 0")
    (ground.repo.path / "go").touch()

    out, err = run.communicate(timeout=50)

    assert run.returncode == 0, (out, err)
    assert ground.entries() == [
        ("one", 1, True, None),
        ("two", 1, False, "exit"),
        ("two", 2, True, None),
        ("three", 1, True, None),
    ]
    events = ground.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    ground.ok("resume", ground.adw_id)
    assert len(ground.ran("three")) == 1
    assert ground.status(ground.adw_id)["status"] == "succeeded"


@pytest.mark.sweep
@pytest.mark.fault("F55", by="a library that stops the wall clock, in all processes of a run")
def test_P18_with_a_clock_that_stands_still_order_is_by_number(
    make_ground: MakeGround, shim: str, tmp_path: Path
) -> None:
    ground, clock = clocked(
        make_ground,
        shim,
        tmp_path,
        one=phase("true"),
        two=phase("test -e ../../go", needs=["one"]),
        three=phase("true", needs=["two"]),
    )
    clock.write_text("0 1800000000")
    assert ground.adw("run", "w", "47").exit_code == 1
    (ground.repo.path / "go").touch()
    ground.ok("resume", ground.adw_id)

    tried = [entry[:3] for entry in ground.entries() if entry[1] > 0]
    assert tried == [("one", 1, True), ("two", 1, False), ("two", 2, True), ("three", 1, True)]
    state = ground.status(ground.adw_id)["state"]
    assert len({entry["ended_at"] for entry in state["phase_history"]}) == 1
    events = ground.events()
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
