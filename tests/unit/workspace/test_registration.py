"""Branch names that are refused, and git's files read without git."""

import os
from pathlib import Path

import pytest

from adw.errors import UsageError
from adw.workspace import registration
from adw.workspace.registration import Place

SHA = "0123456789abcdef0123456789abcdef01234567"


@pytest.mark.parametrize(
    "name",
    ["feat-47-cc73faf1-oauth2", "adw-cc73faf1-x", "dev", "team/a.b_c-d", "x/_y", "a" * 200],
)
def test_ordinary_branch_names_pass(name: str) -> None:
    registration.check_branch(name)


@pytest.mark.parametrize(
    "name",
    [
        "", "-rf", "--upload-pack=x", "a..b", "x.lock", "x.lock/y", "@{-1}", "a b", "a\nb", "a\0b",
        "@", "refs/heads/x", "HEAD", "a" * 201, "é", "a:b", "a~1", "a^", "a?", "a*", "a[", "a\\b",
        "/a", "a/", "a//b", "a/.b", "a.", "a./b", ".a", "../x", "a/../../b", SHA, "a\n",
    ],
)  # fmt: skip
@pytest.mark.hostile("H11", "H12")
def test_H11_H12_names_that_something_could_misread_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        registration.check_branch(name)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    (tmp_path / ".git/refs/heads").mkdir(parents=True)
    return Place(str(tmp_path / ".git"), str(tmp_path / "trees/cc73faf1"), "b")


def test_a_loose_ref_wins_over_a_packed_one(place: Place) -> None:
    packed = Path(place.git_dir, "packed-refs")
    packed.write_text(f"# pack-refs with: peeled\n{'1' * 40} refs/heads/b\n^{'2' * 40}\n")
    assert registration.tip(place) == "1" * 40
    Path(place.ref_file).write_text(f"{SHA}\n")

    assert registration.tip(place) == SHA


@pytest.mark.parametrize(
    "packed",
    [
        f"{SHA} refs/heads/bb\n",
        f"{SHA} refs/heads/a/b\n",
        f"{SHA} refs/remotes/origin/refs/heads/b2\n",
        "nonsense refs/heads/b\n",
        f"{SHA} refs/heads/b",
        "",
    ],
)
def test_another_packed_ref_is_not_it(place: Place, packed: str) -> None:
    Path(place.git_dir, "packed-refs").write_text(packed)

    assert registration.tip(place) is None


def test_a_sha256_repository_has_longer_ids(place: Place) -> None:
    Path(place.ref_file).write_text("a" * 64 + "\n")

    assert registration.tip(place) == "a" * 64


@pytest.mark.parametrize("content", ["", "ref: refs/heads/main\n", SHA[:-1], f"{SHA}0"])
def test_a_branch_file_without_a_commit_is_none(place: Place, content: str) -> None:
    Path(place.ref_file).write_text(content)

    assert registration.tip(place) is None


def test_what_is_no_small_file_reads_as_nothing(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to("/etc/hostname")
    (tmp_path / "large").write_bytes(b"x" * 70_000)

    for name in ("fifo", "link", "large", "absent", "."):
        assert registration.read_text(str(tmp_path / name)) is None


def test_git_files_with_relative_paths_lead_to_the_same_place(tmp_path: Path) -> None:
    tree = tmp_path / "trees/cc73faf1"
    tree.mkdir(parents=True)
    (tree / ".git").write_text("gitdir: ../../.git/worktrees/cc73faf1\n")

    admin = registration.admin_of(str(tree))

    assert admin is not None
    assert registration.same(admin, str(tmp_path / ".git/worktrees/cc73faf1"))
