"""The base branch's tip in a run's branch: merged whole, or refused with nothing touched."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.errors import EnvironmentFault, UsageError
from adw.store import files
from adw.workspace import updating
from adw.workspace.registration import Place
from adw.workspace.repository import Repository
from adw.workspace.updating import Updated, finish, update
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.support.repo import Repo


class Killed(BaseException):
    """Stands for a kill at this point."""


@pytest.fixture
def place(made: Worktree, located: Repository) -> Place:
    return Place(located.git_dir, made.path, BRANCH)


@pytest.fixture
def own(made: Worktree) -> Repo:
    """The run's worktree, with a commit of its own."""
    found = Repo(Path(made.path))
    found.commit("work", {"work.txt": "w\n"})
    return found


def test_a_base_that_moved_is_merged(repo: Repo, own: Repo, place: Place) -> None:
    old, tip = own.head(), repo.commit("fix", {"src/a.py": "a = 2\n"})

    found = update(place, "main", tip)

    assert (found.how, found.old, found.new) == ("merged", old, own.head())
    assert own.git("log", "-1", "--format=%P") == f"{old} {tip}"
    assert own.git("log", "-1", "--format=%s") == f"Merge main into {BRANCH}"
    assert own.git("log", "-1", "--format=%(trailers:key=ADW-Run,valueonly)").strip() == ADW_ID
    assert own.git("status", "--porcelain") == ""
    assert (own.path / "src/a.py").read_text() == "a = 2\n"
    assert own.git("symbolic-ref", "--short", "HEAD") == BRANCH
    assert repo.git("rev-parse", f"refs/adw/{ADW_ID}/update-1") == old
    assert finish(place) is None
    assert update(place, "main", tip) == Updated("main", found.new, found.new, "already")


def test_a_branch_without_work_goes_on_to_the_tip(repo: Repo, made: Worktree, place: Place) -> None:
    tip = repo.commit("fix", {"src/new.py": "n\n"})

    assert update(place, "main", tip).how == "fast_forward"
    assert made.check().head == tip
    assert made.clean()


def test_a_conflict_is_refused_with_its_files(repo: Repo, own: Repo, place: Place) -> None:
    own.commit("mine", {"src/a.py": "a = 3\n", "src/b.py": "b = 3\n"})
    tip = repo.commit("theirs", {"src/a.py": "a = 4\n", "src/b.py": "b = 4\n"})
    before = everything(own)

    with pytest.raises(UsageError) as caught:
        update(place, "main", tip)

    assert caught.value.render() == (
        "error: `main` and the run's branch change the same places: src/a.py, src/b.py\n"
        f"  hint: merge it by hand (git -C {place.path} merge main), then resume without "
        "`--update-base`"
    )
    assert everything(own) == before


@pytest.mark.parametrize("change", ["modified", "staged", "untracked"])
def test_changes_in_no_commit_are_refused(repo: Repo, own: Repo, place: Place, change: str) -> None:
    tip = repo.commit("fix", {"src/a.py": "a = 2\n"})
    name = "new.txt" if change == "untracked" else "work.txt"
    own.write({name: "x\n"})
    if change == "staged":
        own.git("add", name)
    before = everything(own)

    with pytest.raises(UsageError) as caught:
        update(place, "main", tip)

    assert caught.value.message == f"the worktree has changes that are in no commit: {name}"
    assert everything(own) == before


@pytest.mark.parametrize("name", ["x.env", "cache/deep/x.env"])
def test_an_ignored_file_in_the_way_is_not_overwritten(
    repo: Repo, own: Repo, place: Place, name: str
) -> None:
    own.commit("ignore", {".gitignore": "*.env\ncache\n"})
    there = "cache" if name.startswith("cache") else name  # a file where a folder is to come
    own.write({there: "mine\n"})
    repo.write({name: "theirs\n"})
    repo.git("add", "-f", name)
    tip = repo.commit("adds it")
    before = everything(own)

    with pytest.raises(UsageError, match="brings files that git ignores in the worktree") as caught:
        update(place, "main", tip)

    assert name in caught.value.message
    assert everything(own) == before
    assert (own.path / there).read_text() == "mine\n"


