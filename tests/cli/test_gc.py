"""`adw gc`."""

from pathlib import Path
from typing import Any

import pytest

from adw.workspace import git
from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, call, entry, held
from tests.cli.trees import GONE, WHOLE, Tree, made_tree, merged
from tests.support.repo import Repo

ALL = ("--older-than", "0s")


def parts(repo: Repo, *args: str, adw_id: str = ID) -> dict[str, tuple[str, str]]:
    found = call(repo, "gc", "--json", *args).json()
    (run,) = [each for each in found["runs"] if each["adw_id"] == adw_id]
    return {each["part"]: (each["action"], each["reason"]) for each in run["parts"]}


def others(repo: Repo, *args: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = call(repo, "gc", "--json", *args).json()["others"]
    return found


@pytest.fixture
def tree(repo: Repo) -> Tree:
    """A run that succeeded and is merged."""
    made = made_tree(repo)
    made.commit()
    merged(repo, made)
    return made


def test_what_is_merged_goes_and_what_is_only_here_stays(repo: Repo, tree: Tree) -> None:
    other = made_tree(repo, handmade.done(), OTHER)
    other.commit("other.txt")
    said = call(repo, "gc", *ALL)

    assert (said.code, said.err) == (0, "")
    assert said.out == (
        f"run {ID} succeeded\n"
        f"  removed       worktree trees/{ID}: it is clean\n"
        f"  removed       branch {tree.branch}: merged into `main`\n"
        f"  kept          directory agents/{ID}: it has history, logs and artifacts\n"
        f"    hint: adw rm {ID} --purge removes it\n"
        f"run {OTHER} succeeded\n"
        f"  removed       worktree trees/{OTHER}: it is clean\n"
        f"  kept          branch {other.branch}: 1 commit is on no remote and not in `main`\n"
        f"    hint: push it, or merge it, or give it up: adw rm {OTHER} --force\n"
        f"  kept          directory agents/{OTHER}: it has history, logs and artifacts\n"
        f"    hint: adw rm {OTHER} --purge removes it\n"
    )
    assert (tree.there, other.there) == (GONE, (False, False, True, True))


def test_a_dry_run_does_nothing(repo: Repo, tree: Tree) -> None:
    said = call(repo, "gc", *ALL, "--dry-run", "--purge")

    assert f"  would remove  directory agents/{ID}: history, logs and artifacts" in said.out
    assert tree.there == WHOLE


@pytest.mark.parametrize("age", ["1h", "30d"])
def test_what_changed_lately_is_left_alone(repo: Repo, tree: Tree, age: str) -> None:
    path = tree.run_dir / "adw_state.json"
    old = '"2026-01-02T03:00:00.000000Z"'
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, '"2999-01-02T03:00:00.000000Z"'))

    assert parts(repo, "--older-than", age) == {"run": ("kept", "it succeeded today")}
    assert tree.there == WHOLE


def test_the_age_is_30_days_if_nothing_is_said(repo: Repo, tree: Tree) -> None:
    # The run is of January 2026.
    assert parts(repo)["worktree"][0] == "removed"


def test_a_duration_that_is_none(repo: Repo) -> None:
    said = call(repo, "gc", "--older-than", "long")

    assert (said.code, said.err) == (
        2,
        "error: `long` is not a duration of 0 to 366 days\n  hint: such as 12h, 7d or 30d\n",
    )


def test_of_a_failed_run_the_branch_stays_so_that_resume_can_go_on(repo: Repo) -> None:
    tree = made_tree(repo, handmade.failed())
    tree.write("new.txt")
    dirty = parts(repo, *ALL)
    (tree.path / "new.txt").unlink()
    tree.keep("test-1-after")
    clean = parts(repo, *ALL)

    assert dirty["worktree"] == ("kept", "1 file is in no commit: new.txt")
    assert clean["worktree"] == ("removed", "it is clean")
    assert clean["branch"] == (
        "kept",
        "the run is failed and can go on; it has no commit of its own",
    )
    assert clean["refs"] == ("kept", "1 kept tree; the run is failed and can go on")
    assert tree.there == (False, False, True, True)


def test_what_is_not_over_or_lives_or_is_damaged_is_left_alone(repo: Repo, tree: Tree) -> None:
    made_tree(repo, [entry("plan")], OTHER)
    broken = made_tree(repo, handmade.done(), "ee000000")
    (broken.run_dir / "adw_state.json").write_bytes(b"{torn")
    with held(tree.run_dir):
        found = call(repo, "gc", "--json", *ALL).json()["runs"]

    assert {each["adw_id"]: each["parts"][0]["reason"] for each in found} == {
        ID: "it is running",
        OTHER: "it is interrupted",
        "ee000000": "its state is damaged",
    }
    assert tree.there == broken.there == WHOLE


