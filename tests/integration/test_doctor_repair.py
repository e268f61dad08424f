"""`adw doctor --repair` on processes that outlived a killed adw."""

import json
import os
import signal
from pathlib import Path

import pytest

from tests.support.ground import WAIT, Ground, dead, kill, phase
from tests.support.wait import until


@pytest.mark.sweep
@pytest.mark.fault("F4", by="orchestrator, nursery and supervisor killed, then adw doctor --repair")
@pytest.mark.parametrize("disabled", ["", "cgroup"])
def test_processes_of_a_dead_run_are_ended_and_a_living_one_is_left_alone(
    tmp_path: Path, disabled: str
) -> None:
    ground = Ground(
        tmp_path / "ground",
        {"last": phase(WAIT)},
        config={"ports": "none"},
        env={"ADW_DISABLE": disabled},
    )
    try:
        first = ground.start("run", "w", "47")
        body = ground.pid()
        line = ground.await_line("last-1", "supervisor")
        living = ground.ok("doctor", "--repair", "--json")
        assert not dead(body), "a living run is left alone"
        os.kill(first.pid, signal.SIGKILL)
        assert not [e for e in json.loads(living.stdout)["repaired"] if e["adw_id"]]
        orphaned = ground.ok("doctor", "--repair", "--json")
        assert not dead(body), "an attempt whose supervisor lives is left alone"
        assert not [e for e in json.loads(orphaned.stdout)["repaired"] if e["adw_id"]]
        kill(line["nursery"]["pid"])
        kill(line["pid"])
        first.wait(10)
        found = json.loads(ground.ok("doctor", "--json").stdout)["findings"]
        assert not dead(body), "looking ends nothing"
        assert [e["kind"] for e in found if e["kind"] == "process"] == ["process"]

        done = ground.ok("doctor", "--repair", ground.adw_id)

        assert f"run {ground.adw_id}, process: ended process" in done.stdout
        until(lambda: dead(body), what="the end of the body")
        assert "there was nothing to mend" in ground.ok("doctor", "--repair", ground.adw_id).stdout
        ground.go()
        ground.ok("resume", ground.adw_id)
        assert [e[1:] for e in ground.entries()] == [(1, False, "lost"), (2, True, None)]
    finally:
        ground.end()
