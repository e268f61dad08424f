"""F62: adw is upgraded while a phase runs; its supervisor, and the nursery, are those of before.

The old adw is a copy of the package with another version, whose lines have one field more and one
less than ours. The upgrade takes its files away, as every upgrade does: what lives on of it has to
do with what it has loaded. The new adw knows of it by files alone.
"""

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import adw
from tests.support.ground import WAIT, Done, Ground, dead, kill, phase
from tests.support.wait import until

OLD = "0.0.7"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A folder with an older adw, for PYTHONPATH."""
    package = tmp_path / "old" / "adw"
    shutil.copytree(Path(adw.__file__).parent, package)
    changed = {
        "__init__.py": (f'"{adw.__version__}"', f'"{OLD}"'),
        "supervise/attempt.py": ('"session": os.getsid(0),', '"protocol": 0,'),
    }
    for name, (ours, theirs) in changed.items():
        text = (package / name).read_text()
        assert ours in text
        (package / name).write_text(text.replace(ours, theirs))
    return package.parent


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(
        tmp_path / "ground",
        # The first phase: what a supervisor loads only at the end of one is not loaded yet.
        {"one": phase(f"{WAIT}; exit 7")},
        config={"ports": "none"},
    )
    yield made
    made.end()


def upgraded(ground: Ground, old: Path, *, killed: bool = True) -> tuple[int, int]:
    """Run the old adw until a phase waits, then take its files away; body and supervisor."""
    assert ground.ok("--version", PYTHONPATH=str(old)).stdout == f"adw {OLD}\n"
    run = ground.start("run", "w", "47", PYTHONPATH=str(old))
    body, line = ground.pid(), ground.await_line("one-1", "supervisor")
    assert line["protocol"] == 0
    assert "session" not in line
    if killed:
        run.kill()
        run.communicate()
    shutil.rmtree(old)
    return body, line["pid"]


@pytest.mark.sweep
@pytest.mark.fault("F62", by="a living supervisor of another version, its files gone")
def test_P5_a_supervisor_of_before_is_adopted_with_its_true_exit_status(
    ground: Ground, old: Path
) -> None:
    upgraded(ground, old)
    assert ground.status(ground.adw_id)["status"] == "interrupted"
    resumed = ground.start("resume", ground.adw_id, "--json")
    until(lambda: ground.events("child_adopted"), what="adoption")
    ground.go()
    done = Done.of(resumed)

    assert done.exit_code == 1, done.told()
    attempt = json.loads(done.stdout)["phases"][0]["attempts"][0]
    assert (attempt["adopted"], attempt["exit_code"], attempt["reason"]) == (True, 7, "exit")
    assert ground.entries() == [("one", 1, False, "exit")]
    assert ground.ran("one") == ["one-1"]
    ground.all_gone()


@pytest.mark.sweep
@pytest.mark.fault("F62", by="a living supervisor of another version, its files gone")
def test_P6_a_supervisor_of_before_ends_its_tree_when_it_is_told_to(
    ground: Ground, old: Path
) -> None:
    body, supervisor = upgraded(ground, old)

    ground.ok("cancel", ground.adw_id)

    assert dead(body)
    until(lambda: dead(supervisor), what="end of the supervisor")
    assert ground.entries()[-1] == ("one", 1, False, "cancelled")
    ground.all_gone()


@pytest.mark.sweep
@pytest.mark.fault("F62", by="a dead supervisor of another version, its nursery alive")
def test_P7_a_nursery_of_before_ends_what_its_supervisor_left(ground: Ground, old: Path) -> None:
    body, supervisor = upgraded(ground, old)
    kill(supervisor)
    ground.go()

    done = ground.adw("resume", ground.adw_id)

    assert done.exit_code == 1, done.told()
    assert dead(body)
    assert [entry[2:] for entry in ground.entries()] == [(False, "lost"), (False, "exit")]
    ground.all_gone()


@pytest.mark.sweep
@pytest.mark.fault("F62", by="a living orchestrator of another version")
def test_P11_an_adw_of_before_that_runs_is_not_disturbed(ground: Ground, old: Path) -> None:
    body, _ = upgraded(ground, old, killed=False)
    done = ground.adw("resume", ground.adw_id)
    assert done.exit_code == 5, done.told()
    assert ground.status(ground.adw_id)["status"] == "running"
    assert not dead(body)
    os.kill(ground.started[1].pid, signal.SIGKILL)
