"""`adw resume --update-base`, and where the run of a clone starts."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, phase
from tests.support.repo import Repo

PHASES = {
    "build": phase("echo b >built; git add built; git commit -q -m built"),
    "test": phase("test -e mended", needs=["build"], writes=False),
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    found = Ground(tmp_path, PHASES, config={"ports": "none"})
    yield found
    found.end()


def tree(ground: Ground) -> Repo:
    return Repo(ground.repo.path / "trees" / ground.adw_id)


@pytest.mark.sweep
def test_case_C21_a_base_that_was_mended_reaches_the_run_only_when_asked_for(
    ground: Ground,
) -> None:
    assert ground.adw("run", "w", "47").exit_code == 1
    old = tree(ground).head()
    tip = ground.repo.commit("mend", {"mended": ""})
    assert ground.adw("resume", ground.adw_id).exit_code == 1
    assert tree(ground).head() == old

    said = ground.ok("resume", ground.adw_id, "--update-base")

    (event,) = ground.events("base_updated")
    found = tree(ground)
    assert [event[k] for k in ("base_branch", "old", "new", "how")] == [
        "main", old, found.head(), "merged",
    ]  # fmt: skip
    assert found.git("log", "-1", "--format=%P") == f"{old} {tip}"
    assert f"`main` is in the run's branch now (merged, {found.head()[:12]})" in said.stderr
    assert ground.ran("build") == ["build-1"]

    said = ground.ok("resume", ground.adw_id, "--update-base")  # a run that is over, too
    assert "the run's branch has all of `main` already" in said.stderr


@pytest.mark.sweep
def test_case_C21_a_conflict_and_a_dirty_tree_are_refused_and_the_run_goes_on_as_before(
    ground: Ground,
) -> None:
    assert ground.adw("run", "w", "47").exit_code == 1
    old = tree(ground).head()
    ground.repo.commit("mend", {"mended": "", "built": "other\n"})

    said = ground.adw("resume", ground.adw_id, "--update-base")

    assert said.exit_code == 2
    assert "error: `main` and the run's branch change the same places: built" in said.stderr
    assert (tree(ground).head(), tree(ground).git("status", "--porcelain")) == (old, "")
    assert ground.status(ground.adw_id)["status"] == "failed"
    tree(ground).write({"built": "more\n"})
    said = ground.adw("resume", ground.adw_id, "--update-base")
    assert said.exit_code == 2
    assert "the worktree has changes that are in no commit: built" in said.stderr
    assert ground.adw("resume", ground.adw_id).exit_code == 1


@pytest.mark.sweep
def test_work_in_no_commit_after_the_base_was_brought_in_is_done_again_when_the_tree_is_gone(
    tmp_path: Path,
) -> None:
    phases = {
        "look": phase("true", writes=False),
        "build": phase("test -e mended; echo b >built", needs=["look"]),
        "test": phase("test -e built; test -e $GROUND/go", needs=["build"], writes=False),
    }
    ground = Ground(tmp_path, phases, config={"ports": "none"})
    try:
        assert ground.adw("run", "w", "47").exit_code == 1
        ground.repo.commit("mend", {"mended": ""})
        assert ground.adw("resume", ground.adw_id, "--update-base").exit_code == 1
        assert ground.ran("test") == ["test-1"]
        shutil.rmtree(tree(ground).path)
        (tmp_path / "go").touch()

        ground.ok("resume", ground.adw_id)

        assert (ground.ran("look"), ground.ran("build")) == (
            ["look-1"],
            ["build-1", "build-2", "build-3"],
        )
    finally:
        ground.end()


@pytest.mark.sweep
def test_a_clone_starts_from_the_branch_of_its_remote_and_says_so(tmp_path: Path) -> None:
    ground = Ground(tmp_path, {"look": phase("true")}, config={"ports": "none"})
    try:
        main = ground.repo.head()
        ground.repo.git("update-ref", "refs/remotes/origin/main", main)
        ground.repo.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
        ground.repo.git("switch", "-q", "-c", "topic")
        ground.repo.commit("topic", {"topic": ""})

        said = ground.ok("run", "w", "47")

        assert tree(ground).head() == main
        assert (
            "the run starts from `main`, which `origin/HEAD` names, while `topic` is checked out; "
            "`base_branch` in adw.yaml chooses\n" in said.stderr
        )
        config = json.loads((ground.repo.path / "adw.yaml").read_text())
        ground.repo.write({"adw.yaml": json.dumps({**config, "base_branch": "topic"})})
        said = ground.ok("run", "w", "48")
        assert "the run starts from" not in said.stderr
    finally:
        ground.end()
