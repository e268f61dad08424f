"""`adw cancel`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, call, made_run
from tests.support.ground import WAIT, Ground, dead, kill, phase
from tests.support.repo import Repo
from tests.support.wait import until


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "g", {"a": phase(WAIT), "b": phase("true", needs=["a"])})
    yield made
    made.end()


@pytest.mark.sweep
def test_a_running_run_is_cancelled_and_its_processes_are_gone(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    body = ground.pid()

    said = ground.adw("cancel", ground.adw_id)

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == f"run {ground.adw_id} is cancelled\n"
    assert dead(body)
    assert run.wait(20) == 1
    assert ground.entries() == [("a", 1, False, "cancelled")]
    assert ground.status(ground.adw_id)["status"] == "cancelled"


@pytest.mark.sweep
def test_a_run_whose_orchestrator_is_dead_is_cancelled_by_the_asker(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    body = ground.pid()
    kill(run.pid)

    said = ground.adw("cancel", ground.adw_id)

    assert (said.exit_code, said.stdout) == (0, f"run {ground.adw_id} is cancelled\n")
    assert until(lambda: dead(body))
    assert ground.entries() == [("a", 1, False, "cancelled")]
    assert ground.ran("b") == []


def test_from_inside_a_phase_of_the_run_it_is_refused(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir = made_run(repo, handmade.failed())
    for name, value in (("ADW_ID", ID), ("ADW_CHILD", "plan-1"), ("ADW_PHASE", "plan")):
        monkeypatch.setenv(name, value)

    said = call(repo, "cancel", ID)

    assert (said.code, said.out) == (2, "")
    assert said.err == (
        f"error: `adw cancel` is for people and was called from inside phase `plan` of run `{ID}`\n"
    )
    assert list((run_dir / "requests").glob("*.json")) == []
