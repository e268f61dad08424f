"""What is asserted around each attempt, and what counts as a change."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import WorktreeError
from adw.workspace.repository import Repository
from adw.workspace.worktree import Worktree, inside
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.support.repo import Repo


def fault(tree: Worktree) -> str:
    with pytest.raises(WorktreeError) as caught:
        tree.check()
    return caught.value.message


def test_the_head_is_found_loose_packed_and_after_a_commit(repo: Repo, made: Worktree) -> None:
    assert made.check().head == repo.head()
    repo.git("pack-refs", "--all")
    assert not (repo.path / ".git/refs/heads" / BRANCH).exists()
    assert made.check().head == repo.head()
    repo.git("-C", made.path, "commit", "--quiet", "--allow-empty", "-m", "x")

    assert made.check().head == repo.git("-C", made.path, "rev-parse", "HEAD") != repo.head()


def test_refs_in_a_format_of_git_alone_are_asked_of_git(repo: Repo, made: Worktree) -> None:
    (repo.path / ".git/reftable").mkdir()

    assert made.check().head == repo.head()
    repo.git("-C", made.path, "checkout", "--quiet", "--detach")
    assert "detached" in fault(made)


def test_case_C4_without_its_git_file_the_tree_is_refused(repo: Repo, made: Worktree) -> None:
    os.unlink(Path(made.path) / ".git")
    before = repo.git("status", "--porcelain"), repo.head()

    assert "git would act on the repository around it" in fault(made)
    for use in (made.fingerprint, made.clean, lambda: made.ensure(repo.head(), made=True)):
        with pytest.raises(WorktreeError):
            use()
    assert (repo.git("status", "--porcelain"), repo.head()) == before


def test_a_git_file_that_leads_elsewhere_is_refused(
    repo: Repo, made: Worktree, located: Repository, tmp_path: Path
) -> None:
    other = Worktree(located, str(tmp_path / "other123"), "other")
    other.ensure(repo.head())
    dot_git = Path(made.path) / ".git"
    shutil.copy(Path(other.path) / ".git", dot_git)
    assert "belongs to another git directory" in fault(made)
    dot_git.unlink()
    dot_git.symlink_to(repo.path / ".git")
    assert "no valid `.git` file" in fault(made)
    dot_git.unlink()
    shutil.copytree(repo.path / ".git", dot_git)
    assert "no valid `.git` file" in fault(made)


def test_a_registration_that_leads_elsewhere_is_refused(
    repo: Repo, made: Worktree, tmp_path: Path
) -> None:
    (repo.path / ".git/worktrees" / ADW_ID / "commondir").write_text(f"{tmp_path}\n")

    assert "does not lead to the repository" in fault(made)


def test_another_branch_a_detached_head_and_a_missing_tree_are_told_apart(
    repo: Repo, made: Worktree
) -> None:
    repo.git("-C", made.path, "switch", "--quiet", "-c", "other")
    assert "is on branch `other`" in fault(made)
    repo.git("-C", made.path, "switch", "--quiet", "--detach")
    assert "detached HEAD" in fault(made)
    shutil.rmtree(made.path)
    assert "is gone" in fault(made)


def test_a_path_through_a_symlink_is_the_same_tree(
    repo: Repo, made: Worktree, located: Repository, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(repo.path)

    assert Worktree(located, f"{link}/trees/{ADW_ID}", BRANCH).check().head == repo.head()
    assert inside(f"{link}/trees/{ADW_ID}", BRANCH).check().head == repo.head()


def test_check_starts_no_process(made: Worktree, started: Callable[[], list[str]]) -> None:
    made.check()

    assert started() == []


@pytest.mark.parametrize(
    "change",
    [
        lambda top: (top / "README.md").write_text("other\n", encoding="utf-8"),
        lambda top: (top / "README.md").write_text("red me!\n", encoding="utf-8"),
        lambda top: (top / "new").write_bytes(b""),
        lambda top: (top / os.fsdecode(b"\xff\xfe")).write_bytes(b"x"),
        lambda top: (top / "src/a.py").unlink(),
        lambda top: (top / "src/a.py").chmod(0o755),
        lambda top: (top / "src/a.py").rename(top / "src/z.py"),
    ],
    ids=["modified", "same size", "untracked", "not utf-8", "deleted", "mode", "renamed"],
)
def test_any_change_of_content_changes_the_fingerprint(
    repo: Repo, made: Worktree, change: Callable[[Path], object]
) -> None:
    before = made.fingerprint()
    index = repo.path / ".git/worktrees" / ADW_ID / "index"
    bytes_before = index.read_bytes()
    objects = repo.git("count-objects")

    change(Path(made.path))

    assert made.fingerprint() != before
    assert not made.clean()
    assert index.read_bytes() == bytes_before, "the user's index is not touched"
    assert repo.git("count-objects") == objects, "nothing is written into the repository"
    assert os.listdir(repo.path / ".git/adw" / ADW_ID) == []


def test_equal_content_has_an_equal_fingerprint(repo: Repo, made: Worktree) -> None:
    before = made.fingerprint()
    readme = Path(made.path) / "README.md"
    text = readme.read_text(encoding="utf-8")
    readme.write_text("x", encoding="utf-8")
    readme.write_text(text, encoding="utf-8")
    os.utime(readme, (1, 1))

    assert made.fingerprint() == before
    assert made.clean()
    repo.git("-C", made.path, "commit", "--quiet", "--allow-empty", "-m", "x")
    assert made.fingerprint() != before, "HEAD counts"


def test_staging_alone_is_no_change_of_content(repo: Repo, made: Worktree) -> None:
    (Path(made.path) / "new").write_text("x", encoding="utf-8")
    before = made.fingerprint()

    repo.git("-C", made.path, "add", "new")

    assert made.fingerprint() == before


def test_a_change_in_the_instant_of_the_index_is_seen(made: Worktree, repo: Repo) -> None:
    """git's "racy" entries: all that stat tells is equal, and the file as old as the index."""
    instant = (1_000_000_000, 1_000_000_000)
    readme = Path(made.path) / "README.md"
    repo.git("config", "core.trustctime", "false")
    os.utime(readme, ns=instant)
    repo.git("-C", made.path, "update-index", "--refresh")
    os.utime(repo.path / ".git/worktrees" / ADW_ID / "index", ns=instant)
    before = made.fingerprint()
    with open(readme, "r+b") as file:
        file.write(b"dear")
    os.utime(readme, ns=instant)

    assert made.fingerprint() != before


def test_a_nested_repository_without_commit_does_not_stop_it(repo: Repo, made: Worktree) -> None:
    before = made.fingerprint()
    repo.git("init", "--quiet", f"{made.path}/nested")
    (Path(made.path) / "nested/x").write_text("x", encoding="utf-8")
    after = made.fingerprint()

    assert after != before
    assert made.fingerprint() == after
