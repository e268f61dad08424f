"""Whole runs against phases that leave traps: refused before, told after, exchanged in between."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import MakeGround, swept
from tests.faults.test_hostile_outputs import CANARY, EXCHANGES, TRAPS, exchanging, holding
from tests.support.ground import WAIT, Done, Ground, phase

BIND = f"rm -f sock; {sys.executable} -IS -c 'import socket; socket.socket(1).bind(\"sock\")'"
MORE: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "socket": (BIND, {"path": "sock"}, "contract", "`sock` is a socket, not a regular file"),
    "device": (
        "rm -f null; mknod null c 1 3",
        {"path": "null"},
        "contract",
        "`null` is a character device, not a regular file",
    ),
    "dangling": (
        "ln -sf /nowhere dangling",
        {"path": "dang*"},
        "contract",
        "`dangling` is a symbolic link, not a regular file",
    ),
    "own_link": (
        'ln -sf "$GROUND/secret" "$ADW_ARTIFACTS/out"',
        {"path": "out", "root": "artifacts"},
        "contract",
        "`out` is a symbolic link, not a regular file",
    ),
}


@pytest.mark.sweep
@pytest.mark.hostile("H18", "H19", "H20")
def test_case_H20_the_next_attempt_is_told_what_was_wrong_and_to_do_only_that(
    make_ground: MakeGround,
) -> None:
    """H18, H19, FS-8, FS-9: also sockets and devices; whatever the exit code says."""
    traps = {**TRAPS, **MORE}
    if os.geteuid():
        del traps["device"]  # only root makes one; the unit tests say so
    phases = {
        name: phase(text, outputs={name: output}, allow_failure=True, retry={"attempts": 2})
        for name, (text, output, _, _) in traps.items()
    }
    ground = make_ground(phases)
    (ground.base / "secret").write_bytes(CANARY)

    done = ground.adw("run", "w", "47")

    assert done.exit_code == 0, done.told()
    decided = {
        event["child_id"]: (event["reason"], event["action"])
        for event in ground.events("recovery_decided")
    }
    for name, (_, _, kind, detail) in traps.items():
        entries = [(attempt, reason) for n, attempt, _, reason in ground.entries() if n == name]
        assert entries == [(1, kind), (2, kind)]
        task = (ground.run_dir / "children" / f"{name}-2" / "TASK.md").read_text()
        assert "## Only this is missing\n" in task
        assert f": {detail}\n\nDo only this" in task, name
        assert decided[f"{name}-1"] == (kind, "narrowed_retry")
        assert decided[f"{name}-2"] == (kind, "excuse")
    assert ground.events("artifact_promoted") == []
    assert holding(ground.agents, CANARY) == []


@pytest.mark.sweep
@pytest.mark.parametrize("how", swept(EXCHANGES, "file for a link"))
@pytest.mark.hostile("H19")
def test_case_H19_a_process_beside_the_run_that_exchanges_outputs_gets_nothing_in(
    make_ground: MakeGround, tmp_path: Path, how: str
) -> None:
    """It outlives the phase, for it was never of its tree; what is promoted is whole all the same."""
    names = [f"p{n}" for n in range(6)]
    excused: dict[str, Any] = {"allow_failure": True, "retry": {"attempts": 2}}
    taking = {
        name: phase("true", needs=["wait"], outputs={name: {"path": "specs/out"}}, **excused)
        for name in names
    }
    ground = make_ground({"wait": phase(WAIT), **taking})
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "out").write_bytes(CANARY)
    run = ground.start("run", "w", "47")
    ground.pid()

    with exchanging(ground.repo.path / "trees" / ground.adw_id, outside, how):
        ground.go()
        done = Done.of(run)
        assert done.exit_code == 0, done.told()

    ends = ground.entries()[1:]
    good = {name for name, _, success, _ in ends if success}
    assert {reason for _, _, success, reason in ends if not success} <= {
        "contract",
        "missing_output",
    }
    manifest = json.loads((ground.run_dir / "artifacts" / "manifest.json").read_bytes())
    assert set(manifest) == good
    for entry in manifest.values():
        assert (ground.run_dir / entry["path"]).read_bytes() == b"good " * 2000
    assert holding(ground.agents, CANARY) == []
    assert (outside / "out").read_bytes() == CANARY


@pytest.mark.parametrize("path", swept(["/etc/passwd", "../secret", ".git/config"], "../secret"))
@pytest.mark.hostile("H19")
def test_case_H19_a_path_that_leads_outside_is_refused_before_anything_is_made(
    make_ground: MakeGround, path: str
) -> None:
    ground: Ground = make_ground({"a": phase("true", outputs={"out": {"path": path}})})

    for words in (("validate",), ("run", "w", "47")):
        done = ground.adw(*words)
        assert done.exit_code == 2, done.told()
        assert "workflows/w.yaml:1:" in done.stdout + done.stderr
    assert not ground.agents.exists()
