"""What is kept of a tree, how little git that takes, and how a tree goes back."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import GitError, HostLocked, WorktreeError
from adw.store import files
from adw.workspace import rescue
from adw.workspace.repository import locate
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH, FILES
from tests.support.repo import Repo, make_repo

REF = f"refs/adw/{ADW_ID}/build-1-before"


def top(tree: Worktree) -> Path:
    return Path(tree.path)


def content(tree: Worktree) -> dict[str, bytes]:
    return {
        str(p.relative_to(top(tree))): os.readlink(p).encode() if p.is_symlink() else p.read_bytes()
        for p in top(tree).rglob("*")
        if (p.is_file() or p.is_symlink()) and p.name != ".git" and ".git/" not in str(p)
    }


def listed(repo: Repo, commit: str) -> set[str]:
    names = repo.git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", commit)
    return set(names.splitlines())


def dirty(tree: Worktree) -> None:
    """Every kind of change at once."""
    at = top(tree)
    (at / "README.md").write_text("changed\n")
    (at / "src/a.py").unlink()
    (at / "src/b.py").chmod(0o755)
    (at / "new dir").mkdir()
    (at / "new dir/ü [1]*.txt").write_text("new\n")
    (at / "link").symlink_to("nowhere")


def test_a_clean_tree_is_told_by_one_git_and_kept_nowhere(
    repo: Repo, made: Worktree, started: Callable[[], list[str]]
) -> None:
    assert made.keep("build-1-before", ()) is None

    assert [line.split(" --work-tree ")[1].split()[2] for line in started()] == ["status"]
    assert repo.git("for-each-ref", "refs/adw") == ""


def test_case_C9_all_that_is_tracked_and_untracked_is_kept(
    repo: Repo, made: Worktree, started: Callable[[], list[str]]
) -> None:
    dirty(made)
    before = content(made)
    index = (repo.path / ".git/worktrees" / ADW_ID / "index").read_bytes()

    kept = made.keep("build-1-before", ())

    assert len(started()) == 5, "status, add, write-tree, commit-tree, update-ref"
    assert kept is not None
    assert (kept.ref, kept.left_out) == (REF, ())
    assert repo.git("rev-parse", REF) == kept.commit
    assert repo.git("rev-parse", f"{REF}^") == repo.head()
    assert listed(repo, REF) == {"README.md", "src/b.py", "new dir/ü [1]*.txt", "link"}
    assert repo.git("show", f"{REF}:README.md") == "changed"
    assert content(made) == before
    assert (repo.path / ".git/worktrees" / ADW_ID / "index").read_bytes() == index
    assert repo.git("stash", "list") == ""
    assert os.listdir(repo.path / ".git/adw" / ADW_ID) == []


def test_it_needs_no_identity_and_no_hook_of_the_user(repo: Repo, made: Worktree) -> None:
    repo.git("config", "--remove-section", "user")
    repo.git("config", "user.useConfigOnly", "true")
    repo.write({".git/hooks/reference-transaction": f"#!/bin/sh\ntouch {repo.path}/ran\n"})
    dirty(made)

    kept = made.keep("build-1-before", ())

    assert kept is not None
    assert repo.git("log", "-1", "--format=%an <%ae>", kept.commit) == "adw <adw@localhost>"
    assert not (repo.path / "ran").exists()


def test_what_is_not_kept_is_listed(
    repo: Repo, made: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue, "LIMIT_BYTES", 10)
    (top(made) / ".gitignore").write_text("*.log\n")
    (top(made) / "big file").write_text("x" * 11)
    (top(made) / "README.md").write_text("tracked, whatever its size\n")
    (top(made) / "x.log").write_text("ignored")
    (top(made) / ".env").write_text("SECRET=1")
    repo.git("-C", made.path, "add", ".env")
    (top(made) / "config/local").mkdir(parents=True)
    (top(made) / "config/local/key").write_text("SECRET=2")
    repo.git("init", "--quiet", f"{made.path}/nested")
    (top(made) / "nested/x").write_text("x")

    kept = made.keep("build-1-before", (".env", "config/local/"))

    assert kept is not None
    assert listed(repo, kept.commit) == {*FILES, ".gitignore"}
    assert set(kept.left_out) == {
        "big file (0 MiB)",
        "nested/ (a repository of its own)",
        ".env (copied into the worktree by adw)",
        "config/local/key (copied into the worktree by adw)",
    }
    message = repo.git("log", "-1", "--format=%B", kept.commit)
    assert message.splitlines()[0] == f"adw: the worktree of run {ADW_ID}, build-1-before"
    for line in ("- big file (0 MiB)", "- .env (copied into the worktree by adw)"):
        assert line in message.splitlines()


def test_copied_files_alone_are_nothing_to_keep(made: Worktree) -> None:
    (top(made) / ".env").write_text("SECRET=1")

    assert made.keep("build-1-before", (".env",)) is None


def test_the_tree_is_kept_wherever_its_head_is(repo: Repo, made: Worktree) -> None:
    repo.git("-C", made.path, "switch", "--quiet", "--detach")
    repo.git("-C", made.path, "commit", "--quiet", "--allow-empty", "-m", "on no branch")
    lost = repo.git("-C", made.path, "rev-parse", "HEAD")

    kept = made.keep("build-1-after", (), always=True)
    assert kept is not None
    assert kept.commit == lost

    (top(made) / ".git").unlink()
    dirty(made)
    kept = made.keep("build-1-after", (), always=True)
    assert kept is not None
    assert repo.git("rev-parse", f"{kept.commit}^") == lost
    assert ".git" not in listed(repo, kept.commit)


def test_a_conflict_is_kept_as_it_lies_there(repo: Repo, made: Worktree) -> None:
    for name, text in (("one", "1\n"), ("two", "2\n")):
        repo.git("-C", made.path, "switch", "--quiet", "-c", name, BRANCH)
        (top(made) / "README.md").write_text(text)
        repo.git("-C", made.path, "commit", "--quiet", "-am", name)
    repo.git("-C", made.path, "merge", "one", check=False)
    repo.git("-C", made.path, "symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")

    kept = made.keep("build-1-after", ())

    assert kept is not None
    assert "<<<<<<<" in repo.git("show", f"{kept.commit}:README.md")


def test_a_directory_that_became_a_link_and_a_file_that_became_a_directory(
    repo: Repo, made: Worktree
) -> None:
    (top(made) / "src").rename(top(made) / "elsewhere")
    (top(made) / "src").symlink_to("elsewhere")
    (top(made) / "README.md").unlink()
    (top(made) / "README.md").mkdir()
    (top(made) / "README.md/x").write_text("x")

    kept = made.keep("build-1-before", ())

    assert kept is not None
    assert listed(repo, kept.commit) == {"src", "elsewhere/a.py", "elsewhere/b.py", "README.md/x"}


def test_a_lock_that_a_killed_git_left_on_the_ref_is_taken_away(repo: Repo, made: Worktree) -> None:
    dirty(made)
    lock = repo.path / f".git/{REF}.lock"
    lock.parent.mkdir(parents=True)
    lock.touch()

    assert made.keep("build-1-before", ()) is not None
    assert not lock.exists()


def test_a_git_that_refuses_is_told_and_leaves_no_ref(
    repo: Repo, made: Worktree, shim: Callable[[str], None]
) -> None:
    dirty(made)
    shim(
        'case " $* " in *" write-tree "*) echo "no space left" >&2; exit 128;; esac\nexec $GIT "$@"'
    )

    with pytest.raises(GitError, match="no space left"):
        made.keep("build-1-before", ())

    assert repo.git("for-each-ref", "refs/adw") == ""


# --- going back -------------------------------------------------------------------------------


def back(tree: Worktree, head: str, commit: str | None) -> str | None:
    kept = tree.back_to(head, commit, "build-1-reset", (".env",), "build-1-after")
    return kept.ref if kept else None


def test_a_tree_goes_back_to_its_commit_with_what_was_not_in_it(repo: Repo, made: Worktree) -> None:
    head = repo.head()
    dirty(made)
    before = content(made)
    kept = made.keep("build-1-before", ())
    assert kept is not None
    (top(made) / "README.md").write_text("broken\n")
    (top(made) / "junk").write_text("junk\n")
    repo.git("-C", made.path, "add", "--all")
    repo.git("-C", made.path, "commit", "--quiet", "-m", "half")
    half = made.check().head
    (top(made) / "more junk").write_text("junk\n")
    (top(made) / ".env").write_text("SECRET=1")

    assert back(made, head, kept.commit) == f"refs/adw/{ADW_ID}/build-1-reset-1"

    (top(made) / ".env").unlink()
    assert content(made) == before
    assert made.check().head == head
    assert repo.git("rev-parse", f"refs/adw/{ADW_ID}/build-1-reset-1^") == half
    again = made.keep("again", ())
    assert again is not None
    assert repo.git("rev-parse", f"{again.commit}^{{tree}}") == repo.git(
        "rev-parse", f"{kept.commit}^{{tree}}"
    )


def test_what_is_kept_already_is_not_kept_again(repo: Repo, made: Worktree) -> None:
    dirty(made)
    made.keep("build-1-after", ())

    assert back(made, repo.head(), None) is None

    assert {name: text.decode() for name, text in content(made).items()} == FILES
    assert back(made, repo.head(), None) is None, "it is there"


def test_large_files_and_nested_repositories_stay_in_place(
    repo: Repo, made: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue, "LIMIT_BYTES", 10)
    (top(made) / "big *?[!] #file").write_text("x" * 11)
    repo.git("init", "--quiet", f"{made.path}/nested")
    (top(made) / "junk").write_text("x")

    back(made, repo.head(), None)

    assert (top(made) / "big *?[!] #file").exists()
    assert (top(made) / "nested/.git").exists()
    assert not (top(made) / "junk").exists()


def test_ignored_files_stay(repo: Repo, made: Worktree) -> None:
    (top(made) / ".gitignore").write_text("*.log\n")
    repo.git("-C", made.path, "add", "--all")
    repo.git("-C", made.path, "commit", "--quiet", "-m", "ignore")
    (top(made) / "x.log").write_text("x")

    back(made, str(made.check().head), None)

    assert (top(made) / "x.log").exists()


def test_a_tree_on_another_branch_is_not_touched(repo: Repo, made: Worktree) -> None:
    dirty(made)
    before = content(made)
    repo.git("-C", made.path, "switch", "--quiet", "-c", "elsewhere")

    with pytest.raises(WorktreeError, match="elsewhere"):
        back(made, repo.head(), None)
    repo.git("-C", made.path, "switch", "--quiet", BRANCH)
    with pytest.raises(WorktreeError, match="to which the tree goes back, is gone"):
        back(made, "0123456789" * 4, None)

    assert content(made) == before


def test_a_git_that_outlived_its_adw_is_waited_for(
    repo: Repo, made: Worktree, shim: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It still puts the tree back; nothing may be kept, or started, before it is over."""
    lock = repo.path / ".git/adw" / ADW_ID / "tree-lock"
    log = repo.path / "log"
    shim(
        f'case " $* " in *" clean -f "*) ls -l /proc/$$/fd | grep "{lock}" >>"{log}";; esac\n'
        'exec $GIT "$@"'
    )
    dirty(made)
    back(made, repo.head(), None)
    assert "tree-lock" in log.read_text()

    monkeypatch.setattr(rescue, "LOCK_WAIT_S", 0.05)
    fd = files.open_lock(str(lock))
    assert files.lock(fd)
    dirty(made)
    with pytest.raises(HostLocked):
        made.keep("build-2-before", ())
    os.close(fd)
    assert made.keep("build-2-before", ()) is not None