def test_kept_trees_go_with_a_run_that_is_delivered(repo: Repo, tree: Tree) -> None:
    tree.write("tried.txt")
    tree.keep("build-1-after")
    (tree.path / "tried.txt").unlink()

    assert parts(repo, *ALL)["refs"] == ("removed", "1 kept tree, of a run that is delivered")
    assert repo.git("for-each-ref", "refs/adw/") == ""


def test_kept_trees_stay_with_a_run_that_is_not(repo: Repo) -> None:
    tree = made_tree(repo)
    tree.commit()
    tree.write("tried.txt")
    tree.keep("build-1-after")
    (tree.path / "tried.txt").unlink()

    assert parts(repo, *ALL)["refs"] == ("kept", "1 kept tree that no commit of the branch has")


def test_runs_of_which_only_history_is_left_are_counted(repo: Repo, tree: Tree) -> None:
    call(repo, "gc", *ALL)
    path = tree.run_dir / "adw_state.json"
    path.write_text(path.read_text().replace('"backend_port": null', '"backend_port": 9123'))
    again = call(repo, "gc", *ALL)
    purged = call(repo, "gc", *ALL, "--purge")
    empty = call(repo, "gc", *ALL)

    assert again.out == "1 run has nothing left but history and logs; `--purge` removes these\n"
    assert f"removed       directory agents/{ID}" in purged.out
    assert empty.out == "there is no run\n"


@pytest.mark.parametrize("left", ["branch", "worktree", "aside", "note", "refs"])
def test_whatever_a_person_or_a_kill_left_of_a_run_is_looked_at(
    repo: Repo, tree: Tree, left: str
) -> None:
    """All but one thing is gone already; a run with nothing left is passed over unlooked."""
    room = repo.path / ".git" / "adw" / ID
    if left != "worktree":
        repo.git("worktree", "remove", "--force", str(tree.path))
    if left == "aside":
        (repo.path / "trees" / f".removing-{ID}").mkdir()
    if left == "note":
        (room / "removing-0").mkdir(parents=True)
    if left == "refs":
        repo.git("update-ref", f"refs/adw/{ID}/build-1-after", "HEAD")
    if left == "worktree":
        Repo(tree.path).git("switch", "--quiet", "--detach")
    if left != "branch":
        repo.git("branch", "-D", tree.branch)
    call(repo, "gc", *ALL)

    assert tree.there == GONE
    assert not (repo.path / "trees" / f".removing-{ID}").exists()
    assert not (room / "removing-0").exists()
    assert repo.git("for-each-ref", "refs/adw/") == ""


def test_a_remote_is_asked_once_for_all_runs(
    repo: Repo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.git"
    repo.git("init", "--quiet", "--bare", str(bare))
    repo.git("remote", "add", "origin", str(bare))
    trees = [made_tree(repo, handmade.done(), adw_id) for adw_id in (ID, OTHER)]
    for number, each in enumerate(trees):
        each.commit(f"{number}.txt")
        Repo(each.path).git("push", "--quiet", "origin", each.branch)
    asked = []

    def ask(args: Any, *more: Any, **keys: Any) -> Any:
        asked.extend(["ls-remote"] if "ls-remote" in args else [])
        return git.ask_git(args, *more, **keys)

    monkeypatch.setattr("adw.workspace.delivery.ask_git", ask)
    found = call(repo, "gc", "--json", *ALL).json()["runs"]

    assert [each["parts"][1]["action"] for each in found] == ["removed", "removed"]
    assert asked == ["ls-remote"]


def test_what_belongs_to_no_run_is_told(repo: Repo, tree: Tree) -> None:
    for name in (f".removing-{OTHER}", ".removing-ee000000"):
        (repo.path / "trees" / name).mkdir()
        (repo.path / "trees" / name / "rest").write_text("x\n")
    copy = repo.path / ".git" / "adw" / OTHER
    copy.mkdir(parents=True)
    (copy / "state.1").write_text("torn")
    told = call(repo, "doctor").out
    stray = repo.path / "trees" / "stray"
    repo.git("worktree", "add", "--quiet", "--detach", str(stray))
    found = others(repo)

    assert [(each["part"], Path(each["name"]).name, each["action"]) for each in found] == [
        ("copy", OTHER, "kept"),
        ("leftover", ".removing-ee000000", "removed"),
        ("worktree", "stray", "kept"),
    ]
    assert told.count("leftover: what a removal that was cut short left\n") == 2
    assert told.count("  hint: adw gc removes it\n") == 2
    assert stray.exists()
    assert not (repo.path / "trees" / ".removing-ee000000").exists()
