"""`copy:` of adw.yaml: ignored files of the main checkout in each run's worktree."""

import json
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, phase

PHASES = {
    "look": phase("cat .env", writes=False),
    "build": phase("echo b >built; git add -A; git status --porcelain", needs=["look"]),
    "commit": {"use": "commit", "needs": ["build"]},
}
IGNORED = ".env\nconfig/local/\n*.secret\n"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    config = {"copy": [".env", "config/local/", "a b/x.secret", "gone.env"], "ports": "none"}
    found = Ground(tmp_path, PHASES, config=config)
    found.repo.commit("first", {".gitignore": IGNORED, "config/a.ini": "a\n", "a b/kept": "k\n"})
    found.repo.write(
        {
            ".env": "TOKEN=1\n",
            "config/local/db.ini": "d\n",
            "config/local/deep/run.sh": "#!/bin/sh\n",
            "a b/x.secret": "x\n",
        }
    )
    (found.repo.path / ".env").chmod(0o600)
    yield found
    found.end()


def tree(ground: Ground) -> Path:
    return ground.repo.path / "trees" / ground.adw_id


def committed(ground: Ground) -> list[str]:
    return ground.repo.git("ls-tree", "-r", "--name-only", branch(ground)).splitlines()


def branch(ground: Ground) -> str:
    found: str = ground.status(ground.adw_id)["state"]["branch_name"]
    return found


def warnings(ground: Ground) -> list[str]:
    return [each["detail"] for each in ground.events("warning")]


def test_case_C17_listed_files_and_folders_are_there_and_never_committed(ground: Ground) -> None:
    said = ground.ok("run", "w", "47")

    found = tree(ground)
    assert (found / ".env").read_text() == "TOKEN=1\n"
    assert stat.S_IMODE((found / ".env").stat().st_mode) == 0o600
    assert (found / "config/local/db.ini").read_text() == "d\n"
    assert os.access(found / "config/local/deep/run.sh", os.X_OK)
    assert (found / "a b/x.secret").read_text() == "x\n"
    assert "built" in committed(ground)
    assert not {".env", "config/local/db.ini", "a b/x.secret"} & set(committed(ground))
    line = "`gone.env` of `copy` is not in the main checkout: nothing is copied"
    assert warnings(ground) == [line]
    assert f"warning: {line}" in said.stderr


def test_case_C17_a_copy_that_a_phase_forced_into_the_index_is_taken_out_again(
    ground: Ground,
) -> None:
    forced = {**PHASES, "build": phase("echo b >built; git add -f .env config/local")}
    workflow = {"schema_version": 1, "name": "w", "phases": forced}
    ground.repo.write({"workflows/w.yaml": json.dumps(workflow)})

    ground.ok("run", "w", "47")

    assert "built" in committed(ground)
    assert not {".env", "config/local/db.ini"} & set(committed(ground))


def test_case_C17_a_path_out_of_the_repository_is_refused_before_anything_is_made(
    ground: Ground,
) -> None:
    ground.repo.write({"adw.yaml": json.dumps({"copy": ["../secret"]})})

    said = ground.adw("run", "w", "47")

    assert said.exit_code == 2
    assert "`../secret` leads out of the repository" in said.stderr
    assert not ground.agents.exists()


@pytest.mark.sweep
def test_what_is_missing_at_a_resume_comes_back_and_what_is_there_stays(ground: Ground) -> None:
    ground.ok("run", "w", "47", "--until", "build")
    found = tree(ground)
    (found / ".env").unlink()
    (found / "config/local/db.ini").write_text("mine\n")

    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert (found / ".env").read_text() == "TOKEN=1\n"
    assert (found / "config/local/db.ini").read_text() == "mine\n"


@pytest.mark.sweep
def test_a_worktree_made_again_has_them_again(ground: Ground) -> None:
    ground.ok("run", "w", "47", "--until", "look")
    shutil.rmtree(tree(ground))

    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert (tree(ground) / "config/local/db.ini").exists()
