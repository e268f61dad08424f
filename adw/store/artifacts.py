"""Taking a phase's output off the disk, from a place where anybody may have put anything.

What stands in a worktree was made by programs that nobody vouches for, and they may still run. It is
found and opened as `adw.store.beneath` has it. The bytes of the open file are read once, hashed and
copied in the same pass, and then the file is looked at again.

What a caller may rely on:
- A copy under its final name is whole, durable, and has the hash that is told.
- Nothing from outside the root is read into a copy.
- A fault of the output is an `OutputFault`; a fault of the disk is an OSError.
"""

import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from adw.store import files, views
from adw.store.beneath import (
    CONTRACT,
    MISSING,
    OutputFault,
    changed,
    components,
    directory,
    opened,
    plain,
    refuse_kind,
    shown,
    the_match,
)

__all__ = ["COPY_LIMIT", "OutputFault", "Taken", "digest", "take"]

COPY_LIMIT: Final = 64 << 20  # bytes; a larger output is only hashed
CHECK_LIMIT: Final = 16 << 20  # bytes; the most that is held in memory to be checked
MAX_BYTES: Final = 1 << 30

_PIECE: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Taken:
    """An output that was found good."""

    source: str
    """Path relative to the root, as found; bytes that are no UTF-8 are lone surrogates."""
    copy: str | None
    """Path of the copy, in the directory that was named; None: too large, only hashed."""
    size_bytes: int
    sha256: str


def take(
    root: str,
    pattern: str,
    target_dir: str,
    *,
    below: str = "",
    max_bytes: int = MAX_BYTES,
    check: Callable[[bytes], object] | None = None,
) -> Taken:
    """Find the one file that a pattern names, hash it, and copy it durably.

    Args:
        root: Directory that the caller trusts; a link to one is followed.
        pattern: Relative path with `*`, `?`, `[...]` inside components, as fnmatch(3) has them; a
            leading dot is matched by a dot only.
        target_dir: Where the copy goes, `<artifacts>/<name>/<child id>`; made when it is needed.
        below: Literal path from `root` to the directory that the pattern starts at, for a
            directory that the phase itself could replace: no link is followed there.
        max_bytes: The largest size.
        check: Called with the whole content before the copy gets its name; what it raises as
            ValueError is a fault. Content larger than `CHECK_LIMIT` is a fault too.

    Returns:
        What was found. `target_dir` holds the copy and nothing else, durably, with the
        directories above it up to `<artifacts>`.

    Raises:
        OutputFault: No such file, several, or not a good one. Nothing was copied; a whole copy
            of the same name from an earlier call stays.
        OSError: The disk, not the output; again nothing half stands under the final name.
    """
    if os.path.isdir(target_dir) and not os.path.islink(target_dir):
        files.sweep(target_dir)
    parts = components(pattern)
    with directory(root, below, pattern) as top:
        source = the_match(top, parts, pattern)
        with opened(top, source) as fd:
            before = os.fstat(fd)
            _refuse(before, source, max_bytes)
            reader = _Reader(fd, source, before.st_size, check)
            look_again = partial(_look_again, top, fd, source, before)
            copy = None
            if before.st_size <= COPY_LIMIT:
                copy = _copy(reader, source, target_dir, look_again)
            else:
                for _ in reader.pieces():
                    pass
                look_again()
    return Taken(source, copy, before.st_size, reader.sha256)


def digest(root: str, relative: str, *, max_bytes: int = MAX_BYTES) -> str | None:
    """The SHA-256 of a file as it is now.

    Args:
        root: Directory that the caller trusts; a link to one is followed, none below.
        relative: Literal path.
        max_bytes: The largest size that is read.

    Returns:
        64 hexadecimal digits; None where there is no such regular file that can be read, or it
        is larger.

    Raises:
        OSError: The disk failed.
    """
    try:
        with (
            directory(root, "", relative) as top,
            opened(top, "/".join(components(relative))) as fd,
        ):
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size > max_bytes:
                return None
            reader = _Reader(fd, relative, info.st_size, None)
            for _ in reader.pieces():
                pass
            return reader.sha256
    except OutputFault:
        return None


