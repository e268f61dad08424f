"""`adw init`."""

from pathlib import Path

import pytest

from tests.cli.handmade import call
from tests.support.adw import Adw
from tests.support.repo import make_repo

WROTE = "wrote  adw.yaml\nwrote  workflows/example.yaml\nwrote  issues/1.md\n"
NEXT = "next: adw run example 1\n"


@pytest.mark.sweep
def test_what_it_writes_is_valid_and_runs(tmp_path: Path) -> None:
    adw = Adw(tmp_path)

    adw.run("init").stdout(WROTE + NEXT).stderr("").ok()
    adw.run("validate").stdout(
        "workflows/example.yaml: valid (4 phases)\nadw.yaml: valid\n"
    ).stderr("").ok()
    adw.run("run", "example", "1", "--json").ok()

    log = adw.repo.git("log", "--format=%s", "--all")
    assert "Say hello" in log


def test_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    repo = make_repo(tmp_path)
    call(repo, "init")

    said = call(repo, "init")

    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "exists adw.yaml\nexists workflows/example.yaml\nexists issues/1.md\nnothing to do\n"
    )


def test_what_exists_is_never_overwritten_whatever_it_is(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, {"adw.yaml": "ports: none\n"})
    (tmp_path / "workflows").mkdir()
    (tmp_path / "workflows" / "example.yaml").symlink_to("nowhere")

    said = call(repo, "init")

    assert said.out == (
        "wrote  issues/1.md\nexists adw.yaml\nexists workflows/example.yaml\n" + NEXT
    )
    assert (tmp_path / "adw.yaml").read_text() == "ports: none\n"
    assert not (tmp_path / "nowhere").exists()


def test_a_file_where_a_folder_is_needed_is_one_clear_error(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, {"issues": "none\n"})

    said = call(repo, "init")

    assert said.code == 4
    path = tmp_path.resolve() / "issues" / "1.md"
    assert said.err == f"error: cannot write `{path}`: File exists\n"


def test_it_writes_to_the_top_of_the_repository(tmp_path: Path) -> None:
    repo = make_repo(tmp_path, {"deep/down/file": ""})
    adw = Adw(tmp_path, _repo=repo)

    adw.run("init").cwd(tmp_path / "deep" / "down").stdout(WROTE + NEXT).ok()

    assert (tmp_path / "adw.yaml").is_file()


def test_outside_of_a_repository_nothing_is_written(tmp_path: Path) -> None:
    adw = Adw(tmp_path)
    outside = tmp_path / "outside"
    outside.mkdir()

    adw.env(GIT_CEILING_DIRECTORIES="/").cwd(outside).run("init").stdout("").fails(2)

    assert list(outside.iterdir()) == []
