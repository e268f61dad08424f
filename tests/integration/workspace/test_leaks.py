"""Secrets are found in commits: in files, their names, and messages; what was there before is not."""

import base64
from pathlib import Path

import pytest

from adw.app.secrecy import searched
from adw.errors import GitError
from adw.workspace.leaks import Leak, leaks
from tests.support.repo import Repo, make_repo

TOKEN = "hunter2-hunter2"


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return make_repo(tmp_path / "repo", {"old.txt": TOKEN, "kept.txt": "kept\n"})


def found(repo: Repo, base: str, **secrets: str) -> list[Leak]:
    return leaks(str(repo.path), base, searched(secrets or {"TOKEN": TOKEN}))


def commit(repo: Repo, files: dict[str, str | bytes], message: str = "work") -> str:
    for name, content in files.items():
        path = repo.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    repo.git("add", "-A")
    repo.git("commit", "-qm", message)
    return repo.head()


@pytest.mark.hostile("H45")
@pytest.mark.parametrize(
    "content",
    [
        f"token = {TOKEN}\n",
        TOKEN.encode().hex(),
        b"\x00\x01" + TOKEN.encode() + b"\xff",
        b"x" * (3 << 20) + TOKEN.encode() + b"x" * (1 << 20),
        base64.b64encode(b"ab" + TOKEN.encode() + b"abc"),
        f"- list\n-- {TOKEN}\n",
    ],
)
def test_a_secret_in_a_file_is_found(repo: Repo, content: str | bytes) -> None:
    base = repo.head()
    commit(repo, {"innocent.txt": "nothing"})
    head = commit(repo, {"a dir/n\u00e4me.bin": content})
    commit(repo, {"more.txt": "nothing"})
    assert found(repo, base) == [Leak(head, "a dir/n\u00e4me.bin", "TOKEN")]


@pytest.mark.hostile("H45")
def test_a_secret_that_was_taken_out_again_is_in_the_history(repo: Repo) -> None:
    base = repo.head()
    head = commit(repo, {"a.txt": f"{TOKEN}\n"})
    commit(repo, {"a.txt": "gone\n"})
    assert found(repo, base) == [Leak(head, "a.txt", "TOKEN")]


@pytest.mark.hostile("H45")
@pytest.mark.parametrize(
    ("files", "message"),
    [({f"{TOKEN}.txt": ""}, "m"), ({f"{TOKEN}.txt": "x\n"}, "m"), ({"b": ""}, f"a\n\n- {TOKEN}")],
)
def test_a_secret_beside_the_content_is_found_and_not_told(
    repo: Repo, files: dict[str, str | bytes], message: str
) -> None:
    base = repo.head()
    head = commit(repo, files, message)
    assert found(repo, base) == [Leak(head, None, "TOKEN")]


def test_what_was_there_when_the_run_began_is_no_leak(repo: Repo) -> None:
    base = repo.head()
    commit(repo, {"old.txt": "changed\n", "kept.txt": f"{TOKEN[:5]}\n"})
    assert found(repo, base) == []


def test_a_merge_that_brings_a_secret_in_by_itself_is_found(repo: Repo) -> None:
    base = repo.head()
    repo.git("checkout", "-qb", "side")
    commit(repo, {"kept.txt": "side\n"})
    repo.git("checkout", "-q", "-")
    commit(repo, {"kept.txt": "main\n"})
    with pytest.raises(AssertionError):
        repo.git("merge", "-q", "side")
    head = commit(repo, {"kept.txt": f"{TOKEN}\n"})
    assert Leak(head, "kept.txt", "TOKEN") in found(repo, base)


def test_of_two_secrets_each_is_named_and_short_ones_are_not_looked_for(repo: Repo) -> None:
    base = repo.head()
    head = commit(repo, {"a.txt": "first-one second\nline-of-second\n ab"})
    got = found(repo, base, ONE="first-one", TWO="first line\nline-of-second", THREE="ab")
    assert got == [Leak(head, "a.txt", "ONE"), Leak(head, "a.txt", "TWO")]


def test_commits_that_cannot_be_read_are_told(repo: Repo) -> None:
    with pytest.raises(GitError, match="0123456"):
        found(repo, "0123456" * 5)
