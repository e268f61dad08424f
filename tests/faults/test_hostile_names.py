"""H9 to H14: ids, branches, remotes and submodules that are more than names."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, call, made_run
from tests.support.ground import Ground, phase
from tests.support.repo import Repo

IDS: Final = (
    "../x", "/etc", ".", "..", "", "a/b", "a/../../b", "A1234567", "CC73FAF1", "cc73faf1\n", "con",
    "c" * 300, "-rf", "--help ", "cc73faf1 ", "ｃc73faf1", "сc73faf1", "cc73faf1\x1b[31m", "%2e%2e",
    "~", "$HOME", ".new-cc73faf1", "*",
)  # fmt: skip
READERS: Final = (
    ("status",), ("show",), ("why",), ("logs",), ("history",), ("path",), ("resume",), ("cancel",),
    ("pause",), ("rm",), ("doctor", "--repair"), ("doctor", "--restore"), ("state", "get"),
    ("artifacts",), ("diff",), ("task", "show"),
)  # fmt: skip


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """One workflow, one issue, no run."""
    return handmade.repository(tmp_path / "repo")


def everything(folder: Path) -> set[str]:
    return {str(path) for path in folder.rglob("*") if ".git/" not in str(path)}


@pytest.mark.hostile("H9", "H10")
@pytest.mark.parametrize("text", IDS)
def test_H9_an_id_that_is_none_makes_and_opens_nothing(repo: Repo, text: str) -> None:
    """H10: also one that differs from a run by case alone."""
    made_run(repo)
    before = everything(repo.path.parent)

    said = call(repo, "run", "w", "47", "--parallel", f"--adw-id={text}")
    reads = [call(repo, *words, "--", text) for words in READERS]

    assert said.code == 2, said
    assert all(each.code == 2 for each in reads), reads
    shown = "".join(each.err + each.out for each in (said, *reads))
    assert "Traceback" not in shown
    assert "\x1b" not in shown
    assert everything(repo.path.parent) == before


@pytest.mark.hostile("H10")
@pytest.mark.parametrize("kind", ["run", "file", "link", "empty folder"])
def test_H10_an_id_that_is_taken_is_never_merged_into(repo: Repo, kind: str) -> None:
    """A run goes on by its id only for its own issue."""
    path = repo.path / "agents" / ID
    if kind == "run":
        made_run(repo)
    else:
        path.parent.mkdir(exist_ok=True)
    if kind == "file":
        path.write_text("mine")
    elif kind == "link":
        path.symlink_to(repo.path)
    elif kind == "empty folder":
        path.mkdir()
    before = everything(repo.path)

    repo.write({"issues/48.md": handmade.ISSUE})
    before |= {str(repo.path / "issues" / "48.md")}
    said = call(repo, "run", "w", "48", "--new", "--parallel", "--adw-id", ID)

    assert said.code in {2, 4}, said
    assert everything(repo.path) - before <= {str(repo.path / "agents" / ".lock")}


BRANCHES: Final = (
    "-rf", "a..b", "x.lock", "@{-1}", "a b", "a\x07b", "@", "refs/heads/x", "HEAD", "a" * 300, "é",
    "--upload-pack=touch x", "a/.b", "/a", "a/", "x;touch y", "$(touch y)", "a\nb", "a:b", "+a",
)  # fmt: skip


@pytest.mark.hostile("H11", "H12")
@pytest.mark.parametrize("name", BRANCHES)
def test_H11_H12_a_branch_that_is_no_name_starts_nothing(repo: Repo, name: str) -> None:
    before = repo.git("for-each-ref")

    said = call(repo, "run", "w", "47", "--set", f"branch_name={name}")

    assert said.code == 2, said
    assert "Traceback" not in said.err
    assert repo.git("for-each-ref") == before
    assert not (repo.path / "trees").exists()


PUSH: Final = {
    "build": phase("echo built >built.txt"),
    "commit": {"use": "commit", "needs": ["build"]},
    "push": {"use": "push", "needs": ["commit"]},
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """A run that pushes."""
    found = Ground(tmp_path / "ground", PUSH, config={"ports": "none"})
    yield found
    found.end()


@pytest.mark.sweep
@pytest.mark.hostile("H13")
@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% {planted}",
        "--upload-pack=touch {planted};x",
        "ssh://-oProxyCommand=touch%20{planted}/x",
        "http://user:tok3n-canary@127.0.0.1:1/x.git",
    ],
)
def test_H13_a_remote_starts_no_program_and_tells_no_password(ground: Ground, url: str) -> None:
    planted = ground.base / "planted"
    ground.repo.git("config", "remote.origin.url", url.format(planted=planted))

    done = ground.adw("run", "w", "47", "--no-wait")

    assert done.exit_code in {1, 6}, done.told()
    assert ground.entries()[-1][0] == "push"
    assert not planted.exists()
    assert "tok3n" not in done.told().replace(url, "")
    for path in ground.run_dir.rglob("*"):
        if path.is_file():
            assert b"tok3n" not in path.read_bytes(), path


@pytest.mark.sweep
@pytest.mark.hostile("H14")
def test_H14_a_hostile_submodule_is_not_fetched(ground: Ground) -> None:
    planted = ground.base / "planted"
    modules = (
        f'[submodule "../../x"]\n\tpath = sub\n\turl = ext::sh -c touch% {planted}\n'
        f'\tupdate = !touch {planted}\n[submodule "y"]\n\tpath = -x\n\turl = --upload-pack=touch\n'
    )
    ground.repo.write({".gitmodules": modules})
    ground.repo.git("add", ".gitmodules")
    head = ground.repo.head()
    ground.repo.git("update-index", "--add", "--cacheinfo", f"160000,{head},sub")
    ground.repo.git("commit", "-q", "-m", "submodules")

    done = ground.adw("run", "w", "47", "--no-wait")

    assert [entry[0] for entry in ground.entries()[:2]] == ["build", "commit"], done.told()
    assert ground.entries()[1][2], "the commit is made"
    assert not planted.exists()
    assert os.listdir(ground.repo.path / "trees" / ground.adw_id / "sub") == []
