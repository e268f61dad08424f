"""Every durable byte of adw goes through this file; the standard library is all it needs.

What a reader may rely on:
- `replace`: a reader, or a crash, sees the old bytes or the new ones, never a mix.
- `append`: one whole line or a torn last line, which readers skip.
- a lock is a kernel lock: death of its holder frees it, whatever the file says.

What a crash leaves: a temporary file `.<name>.<pid>.<n>.tmp`, which `sweep` removes.
After a failed fsync nothing is retried on the same descriptor (Linux marks the pages clean, so
that a second fsync would lie; PostgreSQL's "fsyncgate", 2018): the caller gets the OSError.
Not provided: mutual exclusion between writers; callers hold the run's lock.

Source: POSIX rename(2), open(2), fcntl(2) "Open file description locks (non-POSIX)".
"""

import contextlib
import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from adw import failpoints

_CLOEXEC: Final = os.O_CLOEXEC | os.O_NOFOLLOW
_FLOCK: Final = "hhqqi"  # struct flock of 64-bit Linux: type, whence, start, len, pid
READ_LIMIT: Final = 16 * 1024 * 1024  # bytes; a state of 10,000 entries is about 2 MB
_TEMP_BYTES: Final = 200  # of a name in its temporary one: names end at 255 bytes

_counter = 0


class NotOurs(OSError):
    """A file that exists and is not a regular file of this user."""


def disabled(capability: str) -> bool:
    """Tell whether tests switched a capability off (`ADW_DISABLE=ofd,cgroup,pidfd,subreaper`)."""
    return capability in os.environ.get("ADW_DISABLE", "").split(",")


# --- reading -----------------------------------------------------------------------------


def read(path: str, *, limit: int = READ_LIMIT) -> bytes:
    """Read a whole file that this user owns.

    Args:
        path: A regular file; symbolic links are not followed, a FIFO does not block.
        limit: Largest size in bytes.

    Raises:
        NotOurs: It is no regular file, or another user's.
        OSError: As open(2) and read(2); EFBIG where the file is larger than `limit`.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _CLOEXEC)
    try:
        return read_fd(fd, path, limit)
    finally:
        os.close(fd)


def read_fd(fd: int, path: str, limit: int = READ_LIMIT) -> bytes:
    """Read a whole file from its start through an open descriptor; as `read`."""
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        raise NotOurs(errno.EINVAL, "not a regular file", path)
    if info.st_uid != os.geteuid():
        raise NotOurs(errno.EPERM, f"owned by uid {info.st_uid}", path)
    if info.st_size > limit:
        raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
    parts, offset = [], 0
    with _named(fd):
        while chunk := os.pread(fd, 1 << 20, offset):
            parts.append(chunk)
            if (offset := offset + len(chunk)) > limit:
                raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
    return b"".join(parts)


def read_if_exists(path: str, *, limit: int = READ_LIMIT) -> bytes | None:
    """As `read`, and None where there is no such file."""
    try:
        return read(path, limit=limit)
    except FileNotFoundError:
        return None


def lines(data: bytes) -> Iterator[bytes]:
    """The whole lines of appended data, without zeros that a sync that failed left before one."""
    yield from (line.lstrip(b"\0") for line in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1])


# --- writing -----------------------------------------------------------------------------


def write_all(fd: int, data: bytes) -> None:
    """Write every byte: a single write(2) may be short (full disk, signal, RLIMIT_FSIZE).

    Raises:
        OSError: A part may be written; `filename` says of what.
    """
    view = memoryview(data)
    with _named(fd):
        while view:
            view = view[os.write(fd, view) :]


@contextlib.contextmanager
def _named(fd: int) -> Iterator[None]:
    """Have an error that knows only a descriptor name its file, for messages."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError):
            error.filename = error.filename or os.readlink(f"/proc/self/fd/{fd}")
        raise


