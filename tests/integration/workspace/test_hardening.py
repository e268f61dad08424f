"""What is planted in the shared configuration does not run; what git waits for is bounded."""

import os
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from adw.errors import EnvironmentFault, GitError
from adw.workspace import git
from adw.workspace.git import ask_git, run_git
from adw.workspace.repository import Repository, locate, notice
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID
from tests.support.repo import Repo
from tests.support.wait import until


def plant(repo: Repo, mark: Path) -> None:
    """A hook of every name, a monitor, a pager, a credential helper: each leaves a mark."""
    hooks = mark.parent / "planted"  # no space in it: git gives some of these to a shell
    trap = f"#!/bin/sh\necho $0 >>'{mark}'\n"
    names = ["post-checkout", "reference-transaction", "post-index-change", "pre-commit"]
    repo.write({f"{hooks}/{name}": trap for name in [*names, "trap"]})
    for key in ("core.fsmonitor", "core.pager", "credential.helper", "core.sshCommand"):
        repo.git("config", key, str(hooks / "trap"))
    repo.git("config", "core.hooksPath", str(hooks))
    repo.git("config", "alias.status", f"!{hooks}/trap")
    repo.git("config", "pager.status", str(hooks / "trap"))


@pytest.mark.hostile("H15")
def test_H15_nothing_planted_in_the_shared_config_runs(
    repo: Repo, located: Repository, tree: Worktree, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    head = repo.head()
    plant(repo, mark)

    locate(str(repo.path))
    notice(located)
    tree.ensure(head)
    locate(tree.path)
    tree.fingerprint()
    tree.clean()
    tree.mend_locks()

    assert not mark.exists(), mark.read_text(encoding="utf-8")
    subprocess.run(["git", "status"], cwd=repo.path, check=True, capture_output=True)
    assert mark.exists(), "the plant is alive"


def test_a_look_takes_no_index_lock(repo: Repo, made: Worktree) -> None:
    """Else a phase's own git would meet `index.lock` whenever somebody looks."""
    index = repo.path / ".git/worktrees" / ADW_ID / "index"
    os.utime(Path(made.path) / "README.md", (1, 1))  # git would like to note that
    before = index.stat()

    assert made.clean()

    assert index.stat() == before
    repo.git("-C", made.path, "status")
    assert index.stat().st_ino != before.st_ino, "without care it is rewritten"


def test_a_lock_of_another_git_is_waited_for(repo: Repo) -> None:
    lock = repo.path / ".git/index.lock"
    lock.touch()
    repo.write({"x": "1"})
    asked = threading.Event()

    def free() -> None:
        asked.wait(10)
        lock.unlink()

    thread = threading.Thread(target=free)
    thread.start()
    first = git._start

    def seen(*args: object) -> git.Outcome:
        done = first(*args)  # type: ignore[arg-type]
        asked.set()
        return done

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(git, "_start", seen)
        run_git(["add", "x"], str(repo.path), kind="commit")
    thread.join()

    assert repo.git("diff", "--cached", "--name-only") == "x"


def test_a_lock_that_stays_ends_in_an_error_that_names_it(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(git, "LOCK_WAIT_S", 0.1)
    (repo.path / ".git/index.lock").touch()

    with pytest.raises(GitError) as caught:
        run_git(["add", "README.md"], str(repo.path), kind="commit")

    assert "index.lock': File exists" in caught.value.render()
    assert "remove the file" in str(caught.value.line("hint"))


def test_an_error_has_exit_code_command_and_the_last_lines(repo: Repo) -> None:
    with pytest.raises(GitError) as caught:
        run_git(["rev-parse", "--verify", "no such"], str(repo.path), kind="read")

    assert caught.value.render() == (
        "error: `git rev-parse --verify 'no such'` failed with exit code 128\n"
        "  why: fatal: Needed a single revision"
    )


def test_messages_are_untranslated_and_hooks_keep_their_locale(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")

    env = git.environment("commit", {"GIT_CEILING_DIRECTORIES": "/x"})

    assert (env["LC_ALL"], env["LANGUAGE"]) == ("de_DE.UTF-8", "C")
    assert sorted(k for k in env if k.startswith("GIT_")) == [
        "GIT_CEILING_DIRECTORIES", "GIT_EDITOR", "GIT_TERMINAL_PROMPT",
    ]  # fmt: skip


def test_a_git_that_hangs_is_ended_with_its_children(
    repo: Repo, shim: Callable[[str], None], tmp_path: Path
) -> None:
    pids = tmp_path / "pids"
    shim(f'sleep 60 & echo $! $$ >"{pids}"; wait')

    with pytest.raises(GitError, match=r"not done after 0\.3 s"):
        ask_git(["status"], str(repo.path), kind="read", timeout_s=0.3)

    for pid in pids.read_text(encoding="utf-8").split():
        until(partial(_gone, pid), what=pid)


def _gone(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_an_old_or_missing_git_is_told(
    repo: Repo, shim: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    shim("echo git version 2.35.9")
    git.require_version.cache_clear()
    with pytest.raises(EnvironmentFault) as caught:
        git.require_version()
    assert caught.value.render() == (
        "error: `git version 2.35.9` is installed, 2.36 or newer is expected\n"
        "  hint: install a newer git"
    )
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(EnvironmentFault, match="is not on PATH"):
        locate(str(repo.path))


@pytest.mark.hostile("H46")
def test_control_characters_of_git_do_not_reach_the_terminal() -> None:
    assert git.last_lines(b"a\x1b[31mred\x07\r\nb\x9b\xff\n\n") == "a?[31mred?\nb\ufffd\ufffd"
    url = b"fatal: unable to access 'https://me:p%40ss@h.example/a@b/': no"
    assert git.last_lines(url) == "fatal: unable to access 'https://h.example/a@b/': no"
