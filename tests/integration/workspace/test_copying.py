"""`copy:`, file by file: what is brought, what is left out with a line, and after a kill."""

import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from adw.store import files
from adw.workspace.copying import bring, copied, copied_into
from adw.workspace.registration import Place
from adw.workspace.repository import Repository, locate
from adw.workspace.worktree import Worktree
from tests.integration.workspace.conftest import ADW_ID, BRANCH
from tests.support.repo import Repo


class Killed(BaseException):
    """Stands for a kill at this point."""


class There:
    """A repository and its run's worktree, made when it is first asked for."""

    def __init__(self, repo: Repo) -> None:
        self.repo = repo
        self.located: Repository = locate(str(repo.path))
        path = os.path.join(self.located.root, "trees", ADW_ID)
        self.place = Place(self.located.git_dir, path, BRANCH)

    @property
    def tree(self) -> Repo:
        Worktree(self.located, self.place.path, BRANCH).ensure(self.repo.head())
        return Repo(Path(self.place.path))

    def bring(self, *names: str, fresh: bool = False) -> list[str]:
        assert self.tree
        return bring(self.located, self.place, names, fresh=fresh)

    def committable(self) -> list[str]:
        """What `git add -A` would take."""
        return self.tree.git("status", "--porcelain", "-uall").splitlines()

    def excluded(self) -> list[str]:
        return (self.repo.path / ".git/info/exclude").read_text().splitlines()


@pytest.fixture
def there(repo: Repo) -> There:
    repo.commit("ignore", {".gitignore": ".env\nlocal/\n", "config/kept": "k\n"})
    repo.write({".env": "e\n", "local/a": "a\n", "local/deep/run": "#!/bin/sh\n"})
    (repo.path / ".env").chmod(0o600)
    os.utime(repo.path / ".env", (1, 1))
    return There(repo)


def test_case_C17_files_and_folders_with_mode_and_time(there: There) -> None:
    assert there.bring("./.env", "local/") == []

    found = there.tree.path
    info = (found / ".env").stat()
    assert (stat.S_IMODE(info.st_mode), info.st_mtime, info.st_nlink) == (0o600, 1, 1)
    assert (found / "local/a").read_text() == "a\n"
    assert os.access(found / "local/deep/run", os.X_OK)
    assert there.committable() == []
    assert copied(there.place.git_dir, ADW_ID) == [".env", "local/a", "local/deep/run"]
    assert copied_into(there.place.path) == [".env", "local/a", "local/deep/run"]


def test_case_C17_what_is_absent_is_told(there: There) -> None:
    assert there.bring("gone", ".env") == [
        "`gone` of `copy` is not in the main checkout: nothing is copied"
    ]
    assert there.bring("gone", ".env") == []  # once is enough
    there.repo.write({"gone": "back\n"})
    assert there.bring("gone") == ["`gone` is not ignored by git: adw hides it in info/exclude"]
    assert (there.tree.path / ".env").exists()


def test_case_C17_what_leads_out_of_the_repository_is_left_out(there: There) -> None:
    outside = there.repo.path.parent / "outside"
    outside.mkdir()
    (outside / "secret").write_text("s\n")
    (there.repo.path / "local/file").symlink_to(outside / "secret")
    (there.repo.path / "local/folder").symlink_to(outside)
    (there.repo.path / "local/inner").symlink_to("a")
    (there.repo.path / "local/config").symlink_to(there.repo.path / ".git/config")

    assert there.bring("local") == [
        "`local/folder` is a link to a folder: not copied",
        "`local/config` leads out of the repository: not copied",
        "`local/file` leads out of the repository: not copied",
    ]
    found = there.tree.path / "local"
    assert sorted(os.listdir(found)) == ["a", "deep", "inner"]
    assert not (found / "inner").is_symlink()


def test_case_C17_a_tracked_file_is_neither_replaced_nor_made_again(there: There) -> None:
    there.repo.git("add", "-f", ".env", "local/a")
    there.repo.commit("tracked")
    there.repo.write({".env": "changed\n", "local/a": "changed\n"})
    (there.tree.path / "local/a").unlink()

    assert there.bring(".env", "local") == []

    assert (there.tree.path / ".env").read_text() == "e\n"
    assert os.listdir(there.tree.path / "local") == ["deep"]


def test_what_is_there_stays(there: There) -> None:
    assert there.tree
    there.tree.write({".env": "mine\n", "local/a": "mine\n"})

    assert there.bring(".env", "local") == []

    assert (there.tree.path / ".env").read_text() == "mine\n"
    assert (there.tree.path / "local/a").read_text() == "mine\n"
    assert (there.tree.path / "local/deep/run").exists()


def test_a_listed_name_that_is_gone_comes_back_and_a_part_of_it_does_not(there: There) -> None:
    there.bring(".env", "local")
    (there.tree.path / ".env").unlink()
    (there.tree.path / "local/a").unlink()

    there.bring(".env", "local")

    assert (there.tree.path / ".env").exists()
    assert not (there.tree.path / "local/a").exists()
    shutil.rmtree(there.tree.path / "local")
    there.bring(".env", "local")
    assert (there.tree.path / "local/a").exists()


