"""The truth table: branch x registration x directory, and what is never done."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import ExitCode, GitError, HostLocked, UsageError, WorktreeError
from adw.store import files
from adw.workspace import locks
from adw.workspace.repository import Repository, base, locate
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH, FILES
from tests.support.repo import Repo, make_repo


def refused(tree: Worktree, base_sha: str, *, made: bool = False) -> str:
    with pytest.raises(WorktreeError) as caught:
        tree.ensure(base_sha, made=made)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert caught.value.fields["path"] == tree.path
    return caught.value.render()


def content(tree: Worktree) -> dict[str, str]:
    top = Path(tree.path)
    return {str(p.relative_to(top)): p.read_text("utf-8") for p in top.rglob("*") if p.is_file()}


def test_a_fresh_run_gets_its_branch_and_worktree(repo: Repo, tree: Worktree) -> None:
    head = repo.head()
    repo.write({"README.md": "not committed\n"})

    assert tree.ensure(head) == "created"

    assert {k: v for k, v in content(tree).items() if k != ".git"} == FILES
    assert tree.check().head == head
    assert tree.clean()
    assert repo.git("-C", tree.path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert os.listdir(repo.path / ".git/worktrees") == [ADW_ID]
    assert os.listdir(repo.path / ".git/adw" / ADW_ID) == []
    assert "M README.md" in repo.git("status", "--short"), "the main checkout is as it was"


def test_git_processes_of_a_fresh_run_and_of_a_check(
    repo: Repo, started: Callable[[], list[str]]
) -> None:
    located = locate(str(repo.path))
    tree = Worktree(located, os.path.join(located.root, "trees", ADW_ID), BRANCH)
    tree.ensure(base(located))

    # And `git version`, once a process.
    commands = [" ".join(line.split(" -c ")[-1].split()[1:3]) for line in started()]
    assert commands == ["rev-parse --path-format=absolute", "worktree add"]
    tree.check()
    tree.ensure(base(located))
    tree.mend_locks()
    assert started() == []


def test_a_second_call_finds_it(made: Worktree) -> None:
    assert made.ensure("no commit at all") == "reused"


def test_case_C1_i_a_branch_without_worktree_is_attached(repo: Repo, tree: Worktree) -> None:
    repo.git("branch", BRANCH)
    tip = repo.head()
    newer = repo.commit("newer")

    assert tree.ensure(newer) == "attached"

    assert tree.check().head == tip


def test_case_C1_ii_a_registered_worktree_is_used_as_it_is(made: Worktree) -> None:
    assert made.ensure("x", made=True) == "reused"


def test_case_C1_iii_a_foreign_directory_is_refused_and_kept(repo: Repo, tree: Worktree) -> None:
    foreign = Path(tree.path) / "notes.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("mine", encoding="utf-8")

    told = refused(tree, repo.head())

    assert told.startswith("error: a directory that is not this run's worktree lies in its place\n")
    assert foreign.read_text(encoding="utf-8") == "mine"
    assert BRANCH not in repo.git("branch")


def test_an_empty_directory_or_one_of_another_repository(
    repo: Repo, tree: Worktree, tmp_path: Path
) -> None:
    make_repo(Path(tree.path), {"x": "1"})
    refused(tree, repo.head())
    shutil.rmtree(tree.path)
    os.mkdir(tree.path)

    assert tree.ensure(repo.head()) == "created"


def test_case_C1_iv_a_registration_without_directory_is_made_again_on_its_branch(
    repo: Repo, made: Worktree, located: Repository
) -> None:
    other = Worktree(located, os.path.join(located.root, "trees", "other123"), "other")
    other.ensure(repo.head())
    repo.git("-C", made.path, "commit", "--quiet", "--allow-empty", "-m", "work")
    work = made.check().head
    shutil.rmtree(made.path)
    shutil.move(other.path, other.path + "-away")  # as on a disk that is not there just now

    assert made.ensure(repo.head(), made=True) == "recreated"

    assert made.check().head == work
    shutil.move(other.path + "-away", other.path)
    assert other.ensure(repo.head()) == "reused"
    kept = repo.path / ".git/adw" / ADW_ID / "registration-1"
    assert (kept / "index").exists(), "the index may be all that knows staged work"


def test_case_C2_a_dirty_tree_is_kept(repo: Repo, made: Worktree) -> None:
    (Path(made.path) / "README.md").write_text("changed", encoding="utf-8")
    (Path(made.path) / "new").write_text("new", encoding="utf-8")

    assert made.ensure(repo.head(), made=True) == "reused"

    assert content(made)["README.md"] == "changed"
    assert content(made)["new"] == "new"


def test_case_C2_another_branch_is_refused_and_not_switched(repo: Repo, made: Worktree) -> None:
    repo.git("-C", made.path, "switch", "--quiet", "-c", "elsewhere")

    told = refused(made, repo.head(), made=True)

    assert f"is on branch `elsewhere`, `{BRANCH}` is expected" in told
    assert repo.git("-C", made.path, "branch", "--show-current") == "elsewhere"


def test_case_C2_tree_and_branch_both_gone_is_refused(repo: Repo, made: Worktree) -> None:
    repo.git("worktree", "remove", "--force", made.path)
    repo.git("branch", "-D", BRANCH)

    told = refused(made, repo.head(), made=True)

    assert f"the worktree and its branch `{BRANCH}` are both gone" in told
    assert BRANCH not in repo.git("branch")
    assert made.ensure(repo.head()) == "created", "with no history nothing can be lost"


def test_a_branch_that_was_deleted_under_its_worktree_is_refused(
    repo: Repo, made: Worktree
) -> None:
    repo.git("update-ref", "-d", f"refs/heads/{BRANCH}")

    assert "is gone" in refused(made, repo.head(), made=True)


def test_a_name_that_another_worktree_has_is_refused(
    repo: Repo, tree: Worktree, tmp_path: Path
) -> None:
    repo.git("worktree", "add", "--quiet", str(tmp_path / "elsewhere" / ADW_ID))

    assert "is registered for a worktree elsewhere" in refused(tree, repo.head())


def test_a_locked_registration_without_directory_is_refused(repo: Repo, made: Worktree) -> None:
    repo.git("worktree", "lock", "--reason", "on the other disk", made.path)
    assert made.ensure("x") == "reused"
    shutil.move(made.path, made.path + "-away")

    assert "is locked" in refused(made, repo.head(), made=True)


def test_damage_without_a_note_of_ours_is_refused(repo: Repo, made: Worktree) -> None:
    (repo.path / ".git/worktrees" / ADW_ID / "commondir").write_text("", encoding="utf-8")

    assert "registration is damaged" in refused(made, repo.head(), made=True)
    assert (Path(made.path) / "README.md").exists()


def test_a_branch_in_a_rebase_elsewhere_shows_the_words_of_git(repo: Repo, tree: Worktree) -> None:
    repo.git("switch", "--quiet", "-c", BRANCH)
    repo.git("rebase", "--quiet", "--exec", "false", "--root", check=False)

    with pytest.raises(GitError, match="checked out"):
        tree.ensure(repo.head())

    repo.git("rebase", "--abort")
    repo.git("switch", "--quiet", "main")
    assert tree.ensure(repo.head()) == "attached"


def test_case_C5_a_worktree_is_made_in_the_named_repository(
    repo: Repo, tree: Worktree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outer = make_repo(tmp_path / "outer", {"f": "1"})
    before = outer.git("for-each-ref"), outer.git("config", "--list", "--local")
    monkeypatch.chdir(outer.path)

    tree.ensure(repo.head())

    assert (outer.git("for-each-ref"), outer.git("config", "--list", "--local")) == before
    assert len(outer.git("worktree", "list").splitlines()) == 1
    assert len(repo.git("worktree", "list").splitlines()) == 2


def test_the_lock_of_the_repository_is_waited_for_with_a_limit(
    repo: Repo, tree: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "REPOSITORY_WAIT_S", 0.05)
    fd = files.open_lock(str(repo.path / ".git/adw.lock"))
    assert files.lock(fd)

    with pytest.raises(HostLocked) as caught:
        tree.ensure(repo.head())
    os.close(fd)

    assert caught.value.exit_code is ExitCode.BUSY
    assert tree.ensure(repo.head()) == "created"


def test_the_lock_lives_on_in_git_when_adw_is_killed(
    repo: Repo, tree: Worktree, shim: Callable[[str], None]
) -> None:
    """A git that outlives its adw must not meet the git of the next one."""
    lock = repo.path / ".git/adw.lock"
    shim(f'ls -l /proc/$$/fd | grep -q "{lock}" && touch "{repo.path}/held"\nexec $GIT "$@"')

    tree.ensure(repo.head())

    assert (repo.path / "held").exists()


@pytest.mark.parametrize("name", ["-rf", "a..b", "x.lock", "@{-1}", "a b", "@", "refs/heads/x"])
@pytest.mark.hostile("H11", "H12")
def test_H11_a_hostile_branch_name_reaches_no_git(located: Repository, name: str) -> None:
    with pytest.raises(UsageError, match="is not a branch name"):
        Worktree(located, "/nowhere/cc73faf1", name)