def temp_name(path: str) -> str:
    """A name beside `path` that no other process uses; not too long where `path` is not."""
    global _counter
    _counter += 1
    head, tail = os.path.split(path)
    tail = os.fsdecode(os.fsencode(tail)[:_TEMP_BYTES])
    return os.path.join(head, f".{tail}.{os.getpid()}.{_counter}.tmp")


def replace(
    path: str,
    data: bytes | Iterable[bytes],
    *,
    sync: bool = True,
    mode: int = 0o600,
    before_rename: Callable[[], None] | None = None,
) -> None:
    """Make `path` hold exactly `data`.

    Args:
        path: Target; its directory exists.
        data: The whole new content; in pieces, memory holds one at a time, and what the iterable
            raises leaves the old file in place.
        sync: Survive a power cut (fsync of the file and of its directory); without it only kills.
        mode: Permission bits of the new file.
        before_rename: Called between the file's fsync and the rename; what it raises leaves the
            old file in place.

    Raises:
        OSError: The old file is intact, except where fsync of the directory failed after the
            rename: then the new content stands and its durability is unknown.
    """
    temp = temp_name(path)
    fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, mode)
    try:
        try:
            for piece in (data,) if isinstance(data, bytes) else data:
                write_all(fd, piece)
            if sync:
                with _named(fd):
                    os.fsync(fd)
        finally:
            os.close(fd)
        if before_rename:
            before_rename()
        os.rename(temp, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temp)
        raise
    if sync:
        sync_dir(os.path.dirname(path) or ".")


def create(path: str, data: bytes, *, sync: bool = True, mode: int = 0o600) -> None:
    """Write a new file; FileExistsError where the name is taken. Its directory is not synced."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC, mode)
    try:
        write_all(fd, data)
        if sync:
            with _named(fd):
                os.fsync(fd)
    finally:
        os.close(fd)


def overwrite(fd: int, data: bytes) -> None:
    """Give an open file new content in place, unsynced: for display only, a reader may see a part."""
    with _named(fd):
        os.ftruncate(fd, 0)
        os.pwrite(fd, data, 0)


def open_append(path: str, *, new: bool = False, mode: int = 0o600) -> int:
    """Open a file for whole-line appends, close-on-exec; `new` refuses one that exists."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | _CLOEXEC
    fd = os.open(path, flags | (os.O_EXCL if new else 0), mode)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise NotOurs(errno.EINVAL, "not a regular file", path)
    return fd


def append(fd: int, line: bytes, *, sync: bool = False) -> None:
    """Append one line; a newline is added. With `sync` it is durable when this returns.

    Where a full disk tore the line before, this one still stands by itself.
    """
    with _named(fd):
        size = os.fstat(fd).st_size
        torn = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
    write_all(fd, b"\n" * torn + line + b"\n")
    if sync:
        sync_fd(fd)


def sync_fd(fd: int) -> None:
    """Make what was appended to an open file durable: for those who tell first and sync then."""
    with _named(fd):
        os.fdatasync(fd)


def open_log(path: str, *, mode: int = 0o600) -> int:
    """Open a file for `write_at` and `truncate`, made if missing; close-on-exec."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _CLOEXEC, mode)


def write_at(fd: int, data: bytes, offset: int) -> None:
    """Write every byte at a place in a file; not for one that was opened for appends."""
    view = memoryview(data)
    with _named(fd):
        while view:
            count = os.pwrite(fd, view, offset)
            view, offset = view[count:], offset + count


def truncate(fd: int, size: int) -> None:
    """Cut an open file to `size` bytes."""
    with _named(fd):
        os.ftruncate(fd, size)


def make_dir(path: str, *, sync: bool = False, mode: int = 0o700, exist_ok: bool = False) -> None:
    """Make one directory; with `sync` its parent is synced, without which a power cut undoes it."""
    try:
        os.mkdir(path, mode)
    except FileExistsError:
        if not (exist_ok and os.path.isdir(path) and not os.path.islink(path)):
            raise
    if sync:
        sync_dir(os.path.dirname(path))


def make_dirs(path: str, *, mode: int = 0o700) -> None:
    """Make a directory and its missing parents, each one's parent synced."""
    missing = []
    while not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for each in reversed(missing):
        make_dir(each, sync=True, mode=mode, exist_ok=True)


