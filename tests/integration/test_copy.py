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


def test_case_C17_a_link_out_of_the_repository_is_not_followed(ground: Ground) -> None:
    outside = ground.base / "outside"
    outside.write_text("secret\n")
    (ground.repo.path / "config/local/link").symlink_to(outside)

    ground.ok("run", "w", "47")

    assert not os.path.lexists(tree(ground) / "config/local/link")
    assert "`config/local/link` leads out of the repository: not copied" in warnings(ground)


def test_case_C17_a_tracked_file_is_not_overwritten(ground: Ground) -> None:
    ground.repo.git("add", "-f", ".env")
    ground.repo.commit("track it")
    ground.repo.write({".env": "TOKEN=changed\n", "config/local/kept": "old\n"})

    ground.ok("run", "w", "47")

    assert (tree(ground) / ".env").read_text() == "TOKEN=1\n"


def test_a_file_that_the_project_does_not_ignore_is_hidden_from_git_before_it_is_there(
    ground: Ground,
) -> None:
    ground.repo.write({"plain [1].env": "p\n", "new/a": "a\n", "new/b": "b\n", "a b/own": "o\n"})
    names = ["plain [1].env", "new", "a b/"]
    config = json.loads((ground.repo.path / "adw.yaml").read_text())
    ground.repo.write({"adw.yaml": json.dumps({**config, "copy": names, "env": {**config["env"]}})})
    ground.repo.write({".env": "x"})
    ground.repo.write({"workflows/w.yaml": json.dumps({**workflow(), "name": "w"})})

    ground.ok("run", "w", "47")

    found = tree(ground)
    assert [(found / each).exists() for each in ("plain [1].env", "new/a", "a b/own")] == [True] * 3
    assert committed(ground).count("built") == 1
    assert not {"plain [1].env", "new/a", "new/b", "a b/own"} & set(committed(ground))
    assert set(warnings(ground)) == {
        f"`{name}` is not ignored by git: adw hides it in info/exclude"
        for name in ("plain [1].env", "new", "a b")
    }
    lines = (ground.repo.path / ".git/info/exclude").read_text().splitlines()
    assert {r"/plain\ \[1].env", "/new/", r"/a\ b/own"} <= set(lines)


def workflow() -> dict[str, object]:
    phases = {name: each for name, each in PHASES.items() if name != "look"}
    phases["build"] = phase("echo b >built; echo n >'a b/made'; git add -A")
    return {"schema_version": 1, "phases": phases}


def test_a_file_that_git_is_told_to_take_is_not_copied(ground: Ground) -> None:
    ground.repo.commit("take it", {".gitignore": IGNORED + "!.env\n"})
    ground.repo.write({"workflows/w.yaml": json.dumps({**workflow(), "name": "w"})})
    ground.repo.git("rm", "-q", "--cached", ".env", check=False)
    ground.repo.commit("without", {".gitignore": IGNORED + "!.env\n"})
    ground.repo.git("rm", "-q", "--cached", ".env")
    ground.repo.git("commit", "-q", "-m", "out")

    ground.ok("run", "w", "47")

    assert not (tree(ground) / ".env").exists()
    assert "`.env` is not copied: git does not ignore it" in warnings(ground)


def test_what_is_missing_at_a_resume_comes_back_and_what_is_there_stays(ground: Ground) -> None:
    ground.ok("run", "w", "47", "--until", "build")
    found = tree(ground)
    (found / ".env").unlink()
    (found / "config/local/db.ini").write_text("mine\n")

    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert (found / ".env").read_text() == "TOKEN=1\n"
    assert (found / "config/local/db.ini").read_text() == "mine\n"


def test_a_worktree_made_again_has_them_again(ground: Ground) -> None:
    ground.ok("run", "w", "47", "--until", "look")
    shutil.rmtree(tree(ground))

    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert (tree(ground) / "config/local/db.ini").exists()


def test_a_folder_that_became_a_link_in_the_worktree_gets_no_copy(ground: Ground) -> None:
    outside = ground.base / "outside"
    outside.mkdir()
    ground.repo.git("rm", "-q", "-r", "config/a.ini")
    shutil.rmtree(ground.repo.path / "config")
    (ground.repo.path / "config").symlink_to(outside)
    ground.repo.commit("link")
    (ground.repo.path / "config").unlink()
    ground.repo.write({"config/local/db.ini": "d\n"})

    ground.ok("run", "w", "47")

    assert list(outside.iterdir()) == []
    line = "`config/local/db.ini` is not copied: `config` is no folder there"
    assert line in warnings(ground)