def test_a_name_that_is_no_text_and_one_of_an_option(repo: Repo, own: Repo, place: Place) -> None:
    odd = os.fsdecode(b"\xff -x")
    own.commit("mine", {odd: "1\n"})
    tip = repo.commit("theirs", {odd: "2\n"})

    with pytest.raises(UsageError) as caught:
        update(place, "main", tip)

    assert caught.value.message.endswith("the same places: ? -x")


def everything(tree: Repo) -> tuple[str, str, str, bool]:
    refs = tree.git("for-each-ref", "refs/heads", f"refs/adw/{ADW_ID}")
    note = tree.path.parents[1] / ".git/adw" / ADW_ID / "updating"
    return refs, tree.git("status", "--porcelain", "--ignored"), tree.git("diff"), note.exists()


def test_an_older_git_is_told(
    repo: Repo, own: Repo, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    tip = repo.commit("fix", {"src/a.py": "a = 2\n"})
    monkeypatch.setattr(updating, "require_version", lambda: (2, 37))

    with pytest.raises(EnvironmentFault, match="needs git 2.38 or newer"):
        update(place, "main", tip)


@pytest.mark.sweep
def test_a_kill_before_any_git_or_write_of_the_going_over_is_finished_by_the_next(
    repo: Repo, own: Repo, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = fired = 0
    while True:
        points += 1
        tip = repo.commit("fix", {"src/a.py": f"a = {points}\n", f"src/new{points}.py": "n\n"})
        old = own.head()
        with monkeypatch.context() as patch:
            die_at(points, patch)
            try:
                update(place, "main", tip)
            except Killed:
                fired += 1
            else:
                break
        begun = finish(place)
        if begun is None and own.head() == old:
            assert own.git("status", "--porcelain") == ""
            begun = update(place, "main", tip)
        assert begun is None or (begun.old, begun.how, begun.new) == (old, "merged", own.head())
        assert own.git("rev-list", "--count", "--merges", f"{old}..") == "1"
        assert own.git("status", "--porcelain") == ""
        assert (own.path / f"src/new{points}.py").exists()
        assert finish(place) is None
    print(f"points {points - 1}, fired {fired}")
    assert fired == points - 1 > 10


def die_at(point: int, patch: pytest.MonkeyPatch) -> None:
    """Stop before the nth git process or change of the disk."""
    from adw.workspace import rescue

    left = [point]

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def before(*args: object, **more: object) -> object:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            if left[0] < 0:
                raise Killed  # the dead do nothing more
            return call(*args, **more)

        return before

    for module in (updating, rescue):
        patch.setattr(module, "run_git", counted(module.run_git))
    for name in ("replace", "unlink", "sync_dir", "make_dir"):
        patch.setattr(files, name, counted(getattr(files, name)))


def test_a_half_checked_out_merge_is_made_whole(repo: Repo, own: Repo, place: Place) -> None:
    tip = repo.commit("fix", {"src/a.py": "a = 2\n", "src/new.py": "n\n"})
    old = own.head()
    found = update(place, "main", tip)
    own.git("reset", "-q", "--soft", old)
    own.git("read-tree", old)
    (own.path / "src/a.py").write_text("a =")  # cut short, and the index knows of nothing
    note = Path(place.git_dir) / "adw" / ADW_ID / "updating"
    note.write_text(json.dumps({"base": "main", "old": old, "new": found.new, "how": "merged"}))

    assert finish(place) == found
    assert own.head() == found.new
    assert own.git("status", "--porcelain") == ""


def test_a_person_who_went_elsewhere_meanwhile_wins(repo: Repo, own: Repo, place: Place) -> None:
    tip = repo.commit("fix", {"src/a.py": "a = 2\n"})
    note = Path(place.git_dir) / "adw" / ADW_ID / "updating"
    note.parent.mkdir(parents=True, exist_ok=True)
    note.write_text(json.dumps({"base": "main", "old": repo.head(), "new": tip, "how": "merged"}))
    before = own.head()

    assert finish(place) is None
    assert (own.head(), note.exists()) == (before, False)
