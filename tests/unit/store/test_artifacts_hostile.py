"""Outputs that lead elsewhere, or that are something other than a file of their own."""

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adw.store.artifacts import digest
from tests.unit.store.outputs import Ground, contract, missing


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(tmp_path)


def test_several_matches_are_named(ground: Ground) -> None:
    for name in "cba":
        ground.write(f"specs/{name}.md")

    expected = "3 files match `specs/*.md`: `specs/a.md`, `specs/b.md`, `specs/c.md`"
    assert ground.refusal("specs/*.md") == contract(f"{expected}; one is expected")
    ground.write("specs/d.md")
    _, detail = ground.refusal("specs/*.md")
    assert detail.endswith("`specs/c.md` and 1 more; one is expected")


def test_a_directory_that_matches_counts_as_a_match(ground: Ground) -> None:
    (ground.root / "specs/sub.md").mkdir()
    assert ground.refusal("specs/*.md") == contract(
        "`specs/sub.md` is a directory, not a regular file"
    )
    ground.write("specs/plan.md")
    assert ground.refusal("specs/*.md")[1].startswith("2 files match")


@pytest.mark.hostile("H22")
def test_case_H22_a_million_matches_are_not_collected(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adw.store.beneath._MANY", 20)
    for n in range(21):
        ground.write(f"specs/{n}.md")

    assert ground.refusal("specs/*.md") == contract("more than 20 files match `specs/*.md`")


@pytest.mark.hostile("H18")
def test_case_H18_a_link_is_never_followed(ground: Ground) -> None:
    (ground.root / "out").symlink_to(ground.outside / "secret")
    (ground.root / "dangling").symlink_to("nowhere")
    (ground.root / "self").symlink_to("self")

    for name in ("out", "dangling", "self", "o*"):
        real = "out" if name == "o*" else name
        expected = contract(f"`{real}` is a symbolic link, not a regular file")
        assert ground.refusal(name) == expected
    assert digest(str(ground.root), "out") is None


@pytest.mark.parametrize("pattern", ["up/secret", "u*/secret", "up/*", "./u?//secret"])
@pytest.mark.hostile("H18")
def test_case_H18_a_directory_that_is_a_link_is_never_entered(ground: Ground, pattern: str) -> None:
    (ground.root / "up").symlink_to(ground.outside)

    assert ground.refusal(pattern) == contract("`up` is a symbolic link")
    assert digest(str(ground.root), "up/secret") is None


@pytest.mark.hostile("H18")
def test_case_H18_a_child_cannot_put_a_link_in_the_place_of_its_own_folder(
    ground: Ground,
) -> None:
    (ground.root / "children/plan-1").mkdir(parents=True)
    (ground.root / "children/plan-1/artifacts").symlink_to(ground.outside)

    found = ground.refusal("secret", below="children/plan-1/artifacts")

    assert found == contract("`children/plan-1/artifacts` is a symbolic link")


@pytest.mark.parametrize("place", ["plan", "plan/plan-1"])
@pytest.mark.parametrize("kind", ["link", "file"])
@pytest.mark.hostile("H18")
def test_case_H18_what_is_in_the_place_of_the_copy_is_set_aside_not_written_through(
    ground: Ground, place: str, kind: str
) -> None:
    ground.write("a.md")
    path = ground.artifacts / place
    path.parent.mkdir(parents=True)
    if kind == "link":
        path.symlink_to(ground.outside)
    else:
        path.write_bytes(b"somebody's")

    copy = ground.take("a.md").copy

    assert copy
    assert not path.is_symlink()
    assert os.listdir(ground.outside) == ["secret"]
    assert [name for name in os.listdir(path.parent) if name.endswith(".aside")]


@pytest.mark.hostile("H18")
def test_case_H18_a_link_in_the_place_of_all_copies_is_refused(ground: Ground) -> None:
    ground.write("a.md")
    ground.artifacts.symlink_to(ground.outside)

    with pytest.raises(FileExistsError):
        ground.take("a.md")

    assert os.listdir(ground.outside) == ["secret"]


def test_a_link_beside_the_one_match_does_not_matter(ground: Ground) -> None:
    ground.write("specs-1/plan.md")
    (ground.root / "specs-2").symlink_to(ground.outside)

    assert ground.take("specs-*/plan.md").source == "specs-1/plan.md"


@pytest.mark.parametrize(
    ("pattern", "detail"),
    [
        ("../outside/secret", "`../outside/secret` leads outside"),
        ("specs/../../outside/secret", "`specs/../../outside/secret` leads outside"),
        ("*/../x", "`*/../x` leads outside"),
        ("/etc/passwd", "`/etc/passwd` leads outside"),
        ("//etc/passwd", "`//etc/passwd` leads outside"),
        ("", "`` is no path of a file"),
        ("./", "`./` is no path of a file"),
        ("a\0b", "`a\\x00b` is no path of a file"),
        (".git/config", "`.git/config` leads into `.git`"),
        ("sub/.GIT/config", "`sub/.GIT/config` leads into `.git`"),
    ],
)
@pytest.mark.hostile("H19")
def test_case_H19_a_path_that_leads_outside_is_refused(
    ground: Ground, pattern: str, detail: str
) -> None:
    assert ground.refusal(pattern) == contract(detail)
    assert digest(str(ground.root), pattern) is None


def test_case_H19_no_wildcard_finds_the_git_directory(ground: Ground) -> None:
    ground.write(".git/config")

    assert ground.refusal(".g*/config") == missing("nothing matches `.g*/config`")


def _fifo(ground: Ground) -> str:
    os.mkfifo(ground.root / "out")
    return "a FIFO"


def _socket(ground: Ground) -> str:
    os.chdir(ground.root)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("out")
    return "a socket"


def _device(ground: Ground, kind: int, number: int) -> None:
    try:
        os.mknod(ground.root / "out", kind | 0o666, number)
    except PermissionError:
        pytest.skip("DEVICES NOT TESTED: only root may make them")


def _characters(ground: Ground) -> str:
    _device(ground, stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero, endless
    return "a character device"


def _blocks(ground: Ground) -> str:
    _device(ground, stat.S_IFBLK, os.makedev(7, 200))
    return "a block device"


def _directory(ground: Ground) -> str:
    (ground.root / "out").mkdir()
    return "a directory"


@pytest.mark.parametrize("make", [_fifo, _socket, _characters, _blocks, _directory])
@pytest.mark.hostile("H20")
def test_case_H20_what_is_no_regular_file_is_refused_without_being_opened(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, make: Callable[[Ground], str]
) -> None:
    kind = make(ground)
    real = os.open

    def watched(path: Any, *rest: Any, **how: Any) -> int:
        assert path != "out"
        return real(path, *rest, **how)

    monkeypatch.setattr(os, "open", watched)

    assert ground.refusal("out") == contract(f"`out` is {kind}, not a regular file")
    assert ground.refusal("o?t") == contract(f"`out` is {kind}, not a regular file")
    assert digest(str(ground.root), "out") is None


@pytest.mark.hostile("H20")
def test_case_H20_a_hard_link_to_a_secret_is_refused(ground: Ground) -> None:
    (ground.root / "out").hardlink_to(ground.outside / "secret")

    assert ground.refusal("out") == contract(
        "`out` is one of 2 hard links, a file of its own is expected"
    )


@pytest.mark.hostile("H20")
def test_case_H20_a_sparse_giant_is_refused_before_a_byte_is_read(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.truncate(ground.write("out"), 1 << 40)
    monkeypatch.setattr(os, "read", None)

    assert ground.refusal("out") == contract(
        f"`out` has {1 << 40} bytes, at most {1 << 30} are allowed"
    )
    assert digest(str(ground.root), "out") is None


def test_the_largest_size_is_allowed(ground: Ground) -> None:
    ground.write("out", b"12345")

    assert ground.refusal("out", max_bytes=4) == contract(
        "`out` has 5 bytes, at most 4 are allowed"
    )
    assert ground.take("out", max_bytes=5).size_bytes == 5


@pytest.mark.parametrize("closed", ["specs", "plan.md"])
@pytest.mark.parametrize("pattern", ["specs/plan.md", "specs/*.md", "s*/plan.md", "s*/*.md"])
def test_an_output_that_cannot_be_read_is_refused(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, pattern: str, closed: str
) -> None:
    ground.write("specs/plan.md")
    real = os.open

    def closing(path: Any, *rest: Any, **how: Any) -> int:
        if path == closed:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return real(path, *rest, **how)

    monkeypatch.setattr(os, "open", closing)

    shown = "specs" if closed == "specs" else "specs/plan.md"
    assert ground.refusal(pattern) == contract(f"`{shown}` cannot be read: permission denied")
    assert digest(str(ground.root), "specs/plan.md") is None


@pytest.mark.parametrize("pattern", ["s*/*.md", "s*/plan.md", "specs/*/x"])
def test_a_directory_that_cannot_be_listed_is_told(
    ground: Ground, monkeypatch: pytest.MonkeyPatch, pattern: str
) -> None:
    ground.write("specs/plan.md")
    ground.write("specs/sub/x")

    def denied(*_: Any, **how: Any) -> Any:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(os, "scandir", denied)

    shown = "specs" if pattern == "specs/*/x" else pattern
    assert ground.refusal(pattern) == contract(f"`{shown}` cannot be read: permission denied")


def test_a_directory_that_cannot_be_entered_is_told(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground.write("specs/plan.md")
    real = os.stat

    def denied(path: Any, *rest: Any, **how: Any) -> os.stat_result:
        if path == "plan.md":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(path, *rest, **how)

    monkeypatch.setattr(os, "stat", denied)

    assert ground.refusal("s*/plan.md") == contract("`specs` cannot be read: permission denied")