def sync_dir(path: str) -> None:
    """Make the entries of a directory durable."""
    _sync(path, os.O_DIRECTORY)


def sync_file(path: str) -> None:
    """Make a file's content durable."""
    _sync(path, os.O_NOFOLLOW)


def _sync(path: str, flag: int) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flag)
    try:
        with _named(fd):
            os.fsync(fd)
    finally:
        os.close(fd)


def rename(source: str, target: str) -> None:
    """Move a file or directory, replacing the target as rename(2) does."""
    os.rename(source, target)


def move_new(source: str, target: str, *, sync: bool = True) -> None:
    """Rename onto a name that must not exist at all, and sync the target's directory.

    rename(2) would succeed onto an empty directory, so the target is looked for first; callers
    hold the lock that keeps others away from the name.

    Raises:
        FileExistsError: The name is taken, by whatever it be.
    """
    if os.path.lexists(target):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
    failpoints.hit("create.before_rename")
    os.rename(source, target)
    failpoints.hit("create.after_rename")
    if sync:
        sync_dir(os.path.dirname(target))


def link(source: str, target: str) -> None:
    """Hard link without replacing; FileExistsError where the name is taken."""
    os.link(source, target, follow_symlinks=False)


def unlink(path: str, *, missing_ok: bool = True) -> None:
    """Remove a file."""
    with contextlib.suppress(*(FileNotFoundError,) * missing_ok):
        os.unlink(path)


def remove_tree(path: str) -> None:
    """Remove a directory that adw itself made and nobody works in; errors are raised."""
    import shutil

    shutil.rmtree(path)


def make_fifo(path: str) -> None:
    """Make a FIFO, in place of whatever lies there from a crash."""
    unlink(path)
    os.mkfifo(path, 0o600)


def sweep(directory: str) -> int:
    """Remove temporary files that a crash left in `directory`; returns how many."""
    count = 0
    for name in os.listdir(directory):
        if name.startswith(".") and name.endswith(".tmp"):
            with contextlib.suppress(IsADirectoryError):  # not ours: we leave files
                unlink(os.path.join(directory, name))
                count += 1
    return count


# --- locks -------------------------------------------------------------------------------


def lock(fd: int, *, wait: bool = False) -> bool:
    """Take the exclusive lock of an open file.

    An open-file-description lock belongs to the open file, so a copy of the descriptor that
    another process receives holds it too, and it ends when the last copy is closed. Never unlock
    it: that would free it for all copies. Only close.

    Args:
        fd: Open for writing.
        wait: Block until it is free; otherwise tell at once.

    Returns:
        Whether it is held now.
    """
    try:
        if disabled("ofd"):
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        else:
            how = fcntl.F_OFD_SETLKW if wait else fcntl.F_OFD_SETLK
            fcntl.fcntl(fd, how, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
    except OSError as error:
        if error.errno in {errno.EAGAIN, errno.EACCES}:
            return False
        raise
    return True


def locked(path: str) -> bool:
    """Tell whether anybody holds the lock of a file; takes nothing, False where there is none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return False
    try:
        return locked_fd(fd)
    finally:
        os.close(fd)


def locked_fd(fd: int) -> bool:
    """As `locked`, for an open descriptor that does not itself hold the lock."""
    if disabled("ofd"):
        # flock has no query: take it for an instant; a concurrent taker may see it as busy.
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        return False
    query = struct.pack(_FLOCK, fcntl.F_RDLCK, 0, 0, 0, 0)
    kind: int = struct.unpack(_FLOCK, fcntl.fcntl(fd, fcntl.F_OFD_GETLK, query))[0]
    return kind != fcntl.F_UNLCK


def open_lock(path: str) -> int:
    """Open a lock file for `lock`, made if missing; close-on-exec."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | _CLOEXEC, 0o600)
