"""Outputs that are exchanged or written while they are taken, and a program that dies meanwhile."""

import errno
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from adw.store.artifacts import OutputFault, digest
from tests.support.wait import until
from tests.unit.store.outputs import Ground, contract, missing

CHANGED = contract("`out` changed while it was read")


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path)
    # Older than a tick of the file system's clock, so that each change shows in a time stamp.
    made = ground.write("out").stat().st_ctime_ns
    probe = tmp_path / "probe"

    def ticked() -> bool:
        probe.touch()
        return probe.stat().st_ctime_ns > made

    until(ticked)
    return ground


@contextmanager
def once_after(call: str, act: Callable[[], None], name: str | None = None) -> Iterator[None]:
    """Act after the first call of a function of os, or the first one about a file name."""
    real = getattr(os, call)
    done: list[bool] = []

    def acting(*args: Any, **how: Any) -> Any:
        result = real(*args, **how)
        if not done and (name is None or args[0] == name):
            done.append(True)
            act()
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, call, acting)
        yield
    assert done


# --- between the look by name and the opening --------------------------------------------


def _to_link(ground: Ground) -> None:
    (ground.root / "out").symlink_to(ground.outside / "secret")


def _to_hard_link(ground: Ground) -> None:
    (ground.root / "out").hardlink_to(ground.outside / "secret")


def _to_fifo(ground: Ground) -> None:
    os.mkfifo(ground.root / "out")


def _to_directory(ground: Ground) -> None:
    (ground.root / "out").mkdir()


def _to_socket(ground: Ground) -> None:
    os.chdir(ground.root)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind("out")


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (_to_link, contract("`out` is a symbolic link")),
        (_to_hard_link, contract("`out` is one of 2 hard links, a file of its own is expected")),
        (_to_fifo, contract("`out` is a FIFO, not a regular file")),
        (_to_directory, contract("`out` is a directory, not a regular file")),
        (_to_socket, CHANGED),
        (lambda _: None, missing("there is no `out`")),
    ],
)
def test_case_H20_the_open_file_decides_and_not_what_was_seen_before(
    ground: Ground, exchange: Callable[[Ground], None], expected: tuple[str, str]
) -> None:
    def act() -> None:
        (ground.root / "out").unlink()
        exchange(ground)

    with once_after("stat", act, "out"):
        assert ground.refusal("out") == expected


def test_case_H19_a_directory_that_became_a_link_is_not_entered(ground: Ground) -> None:
    ground.write("specs/secret")

    def act() -> None:
        (ground.root / "specs").rename(ground.root / "real")
        (ground.root / "specs").symlink_to(ground.outside)

    with once_after("scandir", act):
        assert ground.refusal("spec[s]/secret") == contract("`specs` is a symbolic link")


# --- while it is read --------------------------------------------------------------------


def _append(ground: Ground) -> None:
    with (ground.root / "out").open("ab") as file:
        file.write(b"more")


def _cut(ground: Ground) -> None:
    os.truncate(ground.root / "out", 3)


def _rewrite(ground: Ground) -> None:
    with (ground.root / "out").open("r+b") as file:
        file.write(b"THE PLAN\n")


def _exchange(ground: Ground) -> None:
    ground.write("other").rename(ground.root / "out")


def _remove(ground: Ground) -> None:
    (ground.root / "out").unlink()


def _link_again(ground: Ground) -> None:
    (ground.outside / "second").hardlink_to(ground.root / "out")


def _link_and_unlink(ground: Ground) -> None:
    _link_again(ground)
    (ground.outside / "second").unlink()


def _exchange_for_link(ground: Ground) -> None:
    (ground.root / "out").rename(ground.root / "real")
    (ground.root / "out").symlink_to("real")


CHANGES = [
    _append, _cut, _rewrite, _exchange, _remove, _link_again, _link_and_unlink, _exchange_for_link,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("large", [False, True])
def test_case_H21_an_output_that_changes_while_it_is_read_is_refused(
    ground: Ground,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Ground], None],
    large: bool,
) -> None:
    if large:
        monkeypatch.setattr("adw.store.artifacts.COPY_LIMIT", 1)

    with once_after("read", lambda: change(ground)):
        assert ground.refusal("out") == CHANGED


def test_case_H21_an_output_that_is_cut_before_it_is_read_is_refused(ground: Ground) -> None:
    def act() -> None:
        os.truncate(ground.root / "out", 0)

    with once_after("fstat", act):
        assert ground.refusal("out") == CHANGED


@pytest.mark.hostile("H20")
def test_case_H20_a_secret_whose_link_was_removed_at_once_is_refused(ground: Ground) -> None:
    (ground.root / "out").unlink()
    _to_hard_link(ground)

    with once_after("open", (ground.root / "out").unlink, "out"):
        assert ground.refusal("out") == CHANGED


