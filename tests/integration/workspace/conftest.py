"""A repository in a directory with a space, a worktree in it, and a git that counts."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.workspace import git
from adw.workspace.repository import Repository, locate
from adw.workspace.worktree import Worktree
from tests.support.repo import Repo, make_repo

ADW_ID = "cc73faf1"
BRANCH = "feat-47-cc73faf1-oauth2"
FILES = {"README.md": "read me\n", "src/a.py": "a = 1\n", "src/b.py": "b = 2\n"}


@pytest.fixture(scope="session")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_repo(tmp_path_factory.mktemp("template") / "repo", FILES).path


@pytest.fixture
def repo(template: Path, tmp_path: Path) -> Repo:
    path = tmp_path.resolve() / "my repo"
    shutil.copytree(template, path, symlinks=True)
    return Repo(path)


@pytest.fixture
def located(repo: Repo) -> Repository:
    return locate(str(repo.path))


@pytest.fixture
def tree(located: Repository) -> Worktree:
    """Not made yet."""
    return Worktree(located, os.path.join(located.root, "trees", ADW_ID), BRANCH)


@pytest.fixture
def made(tree: Worktree, repo: Repo) -> Worktree:
    tree.ensure(repo.head())
    return tree


@pytest.fixture
def shim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script in git's place; `$GIT` in it is the real one."""
    real = shutil.which("git")

    def install(body: str) -> None:
        place = tmp_path / "shim"
        place.mkdir(exist_ok=True)
        script = place / "git"
        script.write_text(f"#!/bin/sh\nGIT={real}\n{body}\n", encoding="utf-8")
        script.chmod(0o755)
        if not os.environ["PATH"].startswith(f"{place}:"):
            monkeypatch.setenv("PATH", f"{place}:{os.environ['PATH']}")

    git.require_version()
    return install


@pytest.fixture
def started(shim: Callable[[str], None], tmp_path: Path) -> Callable[[], list[str]]:
    """Count: the git processes started since this was last asked."""
    log = tmp_path / "git.log"
    shim(f'echo "$@" >>"{log}"\nexec $GIT "$@"')

    def asked() -> list[str]:
        lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines

    return asked
