"""Where the main checkout is, from wherever adw is called."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import ExitCode, RepositoryError
from adw.workspace.repository import (
    Repository,
    base,
    base_branch,
    current_branch,
    hide,
    locate,
    notice,
)
from adw.workspace.worktree import Worktree
from tests.support.repo import Repo, make_repo


def refused(start: Path | str) -> RepositoryError:
    with pytest.raises(RepositoryError) as caught:
        locate(str(start))
    assert caught.value.exit_code is ExitCode.USAGE
    assert caught.value.line("hint")
    return caught.value


def test_ST_1_a_subdirectory_a_symlink_and_a_worktree_lead_to_the_main_checkout(
    repo: Repo, made: Worktree, tmp_path: Path
) -> None:
    link = tmp_path / "link"
    link.symlink_to(repo.path / "src")
    inside = Path(made.path) / "src"

    found = {(locate(str(s)).root, locate(str(s)).git_dir) for s in (repo.path, link, inside)}

    assert found == {(str(repo.path), str(repo.path / ".git"))}


def test_one_git_process_locates_the_main_checkout_and_its_commit(
    repo: Repo, started: Callable[[], list[str]]
) -> None:
    located = locate(str(repo.path / "src"))

    assert base(located) == located.head
    assert len(started()) == 1
    assert located.head == repo.head()


def test_the_environment_cannot_point_git_elsewhere(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))

    assert locate(str(repo.path)).root == str(repo.path)


def test_no_repository_is_named(tmp_path: Path) -> None:
    assert refused(tmp_path).render() == (
        "error: this is not a git repository\n"
        f"  at: {tmp_path}\n"
        "  hint: call adw inside one, or make one: git init"
    )


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(RepositoryError, match=r"`.*/gone` does not exist"):
        locate(str(tmp_path / "gone"))


def test_a_bare_repository_is_refused(repo: Repo, tmp_path: Path) -> None:
    repo.git("clone", "--quiet", "--bare", ".", str(tmp_path / "bare.git"))

    assert "is bare" in refused(tmp_path / "bare.git").message


def test_inside_the_git_directory_is_refused(repo: Repo) -> None:
    assert "inside the git directory" in refused(repo.path / ".git").message


def test_the_worktree_of_a_bare_repository_needs_a_configured_folder(
    repo: Repo, tmp_path: Path
) -> None:
    bare = tmp_path / "bare.git"
    repo.git("clone", "--quiet", "--bare", ".", str(bare))
    linked = tmp_path / "linked"
    repo.git("-C", str(bare), "worktree", "add", "--quiet", str(linked))

    assert "ADW_AGENTS_DIR" in str(refused(linked).line("hint"))
    assert locate(str(linked), agents_dir="/runs").root == str(linked)


def test_a_separate_git_dir_works_from_the_main_checkout_only(tmp_path: Path) -> None:
    checkout = tmp_path.resolve() / "checkout"
    away = tmp_path.resolve() / "away"
    make_repo(checkout, {"f": "1"})
    Repo(checkout).git("init", "--quiet", f"--separate-git-dir={away}")
    linked = tmp_path / "linked"
    Repo(checkout).git("worktree", "add", "--quiet", str(linked))

    found = locate(str(checkout))

    assert (found.root, found.git_dir) == (str(checkout), str(away))
    assert "cannot be told" in refused(linked).message
    assert Worktree(found, str(checkout / "trees/cc73faf1"), "b").ensure(base(found)) == "created"


def test_a_submodule_is_a_repository_of_its_own(repo: Repo, tmp_path: Path) -> None:
    part = make_repo(tmp_path / "part", {"p": "1"})
    repo.git(
        "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(part.path), "sub"
    )

    found = locate(str(repo.path / "sub"))

    assert found.root == str(repo.path / "sub")
    assert found.git_dir == str(repo.path / ".git/modules/sub")
    tree = Worktree(found, str(repo.path / "sub/trees/cc73faf1"), "b")
    assert tree.ensure(base(found)) == "created"
    assert tree.clean()


def test_before_the_first_commit_only_the_base_is_missing(tmp_path: Path) -> None:
    repo = make_repo(tmp_path / "new", commit=False)
    located = locate(str(repo.path))

    with pytest.raises(RepositoryError, match="no commit yet") as caught:
        base(located)
    assert caught.value.exit_code is ExitCode.USAGE


def test_the_base_branch_is_local_or_of_a_remote_and_never_an_expression(
    repo: Repo, tmp_path: Path
) -> None:
    first = repo.head()
    second = repo.commit("second")
    repo.git("branch", "dev", first)
    repo.git("tag", "main", first)  # a tag of the same name does not win
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "--quiet", ".", str(clone.path))
    located, cloned = locate(str(repo.path)), locate(str(clone.path))

    assert base(located, "dev") == first
    assert base(located, "main") == second
    assert base(cloned, "dev") == base(cloned, "origin/dev") == first
    for name in ("main~1", "@{-1}", "--all", "HEAD", ""):
        with pytest.raises(RepositoryError, match="does not exist"):
            base(located, name)


def test_case_C14_the_base_is_configured_or_that_of_the_remote_or_what_is_checked_out(
    repo: Repo, located: Repository, tmp_path: Path
) -> None:
    clone = Repo(tmp_path / "clone")
    repo.git("clone", "--quiet", ".", str(clone.path))
    clone.git("switch", "--quiet", "--create", "topic")
    cloned = locate(str(clone.path))

    assert base_branch(located) == "main"
    assert base_branch(located, "dev") == base_branch(cloned, "dev") == "dev"
    assert (base_branch(cloned), current_branch(cloned)) == ("main", "topic")
    clone.git("branch", "--quiet", "-D", "main")
    assert base_branch(cloned) == "origin/main"
    assert base(cloned, "origin/main") == repo.head()
    clone.git("update-ref", "-d", "refs/remotes/origin/main")
    assert base_branch(cloned) == "topic"  # what origin/HEAD names is gone
    repo.git("switch", "--quiet", "--detach")
    assert base_branch(located) is None
    assert base(located, None) == repo.head()


def test_a_dirty_or_detached_main_checkout_is_told_in_one_line(
    repo: Repo, located: Repository
) -> None:
    assert notice(located) is None
    repo.git("mv", "src/a.py", "src/c.py")
    repo.write({"README.md": "changed\n", "new/x": "", "new/y": ""})
    assert notice(located) == (
        "the main checkout has 2 modified and 1 untracked files that the worktree will not see"
    )
    head = repo.head()
    repo.git("checkout", "--quiet", "--detach")

    told = notice(located)

    assert told is not None
    assert told.startswith(f"the main checkout is detached at {head[:12]} and has 2 modified")


def test_what_is_read_in_the_main_checkout_is_not_told_as_unseen(
    repo: Repo, located: Repository
) -> None:
    new = {"adw.yaml": "", "workflows/w.yaml": "", "workflows/w/role.md": "", "issues/47.md": ""}
    repo.write(new)
    assert notice(located) is None
    repo.git("add", "-A")
    repo.git("commit", "--quiet", "-m", "more")
    repo.write(dict.fromkeys(new, "changed\n"))
    repo.write({"workflows/build.sh": ""})

    assert notice(located) == (
        "the main checkout has 1 untracked file that the worktree will not see"
    )


def test_its_folders_are_hidden_once_and_other_lines_kept(repo: Repo, located: Repository) -> None:
    exclude = repo.path / ".git/info/exclude"
    exclude.write_text("*.swp", encoding="utf-8")
    exclude.chmod(0o640)

    assert hide(located)
    assert not hide(located)

    assert exclude.read_text(encoding="utf-8").splitlines() == [
        "*.swp",
        "# hidden by adw: its runs and their worktrees",
        "/agents/",
        "/trees/",
    ]
    assert exclude.stat().st_mode & 0o777 == 0o640
    repo.write({"agents/x": "", "trees/y": "", "sub/agents/seen": ""})
    assert repo.git("status", "--short", "-uall") == "?? sub/agents/seen"


def test_hiding_makes_the_exclude_file_and_follows_a_symlink(
    repo: Repo, located: Repository, tmp_path: Path
) -> None:
    info = repo.path / ".git/info"
    (info / "exclude").unlink()
    info.rmdir()
    assert hide(located, ("agents",))
    target = tmp_path / "dotfiles"
    (info / "exclude").unlink()
    target.write_text("", encoding="utf-8")
    (info / "exclude").symlink_to(target)

    assert hide(located, ("agents",))

    assert (info / "exclude").is_symlink()
    assert "/agents/" in target.read_text(encoding="utf-8")


def test_in_a_folder_with_tracked_files_only_runs_are_hidden(
    repo: Repo, located: Repository
) -> None:
    repo.commit("the project has agents of its own", {"agents/planner.py": ""})

    assert hide(located)
    assert not hide(located)

    repo.write({"agents/new.py": "", "agents/cc73faf1/adw_state.json": "", "trees/x": ""})
    assert repo.git("status", "--short", "-uall") == "?? agents/new.py"


def test_a_repository_of_another_user_shows_the_remedy_of_git(
    repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "adw.workspace.git._ENV", {"read": {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}}
    )

    assert "safe.directory" in str(refused(repo.path).line("hint"))


def test_names_that_are_not_utf8_are_only_names(tmp_path: Path) -> None:
    odd = os.fsdecode(b"caf\xe9 \xff")
    repo = make_repo(tmp_path.resolve() / odd, {"f": "1"})
    located = locate(str(repo.path))
    tree = Worktree(located, os.path.join(located.root, "trees", "cc73faf1"), "b")

    assert located.root == str(repo.path)
    assert tree.ensure(base(located)) == "created"
    assert tree.clean()
    (Path(tree.path) / odd).write_bytes(b"x")
    assert not tree.clean()
    assert len(tree.fingerprint()) == 64
    assert locate(tree.path).root == str(repo.path)