def test_temporary_files_of_a_killed_adw_are_swept_and_those_of_others_stay(
    repo: Repo, made: Worktree
) -> None:
    room = repo.path / ".git/adw" / ADW_ID
    for name in ("scratch-4194305-aaaa", f"scratch-{os.getpid()}-bbbb"):
        (room / name).mkdir()

    made.mend_locks()

    assert os.listdir(room) == [f"scratch-{os.getpid()}-bbbb"]


# --- odd repositories -------------------------------------------------------------------------


def test_in_a_sparse_checkout_the_rest_is_kept_too(repo: Repo, made: Worktree) -> None:
    repo.git("-C", made.path, "sparse-checkout", "set", "docs")
    assert not (top(made) / "src").exists()
    assert made.keep("build-1-before", ()) is None
    (top(made) / "docs").mkdir()
    (top(made) / "docs/x").write_text("x")
    (top(made) / "outside").mkdir()
    (top(made) / "outside/y").write_text("y")

    kept = made.keep("build-1-before", ())

    assert kept is not None
    assert listed(repo, kept.commit) == {*FILES, "docs/x", "outside/y"}
    back(made, repo.head(), None)
    assert made.clean()
    assert not (top(made) / "src").exists()
    back(made, repo.head(), kept.commit)
    assert (top(made) / "outside/y").read_text() == "y"


