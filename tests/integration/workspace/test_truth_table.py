"""Each row of the truth table on real git: it is reached, does what it says, and can be repaired."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from adw.errors import ExitCode, WorktreeError
from adw.workspace import mending, table
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.support.repo import Repo

Scene = Callable[[Repo, Worktree], None]


def admin(repo: Repo) -> Path:
    return repo.path / ".git/worktrees" / ADW_ID


def made(repo: Repo, tree: Worktree) -> None:
    """The worktree with a commit and changes in it."""
    tree.ensure(repo.head())
    repo.git("-C", tree.path, "commit", "--quiet", "--allow-empty", "-m", "work")
    (Path(tree.path) / "README.md").write_text("changed\n")
    (Path(tree.path) / "new").write_text("new\n")


def foreign(repo: Repo, tree: Worktree) -> None:
    del tree
    repo.git("worktree", "add", "--quiet", str(repo.path.parent / "elsewhere" / ADW_ID))


def half_made(repo: Repo, tree: Worktree) -> None:
    tree.ensure(repo.head())
    mending.write_note(tree._place, repo.head())
    (admin(repo) / "commondir").write_text("")


def half(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    (admin(repo) / "gitdir").unlink()
    (admin(repo) / "commondir").write_text("")
    (admin(repo) / "HEAD").write_text("0" * 40 + "\n")
    (admin(repo) / "locked").write_text("initializing")


def no_git_file(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    (Path(tree.path) / ".git").unlink()


def wrong_branch(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    repo.git("-C", tree.path, "switch", "--quiet", "-c", "other")


def detached(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    repo.git("-C", tree.path, "switch", "--quiet", "--detach")


def branch_gone(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    repo.git("update-ref", "-d", f"refs/heads/{BRANCH}")


def in_the_way(repo: Repo, tree: Worktree) -> None:
    del repo
    Path(tree.path).mkdir(parents=True)
    (Path(tree.path) / "mine").write_text("mine\n")


def locked(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    repo.git("worktree", "lock", "--reason", "on the other disk", tree.path)
    shutil.move(tree.path, f"{tree.path}-away")


def elsewhere(repo: Repo, tree: Worktree) -> None:
    del tree
    repo.git("worktree", "add", "--quiet", "-b", BRANCH, str(repo.path.parent / "other tree"))


def fetched(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    repo.git("update-ref", f"refs/remotes/origin/{BRANCH}", str(tree.check().head))
    repo.git("pack-refs", "--all")
    both_gone_now(repo, tree)


def both_gone(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    both_gone_now(repo, tree)


def both_gone_now(repo: Repo, tree: Worktree) -> None:
    repo.git("worktree", "remove", "--force", tree.path)
    repo.git("branch", "-D", BRANCH)


def recreated(repo: Repo, tree: Worktree) -> None:
    made(repo, tree)
    shutil.rmtree(tree.path)


def attached(repo: Repo, tree: Worktree) -> None:
    del tree
    repo.git("branch", BRANCH)


def created(repo: Repo, tree: Worktree) -> None:
    del repo, tree


SCENES: Final[dict[str, Scene]] = {
    "foreign": foreign,
    "half_made": half_made,
    "half": half,
    "no_git_file": no_git_file,
    "wrong_branch": wrong_branch,
    "detached": detached,
    "branch_gone": branch_gone,
    "reused": made,
    "in_the_way": in_the_way,
    "locked": locked,
    "elsewhere": elsewhere,
    "fetched": fetched,
    "both_gone": both_gone,
    "recreated": recreated,
    "attached": attached,
    "created": created,
}


def world(repo: Repo, tree: Worktree) -> object:
    """All that a refusal must leave alone."""
    files = {}
    for top in (tree.path, f"{tree.path}-away", str(repo.path / ".git/worktrees")):
        for path in Path(top).rglob("*"):
            if path.is_file():
                files[str(path)] = path.read_bytes()
    packed = repo.path / ".git/packed-refs"
    files |= {str(p): p.read_bytes() for p in (repo.path / ".git/refs").rglob("*") if p.is_file()}
    return files, packed.exists() and packed.read_bytes()


def ran(row: table.Row) -> bool:
    """Whether phases ran in it."""
    return row.name not in {"created", "foreign", "half_made", "in_the_way", "elsewhere"}


def repaired(repo: Repo, tree: Worktree, told: WorktreeError, row: table.Row) -> None:
    """Do what the hint says."""
    hint = str(told.fields["fix"])
    if row.name == "foreign":
        repo.git("worktree", "remove", str(repo.path.parent / "elsewhere" / ADW_ID))
    elif row.name == "in_the_way":
        shutil.move(tree.path, f"{tree.path}-away")
    elif row.name == "locked":
        shutil.move(f"{tree.path}-away", tree.path)
    else:
        command = hint.removeprefix("restore it: ").removeprefix("restore the branch: ")
        command = command.replace("COMMIT", repo.head())
        subprocess.run(command, shell=True, check=True, cwd=repo.path, capture_output=True)


def test_every_row_has_its_scene() -> None:
    assert list(SCENES) == [row.name for row in table.ROWS]


@pytest.mark.parametrize("row", [r for r in table.ROWS if r.act == "refuse"], ids=lambda r: r.name)
def test_case_C1_C2_a_refusal_touches_nothing_and_its_repair_helps(
    repo: Repo, tree: Worktree, row: table.Row
) -> None:
    SCENES[row.name](repo, tree)
    before = world(repo, tree)

    with pytest.raises(WorktreeError) as caught:
        tree.ensure(repo.head(), made=ran(row))

    pattern = re.sub(r"\\{\w+\\}", ".+", re.escape(row.says))
    assert re.fullmatch(pattern, caught.value.message), caught.value.message
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert world(repo, tree) == before
    repaired(repo, tree, caught.value, row)
    while row.name == "half":  # four files are damaged
        try:
            tree.ensure(repo.head(), made=True)
            break
        except WorktreeError as error:
            repaired(repo, tree, error, row)
    tree.ensure(repo.head(), made=ran(row))
    tree.check()
    if row.name not in {"foreign", "in_the_way", "elsewhere", "both_gone"}:
        assert (Path(tree.path) / "new").read_text() == "new\n"


@pytest.mark.parametrize("row", [r for r in table.ROWS if r.act != "refuse"], ids=lambda r: r.name)
def test_case_C1_C2_C8_what_is_not_refused_ends_on_the_branch(
    repo: Repo, tree: Worktree, row: table.Row
) -> None:
    SCENES[row.name](repo, tree)
    tip = repo.git("rev-parse", "--verify", "-q", BRANCH, check=False)

    assert tree.ensure(repo.head(), made=ran(row)) == {"half_made": "attached"}.get(
        row.name, row.name
    )

    assert repo.git("-C", tree.path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert tree.check().head == (tip or repo.git("rev-parse", BRANCH))
    assert tree.ensure("nothing", made=True) == "reused"
    assert tree.clean() == (row.name != "reused")
    if row.name == "fetched":
        assert repo.git("rev-parse", BRANCH) == repo.git("rev-parse", f"origin/{BRANCH}")
        assert "work" in repo.git("log", "-1", "--format=%s", BRANCH)


def test_case_C7_a_branch_behind_its_remote_is_attached_not_detached(
    repo: Repo, tree: Worktree
) -> None:
    repo.git("branch", BRANCH)
    old = repo.head()
    newer = repo.commit("newer")
    repo.git("update-ref", f"refs/remotes/origin/{BRANCH}", newer)
    repo.git("config", "checkout.defaultRemote", "origin")

    assert tree.ensure(newer) == "attached"

    assert repo.git("-C", tree.path, "symbolic-ref", "HEAD") == f"refs/heads/{BRANCH}"
    assert tree.check().head == old


def test_case_C27_the_main_checkout_keeps_its_head_and_index(repo: Repo, tree: Worktree) -> None:
    repo.commit("second", {"README.md": "two\n"})
    tree.ensure(repo.head())
    (Path(tree.path) / "README.md").write_text("x\n")
    repo.git("reset", "--quiet", "--soft", "HEAD~1")
    index = (repo.path / ".git/index").read_bytes()
    head = repo.head()

    tree.keep("build-1-before", ())
    tree.back_to(str(tree.check().head), None, "build-1-reset", (), None)
    tree.fingerprint()
    tree.ensure("x", made=True)

    assert (repo.path / ".git/index").read_bytes() == index
    assert repo.head() == head
    assert repo.git("log", "-g", "--format=%gs", "HEAD").splitlines()[0].startswith("reset")
    assert os.listdir(repo.path / ".git/adw" / ADW_ID) == ["tree-lock"]
