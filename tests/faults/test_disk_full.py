"""A full disk under `agents/`: nothing is half done, and all goes on when there is space again."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from adw.store.state import load_state
from tests.faults.conftest import MakeGround
from tests.support.ground import Done, Ground, phase
from tests.support.wait import until

PHASES: dict[str, Any] = {
    "one": phase("true"),
    # What fills the disk is the phase itself, after it began.
    "two": phase(
        'if [ ! -e "$GROUND/go" ]; then cat /dev/zero > "$ADW_ARTIFACTS/fill" || true; fi',
        needs=["one"],
    ),
    "three": phase("true", needs=["two"]),
}


BESIDE: dict[str, Any] = {
    # It leaves some hundred kilobytes.
    "one": phase(
        'free=$(df --output=avail -k "$ADW_ARTIFACTS" | tail -n 1);'
        ' head -c "$((free - 500))k" /dev/zero > "$ADW_ARTIFACTS/fill"',
        writes=False,
    ),
    "side": phase('until [ -e "$GROUND/go" ]; do sleep 0.01; done', writes=False),
    "two": phase("true", needs=["one"], writes=False),
}


@pytest.fixture
def small(make_ground: MakeGround) -> Iterator[Ground]:
    """A ground whose runs lie on a file system of 1 MiB."""
    yield from on_tmpfs(make_ground(PHASES), "1m")


@pytest.fixture
def middling(make_ground: MakeGround) -> Iterator[Ground]:
    """A ground whose runs lie on a file system of 64 MiB, of which 1.3 MiB are to stay free."""
    yield from on_tmpfs(make_ground(BESIDE), "64m")


def on_tmpfs(ground: Ground, size: str) -> Iterator[Ground]:
    """The ground, its runs on a small file system."""
    if os.geteuid() != 0:
        pytest.skip("mounting a small tmpfs needs root: A12 was NOT tested")
    ground.agents.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(ground.agents)],
        check=False,
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        pytest.skip(f"no tmpfs can be mounted ({mounted.stderr.strip()}): A12 was NOT tested")
    yield ground
    ground.end()
    subprocess.run(["umount", "--lazy", str(ground.agents)], check=True)


def fill(folder: Path) -> Path:
    """Take all that is left."""
    path = folder / ".filler"
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"\0" * 4096)
    return path


@pytest.mark.fault("F14", "F16", by="a small tmpfs that the phase fills")
@pytest.mark.sweep
def test_case_A12_a_disk_that_a_phase_fills_stops_the_run_with_its_state_intact(
    small: Ground,
) -> None:
    done = small.adw("run", "w", "47")

    assert done.exit_code == 4, done.told()
    assert "No space left on device" in done.stderr
    assert str(small.agents) in done.stderr
    state, _ = load_state(str(small.run_dir))
    assert [(e.phase, e.success) for e in state.phase_history][:1] == [("one", True)]
    assert small.ran("three") == []
    assert small.status(small.adw_id)["status"] == "interrupted"

    small.go()
    (small.run_dir / "children" / "two-1" / "artifacts" / "fill").unlink()
    small.ok("resume", small.adw_id)
    assert [e[0] for e in small.entries() if e[2]] == ["one", "two", "three"]
    assert small.ran("one") == ["one-1"]
    assert small.ran("two") == ["two-1"]


@pytest.mark.fault("F14", "F16", by="a tmpfs that a phase leaves with less free than its reserve")
@pytest.mark.hostile("H42")
def test_what_runs_on_a_disk_with_too_little_free_ends_in_order_and_nothing_starts(
    middling: Ground,
) -> None:
    run = middling.start("run", "w", "47")
    until(lambda: middling.ids() and middling.events("warning"), what="word of the full disk")
    assert (middling.ran("one"), middling.ran("side")) == (["one-1"], ["side-1"])
    view = middling.status(middling.adw_id)
    assert [(p["phase"], p["status"]) for p in view["phases"]] == [
        ("one", "done"),
        ("side", "running"),
        ("two", "pending"),
    ]

    middling.go()
    done = Done.of(run)

    assert done.exit_code == 4, done.told()
    assert "error: no phase is started: " in done.stderr
    assert sorted(e[0] for e in middling.entries() if e[2]) == ["one", "side"]
    again = middling.adw("resume", middling.adw_id)
    assert again.exit_code == 4, again.told()
    (middling.run_dir / "children" / "one-1" / "artifacts" / "fill").unlink()
    middling.ok("resume", middling.adw_id)
    assert [e[:3] for e in middling.entries()][2:] == [("two", 1, True)]
    assert [middling.ran(name) for name in BESIDE] == [["one-1"], ["side-1"], ["two-1"]]


@pytest.mark.fault("F14", "F16", by="a full tmpfs")
@pytest.mark.sweep
def test_case_A12_on_a_full_disk_no_run_begins(small: Ground) -> None:
    filler = fill(small.agents)
    done = small.adw("run", "w", "47")
    assert done.exit_code == 4, done.told()
    assert "No space left on device" in done.stderr
    assert small.ids() == []
    assert small.ran("one") == []
    filler.unlink()
    small.go()
    small.ok("run", "w", "47")
    assert not [name for name in os.listdir(small.agents) if name.startswith(".new-")]


@pytest.mark.fault("F16", by="a full tmpfs")
@pytest.mark.sweep
def test_case_A12_resume_on_a_full_disk_touches_nothing(small: Ground) -> None:
    killed = small.adw("run", "w", "47", ADW_FAILPOINT="state.after_rename")
    assert killed.exit_code == -9
    small.all_gone()
    before = (small.run_dir / "adw_state.json").read_bytes()
    filler = fill(small.agents)
    done = small.adw("resume", small.adw_id)
    assert done.exit_code == 4, done.told()
    assert "No space left on device" in done.stderr
    assert (small.run_dir / "adw_state.json").read_bytes() == before
    assert small.ran("two") == []
    assert small.status(small.adw_id)["status"] == "interrupted"
    filler.unlink()
    small.go()
    small.ok("resume", small.adw_id)
    assert [e[0] for e in small.entries() if e[2]] == ["one", "two", "three"]


@pytest.mark.fault("F42", by="a tmpfs mounted anew, read-only")
@pytest.mark.sweep
def test_case_A12_a_read_only_disk_is_told_of(small: Ground) -> None:
    small.go()
    killed = small.adw("run", "w", "47", ADW_FAILPOINT="state.after_rename")
    assert killed.exit_code == -9
    small.all_gone()
    remount(small, "ro")
    done = small.adw("resume", small.adw_id)
    assert done.exit_code == 4, done.told()
    assert "Read-only file system" in done.stderr
    assert small.status(small.adw_id)["status"] == "interrupted"
    remount(small, "rw")
    small.ok("resume", small.adw_id)


def remount(ground: Ground, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(ground.agents)], check=True)
