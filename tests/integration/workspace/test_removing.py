"""Taking a worktree away, killed at its two turning points, and changed at the wrong moment."""

import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from adw.errors import GitError, StoreError
from adw.store import files
from adw.workspace import mending, registration, removing
from adw.workspace.delivery import Delivery
from adw.workspace.registration import Place
from adw.workspace.removing import ChangedMeanwhile
from adw.workspace.repository import Repository
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.support.repo import Repo


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours runs after it."""


@pytest.fixture
def place(made: Worktree, located: Repository) -> Place:
    return Place(located.git_dir, made.path, BRANCH)


def killed_at_rename(
    place: Place, number: int, monkeypatch: pytest.MonkeyPatch, *, before: bool
) -> None:
    """Take it away and die at the n-th rename; what would run afterwards does not."""
    count = 0
    real = os.rename

    def rename(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if count > number or (count == number and before):
            raise Killed
        real(source, target)
        if count == number:
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", rename)
        with pytest.raises(Killed):
            removing.take_away(place, discard=False)


def test_it_is_gone_from_the_disk_and_from_git(place: Place, repo: Repo) -> None:
    assert removing.take_away(place, discard=False) == []
    assert removing.is_gone(place)
    assert not os.path.lexists(place.admin)
    assert os.listdir(os.path.dirname(place.path)) == []
    assert repo.git("worktree", "prune", "--verbose") == ""


def test_killed_before_it_is_unregistered_it_is_put_back_with_all_its_work(
    place: Place, made: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_rename(place, 1, monkeypatch, before=False)
    Path(removing.aside(place), "written-then.txt").write_text("work\n")
    assert registration.survey(place).directory == "absent"

    assert removing.recover(place) == []
    made.check()
    assert Path(place.path, "written-then.txt").read_text() == "work\n"


def test_killed_after_it_is_unregistered_what_lies_aside_is_deleted(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_rename(place, 2, monkeypatch, before=False)
    assert os.path.exists(removing.aside(place))

    assert removing.recover(place) == []
    assert removing.is_gone(place)
    assert not os.path.exists(removing.aside(place))
    assert [n for n in os.listdir(mending.room(place)) if n.startswith("removing")] == []


def test_killed_in_between_a_resume_makes_it_again_and_the_next_removal_ends_both(
    place: Place, made: Worktree, repo: Repo, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_at_rename(place, 1, monkeypatch, before=False)
    made.ensure(repo.head(), made=True)
    Path(place.path, "new.txt").write_text("work\n")
    assert removing.recover(place) == []

    assert Path(place.path, "new.txt").read_text() == "work\n"
    assert not os.path.exists(removing.aside(place))


def test_what_is_written_after_the_look_is_found_and_all_is_put_back(
    place: Place, made: Worktree
) -> None:
    Path(place.path, "new.txt").write_text("work\n")

    with pytest.raises(ChangedMeanwhile, match="new.txt"):
        removing.take_away(place, discard=False)
    made.check()
    assert Path(place.path, "new.txt").exists()


def test_a_git_that_fails_puts_it_back(place: Place, made: Worktree) -> None:
    index = Path(place.admin, "index")
    whole = index.read_bytes()
    index.write_bytes(b"torn")
    with pytest.raises(GitError):
        removing.take_away(place, discard=False)
    index.write_bytes(whole)

    made.check()


def test_a_rename_that_fails_puts_it_back(
    place: Place, made: Worktree, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, count = os.rename, 0

    def rename(source: str, target: str) -> None:
        nonlocal count
        count += 1
        if count == 2:
            raise PermissionError(1, "Operation not permitted", source)
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr(files, "rename", rename)
        with pytest.raises(StoreError, match="Operation not permitted"):
            removing.take_away(place, discard=False)
    made.check()


def test_an_empty_directory_and_none_are_taken_away_too(place: Place, repo: Repo) -> None:
    shutil.rmtree(place.path)
    os.mkdir(place.path)
    removing.take_away(place, discard=False)
    assert removing.is_gone(place)
    removing.take_away(place, discard=False)
    assert removing.is_gone(place)


def test_a_half_made_worktree_is_cleared_away(located: Repository, tree: Worktree) -> None:
    place = Place(located.git_dir, tree.path, BRANCH)
    mending.write_note(place, "0" * 40)
    os.makedirs(place.admin)
    os.makedirs(place.path)

    assert removing.recover(place) == []
    assert removing.is_gone(place)
    assert not os.path.exists(mending.note_path(place))


def test_a_branch_that_moved_on_is_not_deleted(place: Place, repo: Repo) -> None:
    tip = registration.tip(place)
    later = Repo(Path(place.path)).commit("later")
    removing.take_away(place, discard=False)

    with pytest.raises(GitError) as error:
        removing.delete_refs(place, {f"refs/heads/{BRANCH}": tip})
    assert f"is at {later} but expected {tip}" in error.value.render()
    assert repo.git("rev-parse", BRANCH) == later


def test_what_is_configured_of_a_branch_goes_with_it(place: Place, repo: Repo) -> None:
    repo.git("config", f"branch.{BRANCH}.remote", "origin")
    repo.git("config", f"branch.{BRANCH}-2.remote", "origin")
    removing.forget_branch(place)
    removing.forget_branch(place)

    found = repo.git("config", "--get-regexp", r"^branch\.")
    assert found == f"branch.{BRANCH.lower()}-2.remote origin" or found == (
        f"branch.{BRANCH}-2.remote origin"
    )


LOCKS = ("packed-refs.lock", "packed-refs.new", f"refs/adw/{ADW_ID}/build-1-after.lock")


def test_locks_that_a_killed_git_of_ours_left_are_removed(
    place: Place, located: Repository, repo: Repo
) -> None:
    ref = f"refs/adw/{ADW_ID}/build-1-after"
    repo.git("update-ref", ref, "HEAD")
    repo.git("pack-refs", "--all")
    repo.git("update-ref", ref, "HEAD")
    removing._write_note(place, removing._Deleting(time.time() - 0.05, (ref,)))
    for name in LOCKS:
        Path(located.git_dir, name).parent.mkdir(parents=True, exist_ok=True)
        Path(located.git_dir, name).write_text("")
    # The refs of a branch are another transaction: the note of the first one counts there too.
    removing.delete_refs(place, {f"refs/adw/{ADW_ID}/none": None})
    removing.delete_refs(place, {ref: None})

    assert removing.kept_refs(located, ADW_ID) == {}
    assert not any(Path(located.git_dir, name).exists() for name in LOCKS)
    assert not Path(mending.room(place), "deleting").exists()


@pytest.mark.parametrize("why", ["no note", "an older lock", "another git"])
def test_locks_that_may_be_somebody_elses_stay(
    place: Place, located: Repository, repo: Repo, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    ref = f"refs/adw/{ADW_ID}/build-1-after"
    repo.git("update-ref", ref, "HEAD")
    repo.git("pack-refs", "--all")
    repo.git("config", "core.packedRefsTimeout", "0")
    lock = Path(located.git_dir, "packed-refs.lock")
    lock.write_text("")
    begun = time.time() + (60 if why == "an older lock" else -0.05)
    removing._write_note(place, removing._Deleting(begun, () if why == "no note" else (ref,)))
    other = subprocess.Popen(["git", "cat-file", "--batch"], cwd=repo.path, stdin=subprocess.PIPE)
    try:
        if why != "another git":
            other.communicate(b"")
        monkeypatch.setattr("adw.workspace.git.LOCK_WAIT_S", 0.1)
        with pytest.raises(GitError, match="packed-refs.lock': File exists"):
            removing.delete_refs(place, {ref: None})
    finally:
        other.communicate(b"")
    assert lock.exists()
    assert removing.kept_refs(located, ADW_ID) != {}


# --- where work is ----------------------------------------------------------------------------


def where(repo: Repo, located: Repository, commit: str, base: str = "main") -> tuple[str, str]:
    found = Delivery(located, base).of(commit, None)
    return found.kind, found.words


def test_a_revert_of_what_was_merged_is_still_merged(
    repo: Repo, located: Repository, place: Place
) -> None:
    tip = Repo(Path(place.path)).commit("work", {"new.txt": "x\n"})
    repo.git("merge", "--quiet", "--no-ff", "--no-edit", BRANCH)
    repo.git("revert", "--no-edit", "--mainline", "1", "HEAD")

    assert where(repo, located, tip) == ("merged", "merged into `main`")


def test_changes_that_only_partly_arrived_are_not_merged(
    repo: Repo, located: Repository, place: Place
) -> None:
    inside = Repo(Path(place.path))
    inside.commit("one", {"one.txt": "x\n"})
    tip = inside.commit("two", {"two.txt": "x\n"})
    repo.commit("only one", {"one.txt": "x\n"})

    assert where(repo, located, tip)[0] == "nowhere"


def test_a_conflict_with_the_base_is_not_merged(
    repo: Repo, located: Repository, place: Place
) -> None:
    tip = Repo(Path(place.path)).commit("ours", {"src/a.py": "a = 2\n"})
    repo.commit("theirs", {"src/a.py": "a = 3\n"})

    assert where(repo, located, tip)[0] == "nowhere"


def test_merged_on_the_remote_only(
    repo: Repo, located: Repository, place: Place, tmp_path: Path
) -> None:
    tip = Repo(Path(place.path)).commit("work", {"new.txt": "x\n"})
    bare = tmp_path / "bare.git"
    repo.git("init", "--quiet", "--bare", str(bare))
    repo.git("remote", "add", "origin", str(bare))
    repo.git("push", "--quiet", "origin", f"{tip}:refs/heads/main")
    repo.git("fetch", "--quiet", "origin")

    assert where(repo, located, tip) == ("merged", "merged into `origin/main`")
    assert where(repo, located, tip, "dev") == (
        "pushed",
        "pushed to `origin/main`, not merged into a base branch yet",
    )


def test_a_remote_whose_name_begins_another(
    repo: Repo, located: Repository, place: Place, tmp_path: Path
) -> None:
    tip = Repo(Path(place.path)).commit("work", {"new.txt": "x\n"})
    for name in ("up", "up/stream"):
        bare = tmp_path / f"{name.replace('/', '-')}.git"
        repo.git("init", "--quiet", "--bare", str(bare))
        repo.git("remote", "add", name, str(bare))
    repo.git("push", "--quiet", "up/stream", BRANCH)

    assert where(repo, located, tip) == (
        "pushed",
        f"pushed to `up/stream/{BRANCH}`, not merged into `main` yet",
    )


def test_without_a_base_branch_only_remotes_count(repo: Repo, located: Repository) -> None:
    found = Delivery(located, None).of(repo.head(), None)

    assert (found.kind, found.words) == ("nowhere", "1 commit is on no remote")