class _Reader:
    """One pass over an open file: its pieces, their hash, and the whole where it is checked."""

    __slots__ = ("_check", "_fd", "_hash", "_kept", "_size", "_source")

    def __init__(
        self, fd: int, source: str, size: int, check: Callable[[bytes], object] | None
    ) -> None:
        if check and size > CHECK_LIMIT:
            raise OutputFault(
                CONTRACT,
                f"{shown(source)} has {size} bytes, "
                f"at most {CHECK_LIMIT} are allowed where the content is checked",
            )
        self._fd, self._source, self._size, self._check = fd, source, size, check
        self._hash = hashlib.sha256()
        self._kept: list[bytes] = []

    def pieces(self) -> Iterator[bytes]:
        """The content, never more than the size at the beginning; at its end it is checked."""
        left = self._size
        while left:
            try:
                piece = os.read(self._fd, min(_PIECE, left))
            except OSError as error:
                error.filename = error.filename or self._source
                raise
            if not piece:  # cut while it was read
                raise changed(self._source)
            left -= len(piece)
            self._hash.update(piece)
            if self._check:
                self._kept.append(piece)
            yield piece
        if self._check:
            try:
                self._check(b"".join(self._kept))
            except ValueError as error:
                detail = f"{shown(self._source)} is not valid: {plain(str(error))}"
                raise OutputFault(CONTRACT, detail) from None

    @property
    def sha256(self) -> str:
        """The hash of what was read so far."""
        return self._hash.hexdigest()


def _refuse(info: os.stat_result, source: str, max_bytes: int) -> None:
    """Decide about an open file, before a byte is read."""
    refuse_kind(info, source)
    if info.st_nlink > 1:
        raise OutputFault(
            CONTRACT,
            f"{shown(source)} is one of {info.st_nlink} hard links, a file of its own is expected",
        )
    if info.st_size == 0:
        raise OutputFault(MISSING, f"{shown(source)} is empty")
    if info.st_size > max_bytes:
        raise OutputFault(
            CONTRACT,
            f"{shown(source)} has {info.st_size} bytes, at most {max_bytes} are allowed",
        )


def _look_again(top: int, fd: int, source: str, before: os.stat_result) -> None:
    """See that the open file is what it was, and still what the path leads to.

    A hard link that was made or removed meanwhile shows in ctime.
    """
    try:
        with opened(top, source) as second:
            infos = (os.fstat(fd), os.fstat(second))
    except OutputFault:
        raise changed(source) from None
    if any(_identity(info) != _identity(before) for info in infos):
        raise changed(source)


def _identity(info: os.stat_result) -> tuple[int, ...]:
    return (
        info.st_dev, info.st_ino, info.st_nlink, info.st_size, info.st_mtime_ns, info.st_ctime_ns,
    )  # fmt: skip


# --- copying -----------------------------------------------------------------------------


def _copy(reader: _Reader, source: str, target_dir: str, look_again: Callable[[], None]) -> str:
    """Copy what is read, durably with the two directories above; the path of the copy."""
    copy = os.path.join(target_dir, source.rpartition("/")[2])
    _make_room(target_dir, copy)
    files.replace(copy, reader.pieces(), before_rename=look_again)
    for _ in range(2):
        target_dir = os.path.dirname(target_dir)
        files.sync_dir(target_dir)
    return copy


def _make_room(target_dir: str, copy: str) -> None:
    """Make the directory of a copy, with nothing in it but an earlier whole copy.

    A link or file in the place of a directory is set aside: a copy that went through it would
    land outside the run. In that of `<artifacts>` itself it is refused (FileExistsError).
    """
    artifacts_dir, name = os.path.split(os.path.dirname(target_dir))
    if not os.path.lexists(artifacts_dir):
        files.make_dirs(artifacts_dir)
    files.make_dir(artifacts_dir, exist_ok=True)
    views.own_dir(os.path.join(artifacts_dir, name))
    views.own_dir(target_dir)
    for path in (os.path.join(target_dir, name) for name in os.listdir(target_dir)):
        if os.path.isdir(path) and not os.path.islink(path):
            files.remove_tree(path)
        elif path != copy:
            files.unlink(path)