def test_names_that_are_no_utf_8_and_a_split_index(repo: Repo, made: Worktree) -> None:
    repo.git("-C", made.path, "update-index", "--split-index")
    name = os.path.join(os.fsencode(made.path), b"\xff\n[x]")
    with open(name, "wb") as file:
        file.write(b"x")

    kept = made.keep("build-1-before", ())
    assert kept is not None
    back(made, repo.head(), None)
    assert not os.path.exists(name)
    back(made, repo.head(), kept.commit)

    assert os.path.exists(name)


def test_a_submodule_is_kept_by_its_commit_and_its_changes_are_named(
    repo: Repo, made: Worktree, tmp_path: Path
) -> None:
    part = make_repo(tmp_path / "part", {"p": "1"})
    allow = ("-c", "protocol.file.allow=always", "-C", made.path)
    repo.git(*allow, "submodule", "--quiet", "add", str(part.path), "part")
    repo.git("-C", made.path, "commit", "--quiet", "-m", "part")
    head = str(made.check().head)
    who = ("-c", "user.name=T", "-c", "user.email=t@example.invalid", "-C", f"{made.path}/part")
    repo.git(*who, "commit", "--quiet", "--allow-empty", "-m", "inside")
    inside = repo.git("-C", f"{made.path}/part", "rev-parse", "HEAD")

    kept = made.keep("build-1-before", ())
    assert kept is not None
    assert repo.git("rev-parse", f"{kept.commit}:part") == inside
    (top(made) / "part/p").write_text("2")

    kept = made.keep("build-1-before", ())
    assert kept is not None
    assert kept.left_out == ("part (changes inside a submodule)",)
    back(made, head, None)
    assert (top(made) / "part/p").read_text() == "2"


def test_refs_and_hashes_of_another_format(tmp_path: Path) -> None:
    path = tmp_path / "sha256"
    path.mkdir()
    other = Repo(path)
    other.git("init", "--quiet", "--object-format=sha256", "--initial-branch=main")
    other.git("config", "user.name", "Test")
    other.git("config", "user.email", "test@example.invalid")
    other.commit("first", {"README.md": "1"})
    tree = Worktree(locate(str(path)), str(path / "trees" / ADW_ID), BRANCH)
    tree.ensure(other.head())
    (top(tree) / "new").write_text("x")

    kept = tree.keep("build-1-before", ())

    assert kept is not None
    assert len(kept.commit) == 64
    tree.back_to(other.head(), None, "build-1-reset", (), None)
    assert tree.clean()
