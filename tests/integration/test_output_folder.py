"""Where runs and what they hand over lie, by configuration, surroundings or default."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from adw.app import places
from adw.app.places import Places, find_places
from adw.errors import RepositoryError
from tests.support.ground import Ground, phase
from tests.support.repo import Repo, make_repo


@pytest.fixture
def repo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repo:
    for name in ("ADW_AGENTS_DIR", "ADW_OUTPUT_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(places, "GIVEN_OUTPUT", str(tmp_path / "given"))
    return make_repo(tmp_path.resolve() / "repo", {"x": ""})


def found(repo: Repo) -> tuple[str, str | None]:
    here: Places = find_places(str(repo.path))
    return here.agents_dir, here.output_dir


def test_FS_2_what_says_where_runs_lie_and_which_wins(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, given = repo.path, tmp_path / "given"
    assert found(repo) == (f"{root}/agents", None)

    given.mkdir()
    assert found(repo) == (f"{given}/runtime", str(given))

    monkeypatch.setenv("ADW_OUTPUT_DIR", "/out/put/")
    assert found(repo) == ("/out/put/runtime", "/out/put")

    repo.write({"adw.yaml": "agents_dir: elsewhere\n"})
    assert found(repo) == (f"{root}/elsewhere", "/out/put")

    monkeypatch.setenv("ADW_AGENTS_DIR", "/agents/here")
    assert found(repo) == ("/agents/here", "/out/put")

    monkeypatch.delenv("ADW_OUTPUT_DIR")
    assert found(repo) == ("/agents/here", str(given))


def test_FS_2_a_relative_folder_is_one_and_the_same_from_everywhere(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADW_OUTPUT_DIR", "out")
    below = repo.path / "sub" / "folder"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)

    assert find_places(str(below)).agents_dir == f"{repo.path}/out/runtime"


def test_without_a_repository_only_runs_that_are_named_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    for named, reading in (("", True), ("relative", True), (str(tmp_path / "a"), False)):
        monkeypatch.setenv("ADW_AGENTS_DIR", named)
        with pytest.raises(RepositoryError, match="not a git repository"):
            find_places(str(tmp_path), reading=reading)

    here = find_places(str(tmp_path), reading=True)

    assert here.agents_dir == str(tmp_path / "a")
    assert here.worktree_of(str(tmp_path / "a" / "cc73faf1")) is None


LAYOUT = (
    "TASK.md",
    "RESPONSE.md",
    "state/task_history.jsonl",
    "artifacts/manifest.json",
    "children/a-1/TASK.md",
    "children/a-1/SKILL.md",
    "children/a-1/RESPONSE.md",
    "children/a-1/artifacts",
    "children/b-1/TASK.md",
    "children/b-1/RESPONSE.md",
    "children/b-1/artifacts",
)


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    outputs = {"plan": {"path": "plan.md", "description": "The plan"}}
    made = Ground(
        tmp_path.resolve() / "g",
        {
            "a": phase("echo planned > plan.md", outputs=outputs, skill="role.md"),
            "b": phase("true", needs=["a"]),
        },
    )
    made.repo.commit("role", {"workflows/role.md": "Be brief.\n"})
    made.env["ADW_OUTPUT_DIR"] = str(made.base / "out")
    made.env.pop("ADW_AGENTS_DIR")
    yield made
    made.end()


def test_FS_2_FS_19_a_run_below_the_folder_for_output_has_the_whole_layout_and_delivers(
    ground: Ground,
) -> None:
    done = ground.adw("run", "w", "47", "--json")

    assert done.exit_code == 0, done.told()
    adw_id = json.loads(done.stdout)["adw_id"]
    run_dir = ground.base / "out" / "runtime" / adw_id
    assert [name for name in LAYOUT if not (run_dir / name).exists()] == []
    delivered = ground.base / "out" / "artifacts" / adw_id / "plan" / "plan.md"
    assert delivered.read_text() == "planned\n"
    assert not (ground.repo.path / "agents").exists()
    shutil.rmtree(ground.base / "out" / "artifacts")
    ground.ok("resume", adw_id)
    assert delivered.read_text() == "planned\n", "a resume delivers what is missing"


SURROUNDED: Final = """
import sys
from adw.app import places
assert places.GIVEN_OUTPUT == "/sa-output"
places.GIVEN_OUTPUT = sys.argv.pop(1)  # no test writes to the root of the machine
from adw.__main__ import main
sys.exit(main())
"""


def test_FS_2_FS_19_a_given_folder_that_exists_is_where_a_run_lies_and_delivers(
    ground: Ground,
) -> None:
    given = ground.base / "given"
    del ground.env["ADW_OUTPUT_DIR"]
    given.mkdir()

    run = ground.start("run", "w", "47", argv=(sys.executable, "-c", SURROUNDED, str(given)))

    assert run.wait(30) == 0
    (adw_id,) = (path.name for path in (given / "runtime").iterdir() if path.name[0] != ".")
    missing = [name for name in LAYOUT if not (given / "runtime" / adw_id / name).exists()]
    assert missing == []
    assert (given / "artifacts" / adw_id / "plan" / "plan.md").read_text() == "planned\n"
    assert not (ground.repo.path / "agents").exists()


def test_a_folder_that_takes_nothing_is_a_warning_and_fails_no_run(ground: Ground) -> None:
    (ground.base / "out").mkdir()
    (ground.base / "out" / "artifacts").write_text("in the way")

    done = ground.adw("run", "w", "47", "--json")

    assert done.exit_code == 0, done.told()
    assert "warning: plan is not delivered: " in done.stderr
    adw_id = json.loads(done.stdout)["adw_id"]
    shown = json.loads(ground.ok("show", adw_id, "--json").stdout)
    assert [each["detail"].partition(":")[0] for each in shown["warnings"]] == [
        "plan is not delivered"
    ]
