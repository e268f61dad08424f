"""Every byte on disk: what a failure at any point leaves, and what a lock is."""

import contextlib
import errno
import fcntl
import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adw import failpoints
from adw.store import files

NOBODY = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make another user's file")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "adw_state.json"
    path.write_bytes(b"old")
    return path


def names(directory: Path) -> list[str]:
    return sorted(os.listdir(directory))


def failing(number: int) -> Callable[..., Any]:
    def fail(*_: object) -> Any:
        raise OSError(number, os.strerror(number))

    return fail


# --- replace -----------------------------------------------------------------------------


def test_replace_puts_the_new_content_there_for_its_owner_only(target: Path) -> None:
    files.replace(str(target), b"new")

    assert target.read_bytes() == b"new"
    assert target.stat().st_mode & 0o777 == 0o600
    assert names(target.parent) == ["adw_state.json"]


def test_replace_makes_a_file_that_was_not_there(tmp_path: Path) -> None:
    files.replace(str(tmp_path / "new"), b"", mode=0o644)

    assert (tmp_path / "new").read_bytes() == b""
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("primitive", ["open", "write", "fsync", "rename"])
def test_k1_the_old_file_is_intact_whichever_call_fails(
    target: Path, monkeypatch: pytest.MonkeyPatch, primitive: str, number: int
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, primitive, failing(number))
        with pytest.raises(OSError, match=os.strerror(number)):
            files.replace(str(target), b"new")

    assert target.read_bytes() == b"old"
    assert names(target.parent) == ["adw_state.json"]


