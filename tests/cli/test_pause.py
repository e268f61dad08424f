"""`adw pause`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.handmade import ID, call, made_run
from tests.support.ground import WAIT, Ground, phase
from tests.support.repo import Repo


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "g", {"a": phase(WAIT), "b": phase("true", needs=["a"])})
    yield made
    made.end()


@pytest.mark.sweep
def test_what_runs_ends_and_nothing_new_starts(ground: Ground) -> None:
    run = ground.start("run", "w", "47")
    ground.await_line("a-1", "body")

    said = ground.adw("pause", ground.adw_id)
    ground.go()

    assert (said.exit_code, said.stderr) == (0, "")
    assert said.stdout == (
        f"run {ground.adw_id} starts nothing new; go on with `adw resume {ground.adw_id}`\n"
    )
    assert run.wait(20) == 6
    assert ground.entries() == [("a", 1, True, None)]
    assert len(ground.events("run_paused")) == 1
    ground.ok("resume", ground.adw_id)
    assert (ground.ran("a"), ground.ran("b")) == (["a-1"], ["b-1"])


def test_without_an_orchestrator_there_is_nothing_to_do(repo: Repo) -> None:
    run_dir = made_run(repo)

    said = call(repo, "pause", ID)

    assert (said.code, said.err) == (0, "")
    assert said.out == f"run {ID} has no orchestrator, there is nothing to pause\n"
    assert list((run_dir / "requests").glob("*.json")) == []


def test_an_unknown_run_is_refused(repo: Repo) -> None:
    said = call(repo, "pause", "zz")

    assert (said.code, said.err) == (2, "error: unknown run `zz`\n  hint: adw status\n")