def test_no_more_is_read_than_there_was_at_the_beginning(ground: Ground) -> None:
    with once_after("read", lambda: os.truncate(ground.root / "out", 1 << 40)):
        assert ground.refusal("out") == CHANGED


def test_an_output_that_somebody_else_reads_meanwhile_is_fine(ground: Ground) -> None:
    def look() -> None:
        assert (ground.root / "out").read_bytes() == b"the plan\n"

    with once_after("fstat", look):
        assert ground.take("out").size_bytes == 9


# --- death at each act -------------------------------------------------------------------


class Killed(BaseException):
    """The process died here."""


ACTS = ("mkdir", "write", "fsync", "rename", "unlink", "rmdir")


@contextmanager
def failing_at(nth: int, error: BaseException, *, for_ever: bool) -> Iterator[list[str]]:
    """The n-th act on the disk fails, and where the process is dead all later ones do."""
    acts: list[str] = []

    def wrapped(name: str, real: Any) -> Any:
        def act(*args: Any, **how: Any) -> Any:
            acts.append(name)
            if len(acts) == nth or (for_ever and len(acts) > nth):
                raise error
            return real(*args, **how)

        return act

    with pytest.MonkeyPatch.context() as patch:
        for name in ACTS:
            patch.setattr(os, name, wrapped(name, getattr(os, name)))
        yield acts


def _nothing(ground: Ground) -> None:
    assert not ground.artifacts.exists()


def _half_made(ground: Ground) -> None:
    ground.target.mkdir(parents=True)
    (ground.target / ".out.7.1.tmp").write_bytes(b"the p")
    (ground.target / "earlier").write_bytes(b"from another pattern")


def _whole(ground: Ground) -> None:
    _half_made(ground)
    (ground.target / "out").write_bytes(b"the old plan")


@pytest.mark.parametrize("before", [_nothing, _half_made, _whole])
@pytest.mark.parametrize("dies", [True, False])
def test_fs_16_nothing_half_ever_stands_under_the_final_name(
    tmp_path: Path, before: Callable[[Ground], None], dies: bool
) -> None:
    content = b"x" * (3 << 19)  # two pieces
    nth, reached = 0, True
    while reached:
        nth += 1
        ground = Ground(tmp_path / str(nth))
        ground.write("out", content)
        before(ground)
        old = (ground.target / "out").read_bytes() if before is _whole else None
        error = Killed() if dies else OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        with failing_at(nth, error, for_ever=dies) as acts, suppress(Killed, OSError):
            ground.take("out")
        reached = len(acts) >= nth
        copy = ground.target / "out"
        found = copy.read_bytes() if copy.exists() else None
        assert found in {old, content} if reached else found == content

        ground.take("out")

        assert os.listdir(ground.target) == ["out"]
        assert copy.read_bytes() == content
    assert nth - 1 >= 8, "each act was made to fail once"


def test_fs_16_the_copy_and_all_above_it_are_durable_when_it_is_told(ground: Ground) -> None:
    told: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        path = os.path.relpath(os.readlink(f"/proc/self/fd/{fd}"), ground.run)
        told.append("sync " + ("temporary file" if path.endswith(".tmp") else path))
        fsync(fd)

    def note_rename(source: str, target: str) -> None:
        told.append("rename")
        rename(source, target)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", note_fsync)
        patch.setattr(os, "rename", note_rename)
        ground.take("out")

    at = told.index("rename")
    assert told[at - 1] == "sync temporary file"
    assert told[at + 1 :] == [
        "sync artifacts/plan/plan-1", "sync artifacts/plan", "sync artifacts",
    ]  # fmt: skip
    assert "sync ." in told[:at]  # artifacts/ itself was new


def test_the_digest_of_a_file_that_is_written_is_told_all_the_same(ground: Ground) -> None:
    with once_after("read", lambda: _rewrite(ground)):
        assert digest(str(ground.root), "out") is not None
    with once_after("fstat", lambda: _cut(ground)):
        assert digest(str(ground.root), "out") is None


def test_no_descriptor_is_left_open(ground: Ground) -> None:
    ground.write("specs/deep/a")
    ground.write("specs/deep/b")
    (ground.root / "up").symlink_to(ground.outside)
    before = os.listdir("/proc/self/fd")

    for pattern in ("out", "specs/deep/a", "specs/d*/a", "specs/*/*", "up/secret", "u*/*", "no/x"):
        with suppress(OutputFault):
            ground.take(pattern)

    assert os.listdir("/proc/self/fd") == before