def test_what_the_project_does_not_ignore_is_hidden_before_it_is_there(there: There) -> None:
    there.repo.write({"p [1].env": "p\n", "#x!": "x\n", "new/a": "a\n", "new/b": "b\n"})
    there.repo.write({"config/own": "o\n"})

    told = there.bring("p [1].env", "#x!", "new", "config/")

    assert told == [
        f"`{name}` is not ignored by git: adw hides it in info/exclude"
        for name in ("p [1].env", "#x!", "new", "config")
    ]
    assert there.committable() == []
    assert {r"/p\ \[1].env", r"/\#x\!", "/new/", "/config/own"} <= set(there.excluded())
    there.tree.write({"config/made": "by a phase\n"})
    assert there.committable() == ["?? config/made"]


def test_what_git_is_told_to_take_is_not_copied(there: There) -> None:
    there.repo.commit("take it", {".gitignore": "!.env\n"})
    there.repo.git("rm", "-q", "--cached", ".env")
    there.repo.git("commit", "-q", "-m", "out")

    assert there.bring(".env")[-1] == "`.env` is not copied: git does not ignore it"
    assert not (there.tree.path / ".env").exists()


def test_a_folder_that_is_a_link_or_a_file_in_the_worktree_gets_no_copy(there: There) -> None:
    outside = there.repo.path.parent / "outside"
    outside.mkdir()
    (there.repo.path / "link").symlink_to(outside)
    there.repo.commit("in the way", {"file": ""})
    for name in ("link", "file"):
        (there.repo.path / name).unlink()
        there.repo.write({f"{name}/.env": "e\n"})

    assert there.bring("link/.env", "file") == [
        "`link/.env` is not copied: `link` is no folder there",
        "`file/.env` is not copied: `file` is no folder there",
    ]
    assert os.listdir(outside) == []


def test_what_lies_in_a_submodule_is_told(there: There) -> None:
    part = Repo(there.repo.path.parent / "part")
    shutil.copytree(there.repo.path, part.path)
    allow = ("-c", "protocol.file.allow=always")
    there.repo.git(*allow, "submodule", "--quiet", "add", str(part.path), "sub")
    there.repo.commit("submodule")
    there.repo.write({"sub/.env": "e\n"})

    (line,) = there.bring("sub/.env")

    assert line.startswith("`sub/.env` is not copied: ")
    assert os.listdir(there.tree.path / "sub") == []


def test_what_is_no_file_or_cannot_be_read_is_told(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(there.repo.path / "local/fifo")

    assert there.bring("local") == ["`local/fifo` is not copied: it is no regular file"]
    assert not (there.tree.path / "local/fifo").exists()


def test_the_folder_of_worktrees_is_never_copied_into_one(there: There) -> None:
    assert there.bring("trees") == ["`trees` holds the worktrees of runs: not copied"]


@pytest.mark.sweep
def test_after_a_kill_at_any_change_of_the_disk_the_next_call_makes_it_whole(
    there: There, monkeypatch: pytest.MonkeyPatch
) -> None:
    there.repo.write({"bare.env": "b\n"})
    names = (".env", "local", "bare.env")
    points = fired = 0
    while True:
        points += 1
        assert there.tree
        with monkeypatch.context() as patch:
            die_at(points, patch)
            try:
                there.bring(*names)
            except Killed:
                fired += 1
            else:
                break
        assert there.committable() == []  # half a copy is none, and no secret can be committed
        there.bring(*names)
        assert (there.tree.path / ".env").read_text() == "e\n"
        assert (there.tree.path / "local/deep/run").read_text() == "#!/bin/sh\n"
        assert (there.tree.path / "bare.env").read_text() == "b\n"
        assert there.committable() == []
        again(there)
    print(f"points {points - 1}, fired {fired}")
    assert fired == points - 1 > 15


def again(there: There) -> None:
    """As before anything was brought."""
    for name in (".env", "bare.env"):
        (there.tree.path / name).unlink()
    shutil.rmtree(there.tree.path / "local")
    shutil.rmtree(Path(there.place.git_dir) / "adw" / ADW_ID)
    lines = [line for line in there.excluded() if line != "/bare.env"]
    (there.repo.path / ".git/info/exclude").write_text("\n".join(lines) + "\n")


def die_at(point: int, patch: pytest.MonkeyPatch) -> None:
    """Stop before the nth change of the disk; the dead do nothing more."""
    left = [point]

    def counted(call: Callable[..., object]) -> Callable[..., object]:
        def before(*args: object, **more: object) -> object:
            left[0] -= 1
            if left[0] <= 0:
                raise Killed
            return call(*args, **more)

        return before

    for name in ("replace", "link", "make_dir", "sync_dir", "sync_file", "unlink", "remove_tree"):
        patch.setattr(files, name, counted(getattr(files, name)))
