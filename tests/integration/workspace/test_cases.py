"""Field cases of worktrees and branches, on whole runs."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.store.state import load_state
from tests.support.ground import WAIT, Ground, kill, phase
from tests.support.repo import Repo, make_repo
from tests.support.wait import until

PHASES = {
    "build": phase("echo built >built.txt"),
    "commit": {"use": "commit", "needs": ["build"]},
    "last": phase(WAIT, needs=["commit"]),
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A run that waits in its last phase, after a commit."""
    found = Ground(tmp_path / "ground", PHASES, config={"ports": "none"})
    yield found
    found.end()


def tree(ground: Ground) -> Path:
    return ground.repo.path / "trees" / ground.adw_id


def branch(ground: Ground) -> str:
    return str(load_state(str(ground.run_dir))[0].branch_name)


def stopped(ground: Ground) -> None:
    """Start the run, and interrupt it in its last phase."""
    process = ground.start("run", "w", "47")
    ground.pid()
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    ground.go()


@pytest.mark.sweep
def test_case_C8_a_worktree_that_is_gone_comes_back_from_the_branch(ground: Ground) -> None:
    """Also where only the remote still has the branch; what was pushed is neither redone nor
    pushed over."""
    remote = make_remote(ground)
    stopped(ground)
    ground.repo.git("push", "--quiet", "origin", branch(ground))
    pushed = ground.repo.git("rev-parse", branch(ground))
    ground.repo.git("worktree", "remove", "--force", str(tree(ground)))
    ground.repo.git("branch", "-D", branch(ground))

    ground.ok("resume", ground.adw_id)

    assert (tree(ground) / "built.txt").exists()
    assert ground.repo.git("rev-parse", branch(ground)) == pushed
    assert remote.git("rev-parse", branch(ground)) == pushed
    assert ground.ran("build") == ["build-1"]
    assert ground.commits() == 1
    (ready,) = [e["action"] for e in ground.events("workspace_ready")][1:]
    assert ready == "fetched"


def make_remote(ground: Ground) -> Repo:
    path = ground.base / "remote"
    path.mkdir()
    remote = Repo(path)
    remote.git("init", "--quiet", "--bare")
    ground.repo.git("remote", "add", "origin", str(path))
    return remote


@pytest.mark.sweep
def test_case_C7_HEAD_stays_on_the_branch_with_the_remote_ahead(ground: Ground) -> None:
    make_remote(ground)
    stopped(ground)
    name = branch(ground)
    ahead = ground.repo.git("commit-tree", "-p", name, "-m", "ahead", f"{name}^{{tree}}")
    ground.repo.git("push", "--quiet", "origin", f"{ahead}:refs/heads/{name}")
    ground.repo.git("fetch", "--quiet")
    mine = ground.repo.git("rev-parse", name)
    shutil.rmtree(tree(ground))

    ground.ok("resume", ground.adw_id)

    assert ground.repo.git("-C", str(tree(ground)), "symbolic-ref", "HEAD") == f"refs/heads/{name}"
    assert ground.repo.git("rev-parse", name) == mine


def test_case_C27_a_person_resets_the_main_checkout_during_a_run(ground: Ground) -> None:
    process = ground.start("run", "w", "47")
    ground.pid()
    ground.repo.commit("second", {"README.md": "two\n"})
    ground.repo.git("branch", "theirs")
    ground.repo.git("reset", "--quiet", "--hard", "HEAD~1")
    ground.repo.git("switch", "--quiet", "theirs")
    index = (ground.repo.path / ".git/index").read_bytes()
    ground.go()
    assert process.wait(30) == 0

    assert ground.repo.git("symbolic-ref", "HEAD") == "refs/heads/theirs"
    assert (ground.repo.path / ".git/index").read_bytes() == index
    assert ground.repo.git("log", "-1", "--format=%s", "main") == "first"
    reflog = ground.repo.git("log", "-g", "--format=%gs", "HEAD").splitlines()
    assert [line.split(":")[0] for line in reflog[:3]] == ["checkout", "reset", "commit"]


@pytest.mark.sweep
def test_case_C5_the_repository_that_adw_was_called_in_is_the_one_that_changes(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where variables of git name another one, as they do inside a hook."""
    outer = make_repo(ground.base / "outer", {"f": "1"})
    before = outer.git("for-each-ref"), outer.git("worktree", "list"), outer.git("status", "-s")
    monkeypatch.setenv("GIT_DIR", str(outer.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(outer.path))
    ground.go()

    process = ground.start("run", "w", "47")
    assert process.wait(30) == 0
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")

    after = outer.git("for-each-ref"), outer.git("worktree", "list"), outer.git("status", "-s")
    assert after == before
    assert len(ground.repo.git("worktree", "list").splitlines()) == 2


@pytest.mark.sweep
def test_case_E12_an_agent_that_outlived_its_orchestrator_is_adopted_before_another_starts(
    ground: Ground,
) -> None:
    first = ground.start("run", "w", "47")
    body = ground.pid()
    os.kill(first.pid, signal.SIGKILL)
    first.wait(10)

    again = ground.adw("run", "w", "47")
    rewound = ground.adw("rewind", ground.adw_id, "build")

    assert again.exit_code == 5
    assert f"already has the live run `{ground.adw_id}`" in again.stderr
    assert rewound.exit_code == 5
    assert "outlived its orchestrator" in rewound.stderr
    second = ground.start("resume", ground.adw_id)
    until(lambda: ground.events("child_adopted"), what="the adoption")
    assert Path(f"/proc/{body}").exists()
    ground.go()
    assert second.wait(30) == 0
    assert ground.ran("last") == ["last-1"]


@pytest.mark.sweep
def test_case_E12_one_whose_supervisor_died_too_is_ended_before_another_starts(
    ground: Ground,
) -> None:
    first = ground.start("run", "w", "47")
    body = ground.pid()
    supervisor = ground.await_line("last-1", "supervisor")["pid"]
    os.kill(first.pid, signal.SIGKILL)
    kill(supervisor)
    first.wait(10)
    ground.go()

    ground.ok("resume", ground.adw_id)

    assert not Path(f"/proc/{body}").exists()
    assert ground.ran("last") == ["last-1", "last-2"]
    assert ground.entries()[-2:] == [("last", 1, False, "lost"), ("last", 2, True, None)]


def test_case_H2_a_phase_that_says_done_and_changed_nothing_fails(tmp_path: Path) -> None:
    phases = {"build": phase("echo done", ensure=["changed"])}
    ground = Ground(tmp_path / "ground", phases, config={"ports": "none"})
    try:
        done = ground.adw("run", "w", "47")
    finally:
        ground.end()

    assert done.exit_code == 1
    assert ground.entries() == [("build", 1, False, "no_change")]
    assert "nothing in the worktree changed" in done.stdout
