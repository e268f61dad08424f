"""What becomes of worktrees of runs that ended, were killed, or were interfered with."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import WAIT, Ground, phase


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(
        tmp_path / "g",
        {
            "plan": phase("echo plan > plan.txt"),
            "build": phase(f"echo half > half.txt; {WAIT}", needs=["plan"]),
            "commit": {"use": "commit", "needs": ["build"]},
        },
    )
    yield made
    made.end()


def test_case_C18_the_tree_of_a_single_phase_stays_and_the_next_command_is_printed(
    ground: Ground,
) -> None:
    said = ground.ok("run", "w", "47", "--only", "plan").stdout
    tree = ground.repo.path / "trees" / ground.adw_id
    collected = ground.ok("gc", "--older-than", "0s").stdout

    assert (tree / "plan.txt").read_text() == "plan\n"
    assert f"  next: cd $(adw path {ground.adw_id}) && git status\n" in said
    assert f"kept          worktree trees/{ground.adw_id}: 1 file is in no commit: plan.txt" in (
        collected
    )


@pytest.mark.sweep
def test_case_K4_leftovers_of_a_killed_run_defer_nothing(ground: Ground) -> None:
    process = ground.start("run", "w", "47")
    ground.pid()
    adw_id = ground.adw_id
    ground.end()  # SIGKILL for all of it, as when the machine goes down
    process.wait()
    ground.all_gone()
    ground.go()

    kept = ground.adw("rm", adw_id)
    assert kept.exit_code == 2
    assert "2 files are in no commit: half.txt, plan.txt" in kept.stdout
    second = ground.ok("run", "w", "47")
    assert f"run {adw_id} of issue 47 is interrupted; `adw resume {adw_id}` goes on" in (
        second.stderr
    )
    ground.ok("rm", adw_id, "--discard", "--force", "--purge")
    assert adw_id not in ground.ids()
    assert not (ground.repo.path / "trees" / adw_id).exists()
    assert ground.status(ground.adw_id)["status"] == "succeeded"


@pytest.mark.sweep
def test_a_run_is_not_removed_while_it_lives(ground: Ground) -> None:
    process = ground.start("run", "w", "47")
    ground.pid()
    said = ground.adw("rm", ground.adw_id, "--discard", "--force", "--purge")
    collected = ground.ok("gc", "--older-than", "0s").stdout
    process.kill()  # what it started lives on
    process.wait()
    orphan = ground.adw("rm", ground.adw_id, "--discard", "--force", "--purge")
    ground.go()

    assert (said.exit_code, orphan.exit_code) == (5, 5)
    assert "an attempt that outlived its orchestrator" in orphan.stderr
    assert "it is running" in collected
    assert (ground.repo.path / "trees" / ground.adw_id / "half.txt").exists()
    ground.ok("resume", ground.adw_id)


@pytest.mark.sweep
def test_case_F45_a_worktree_that_is_deleted_under_a_phase_fails_it_and_resume_makes_it_again(
    ground: Ground,
) -> None:
    process = ground.start("run", "w", "47")
    ground.pid()
    shutil.rmtree(ground.repo.path / "trees" / ground.adw_id)
    ground.go()
    assert process.wait(20) == 1
    entries = ground.entries()
    ground.ok("resume", ground.adw_id)

    assert entries[-1] == ("build", 1, False, "workspace")
    assert "the run's worktree is gone" in ground.ok("history", ground.adw_id).stdout
    assert ground.ran("plan") == ["plan-1", "plan-2"], "its work was in no commit"


@pytest.mark.sweep
def test_a_failed_run_goes_on_after_gc_took_its_worktree(tmp_path: Path) -> None:
    ground = Ground(
        tmp_path / "g",
        {
            "build": phase("echo made > made.txt"),
            "save": {"use": "commit", "needs": ["build"]},
            "test": phase('[ -e "$GROUND/well" ]', needs=["save"], writes=False),
        },
    )
    try:
        assert ground.adw("run", "w", "47").exit_code == 1
        collected = ground.ok("gc", "--older-than", "0s").stdout
        gone = not (ground.repo.path / "trees" / ground.adw_id).exists()
        (ground.base / "well").touch()
        ground.ok("resume", ground.adw_id)

        assert gone
        assert f"removed       worktree trees/{ground.adw_id}: it is clean" in collected
        assert "the run is failed and can go on; 1 commit is on no remote" in collected
        assert (ground.ran("build"), ground.ran("test")) == (["build-1"], ["test-1", "test-2"])
    finally:
        ground.end()