def test_the_old_file_is_intact_when_closing_fails(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = os.close

    def fail(fd: int) -> None:
        close(fd)
        raise OSError(errno.EIO, "disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "close", fail)
        with pytest.raises(OSError, match="disk"):
            files.replace(str(target), b"new")

    assert target.read_bytes() == b"old"
    assert names(target.parent) == ["adw_state.json"]


def test_no_second_sync_is_tried_on_a_descriptor_whose_sync_failed(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []

    def fail(fd: int) -> None:
        calls.append(fd)
        raise OSError(errno.EIO, "disk")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        with pytest.raises(OSError, match="disk"):
            files.replace(str(target), b"new")

    assert len(calls) == 1


def test_what_before_rename_raises_leaves_the_old_file(target: Path) -> None:
    def refuse() -> None:
        assert len(names(target.parent)) == 2  # the temporary file is complete by now
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        files.replace(str(target), b"new", before_rename=refuse)

    assert target.read_bytes() == b"old"
    assert names(target.parent) == ["adw_state.json"]


def test_the_new_file_stands_when_only_the_directory_cannot_be_synced(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(files, "sync_dir", failing(errno.EIO))
        with pytest.raises(OSError, match="Input/output"):
            files.replace(str(target), b"new")

    assert target.read_bytes() == b"new"


def test_st_6_content_is_synced_before_the_rename_and_the_directory_after_it(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    fsync, rename = os.fsync, os.rename

    def note_fsync(fd: int) -> None:
        calls.append("sync " + os.path.basename(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    def note_rename(source: str, to: str) -> None:
        calls.append("rename to " + os.path.basename(to))
        rename(source, to)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(os, "rename", note_rename)
    monkeypatch.setattr(files, "temp_name", lambda path: path + ".tmp")

    files.replace(str(target), b"new")

    assert calls == [
        "sync adw_state.json.tmp",
        "rename to adw_state.json",
        f"sync {target.parent.name}",
    ]


def test_without_sync_nothing_is_synced(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", failing(errno.EIO))

    files.replace(str(target), b"new", sync=False)

    assert target.read_bytes() == b"new"


def test_short_writes_are_continued(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, bytes(data[:3])))

    files.replace(str(target), b"0123456789")

    assert target.read_bytes() == b"0123456789"


def test_a_file_size_limit_is_an_error_and_the_old_file_stays(target: Path) -> None:
    script = (
        "import resource, signal, sys\n"
        "from adw.store import files\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    files.replace(sys.argv[1], b'x' * 5000)\n"
        "except OSError as error:\n"
        "    print(error.errno)\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, str(target)], capture_output=True, text=True, check=True
    )

    assert done.stdout == f"{errno.EFBIG}\n"
    assert target.read_bytes() == b"old"
    assert names(target.parent) == ["adw_state.json"]


def test_st_7_two_writers_never_share_a_temporary_name(tmp_path: Path) -> None:
    path = str(tmp_path / "f")

    assert len({files.temp_name(path) for _ in range(100)}) == 100
    assert f".{os.getpid()}." in files.temp_name(path)
    assert os.path.dirname(files.temp_name(path)) == str(tmp_path)


@pytest.mark.hostile("H38")
def test_a_temporary_name_that_is_taken_is_not_written_through(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    elsewhere = target.parent / "elsewhere"
    elsewhere.write_bytes(b"mine")
    temp = target.parent / "temp"
    temp.symlink_to(elsewhere)
    monkeypatch.setattr(files, "temp_name", lambda _: str(temp))

    with pytest.raises(FileExistsError):
        files.replace(str(target), b"new")

    assert elsewhere.read_bytes() == b"mine"


def test_st_7_sweep_removes_only_temporary_files(target: Path) -> None:
    left = Path(files.temp_name(str(target)))
    left.write_bytes(b"half")
    (target.parent / ".keep").write_bytes(b"")
    (target.parent / "notes.tmp").write_bytes(b"")

    assert files.sweep(str(target.parent)) == 1
    assert names(target.parent) == [".keep", "adw_state.json", "notes.tmp"]


# --- read --------------------------------------------------------------------------------


def test_a_whole_file_is_read(tmp_path: Path) -> None:
    data = os.urandom(3 << 20)
    (tmp_path / "f").write_bytes(data)

    assert files.read(str(tmp_path / "f")) == data
    assert files.read_if_exists(str(tmp_path / "f")) == data
    assert files.read_if_exists(str(tmp_path / "absent")) is None


def test_a_file_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 101)

    with pytest.raises(OSError, match="larger than 100 bytes"):
        files.read(str(tmp_path / "f"), limit=100)


def test_a_file_that_grows_while_it_is_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"x" * 10)
    monkeypatch.setattr(os, "pread", lambda *_: b"x" * 60)

    with pytest.raises(OSError, match="larger than 100 bytes"):
        files.read(str(tmp_path / "f"), limit=100)


@pytest.mark.hostile("H38")
def test_a_fifo_is_refused_and_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")

    with pytest.raises(files.NotOurs, match="not a regular file"):
        files.read(str(tmp_path / "f"))
    with pytest.raises(files.NotOurs, match="not a regular file"):
        files.open_append(str(tmp_path / "f"))


def test_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(files.NotOurs, match="not a regular file"):
        files.read(str(tmp_path))


@pytest.mark.hostile("H38")
def test_a_symbolic_link_is_not_followed(target: Path) -> None:
    link = target.parent / "link"
    link.symlink_to(target)

    for use in (files.read, files.open_append, files.open_lock):
        with pytest.raises(OSError, match="symbolic links") as caught:
            use(str(link))
        assert caught.value.errno == errno.ELOOP


@AS_ROOT
@pytest.mark.hostile("H37")
def test_another_users_file_is_refused(target: Path) -> None:
    os.chown(target, NOBODY, NOBODY)

    with pytest.raises(files.NotOurs, match="owned by uid 65534"):
        files.read(str(target))


# --- append ------------------------------------------------------------------------------


def test_lines_are_appended_whole(tmp_path: Path) -> None:
    fd = files.open_append(str(tmp_path / "f"), new=True)
    files.append(fd, b"one")
    files.append(fd, b"two", sync=True)
    os.close(fd)

    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"


def test_a_new_file_for_appends_must_not_exist(target: Path) -> None:
    with pytest.raises(FileExistsError):
        files.open_append(str(target), new=True)


@pytest.mark.parametrize("open_it", [files.open_append, files.open_lock])
def test_descriptors_are_closed_on_exec(tmp_path: Path, open_it: Callable[[str], int]) -> None:
    fd = open_it(str(tmp_path / "f"))

    assert fcntl.fcntl(fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    os.close(fd)


def test_a_torn_last_line_is_left_out_at_every_length() -> None:
    data = b'{"a": 1}\n\n{"b": 2}\n'

    assert list(files.lines(data)) == [b'{"a": 1}', b"", b'{"b": 2}']
    for length in range(len(data)):
        whole = data[:length].count(b"\n")
        assert list(files.lines(data[:length])) == list(files.lines(data))[:whole]


# --- names -------------------------------------------------------------------------------


def test_st_20_a_name_that_is_taken_is_never_moved_onto(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "dangling").symlink_to("nowhere")

    for name in ("empty", "file", "dangling"):
        with pytest.raises(FileExistsError):
            files.move_new(str(source), str(tmp_path / name))

    assert source.is_dir()


def test_a_free_name_is_moved_onto_and_its_directory_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync_dir", synced.append)
    (tmp_path / "source").mkdir()

    files.move_new(str(tmp_path / "source"), str(tmp_path / "target"))

    assert names(tmp_path) == ["target"]
    assert synced == [str(tmp_path)]


def test_create_refuses_a_name_that_is_taken(target: Path) -> None:
    with pytest.raises(FileExistsError):
        files.create(str(target), b"new")

    assert target.read_bytes() == b"old"


def test_a_hard_link_refuses_a_name_that_is_taken(target: Path) -> None:
    files.link(str(target), str(target.parent / "prev"))

    with pytest.raises(FileExistsError):
        files.link(str(target), str(target.parent / "prev"))
    assert target.stat().st_nlink == 2


def test_directories_are_made_private_and_their_parents_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync_dir", synced.append)

    files.make_dirs(str(tmp_path / "a" / "b"))

    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700
    assert synced == [str(tmp_path), str(tmp_path / "a")]


def test_a_directory_that_exists_is_taken_only_where_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "dir").mkdir()
    (tmp_path / "link").symlink_to("dir")

    files.make_dir(str(tmp_path / "dir"), exist_ok=True)
    with pytest.raises(FileExistsError):
        files.make_dir(str(tmp_path / "dir"))
    with pytest.raises(FileExistsError):
        files.make_dir(str(tmp_path / "link"), exist_ok=True)


def test_a_missing_file_is_removed_unless_it_must_be_there(tmp_path: Path) -> None:
    files.unlink(str(tmp_path / "absent"))

    with pytest.raises(FileNotFoundError):
        files.unlink(str(tmp_path / "absent"), missing_ok=False)


def test_a_fifo_takes_the_place_of_what_a_crash_left(tmp_path: Path) -> None:
    (tmp_path / "wake").write_bytes(b"")

    files.make_fifo(str(tmp_path / "wake"))

    assert (tmp_path / "wake").is_fifo()


# --- locks -------------------------------------------------------------------------------


@pytest.fixture(params=["ofd", "flock"])
def mechanism(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "flock":
        monkeypatch.setenv("ADW_DISABLE", "cgroup,ofd")
    return str(request.param)


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[], int]]:
    """Opens the same lock file again and again."""
    with contextlib.ExitStack() as stack:

        def open_again() -> int:
            fd = files.open_lock(str(tmp_path / "lock"))
            stack.callback(_close, fd)
            return fd

        yield open_again


def _close(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)


@pytest.mark.usefixtures("mechanism")
def test_a_lock_has_one_holder_and_ends_with_it(opened: Callable[[], int], tmp_path: Path) -> None:
    first, second = opened(), opened()

    assert files.lock(first)
    assert not files.lock(second)
    assert files.locked_fd(second)
    assert files.locked(str(tmp_path / "lock"))

    os.close(first)

    assert not files.locked(str(tmp_path / "lock"))
    assert files.lock(second, wait=True)


@pytest.mark.usefixtures("mechanism")
def test_asking_takes_nothing(opened: Callable[[], int], tmp_path: Path) -> None:
    first = opened()

    assert not files.locked(str(tmp_path / "lock"))
    assert files.lock(first)
    assert files.locked(str(tmp_path / "lock"))
    assert files.locked(str(tmp_path / "lock"))


@pytest.mark.usefixtures("mechanism")
def test_closing_another_descriptor_of_the_file_keeps_the_lock(
    opened: Callable[[], int], tmp_path: Path
) -> None:
    # An ordinary POSIX lock would be lost here: any close of the file drops it.
    assert files.lock(opened())

    os.close(opened())

    assert files.locked(str(tmp_path / "lock"))


@pytest.mark.usefixtures("mechanism")
def test_a_copy_of_the_descriptor_keeps_the_lock(opened: Callable[[], int], tmp_path: Path) -> None:
    first = opened()
    assert files.lock(first)

    copy = os.dup(first)
    os.close(first)

    assert files.locked(str(tmp_path / "lock"))
    os.close(copy)
    assert not files.locked(str(tmp_path / "lock"))


@pytest.mark.usefixtures("mechanism")
def test_a_process_that_inherited_the_descriptor_keeps_the_lock_until_it_is_killed(
    opened: Callable[[], int], tmp_path: Path
) -> None:
    first = opened()
    assert files.lock(first)
    child = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=[first])
    os.close(first)

    assert files.locked(str(tmp_path / "lock"))

    child.kill()
    child.communicate()
    assert not files.locked(str(tmp_path / "lock"))


def test_an_absent_file_is_not_locked(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")

    assert not files.locked(str(tmp_path / "absent"))
    assert not files.locked(str(tmp_path / "file" / "lock"))


@pytest.mark.usefixtures("mechanism")
def test_other_errors_of_locking_are_raised(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_PATH)

    with pytest.raises(OSError, match="Bad file descriptor"):
        files.lock(fd)
    os.close(fd)


# --- failpoints --------------------------------------------------------------------------


def test_creation_has_a_failpoint_on_either_side_of_its_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(failpoints, "hit", lambda name: seen.append((name, names(tmp_path))))
    (tmp_path / "source").mkdir()

    files.move_new(str(tmp_path / "source"), str(tmp_path / "target"), sync=False)

    assert seen == [("create.before_rename", ["source"]), ("create.after_rename", ["target"])]


def test_no_limit_of_the_tests_own_process_was_changed() -> None:
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY
