"""Finding and opening files where anybody may have put anything: below a root, through no link.

Nothing is looked at first and opened then. Every directory on the way is opened relative to the
one above it, so that a name that changes meanwhile leads nowhere else, and what counts is what the
open descriptor is.

Source: openat(2), "Rationale for openat() and other directory file descriptor APIs".
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from itertools import islice
from typing import Final

MISSING: Final = "missing_output"
CONTRACT: Final = "contract"

_SHOWN: Final = 300  # characters of a path in a message
_NAMED: Final = 3  # of several matches, so many are named
_MANY: Final = 1000  # matches; the search ends here
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_NOT_THERE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})
_KINDS: Final = (
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a character device"),
    (stat.S_ISBLK, "a block device"),
)


class OutputFault(Exception):
    """An output that is not what the phase owed.

    Attributes:
        kind: `missing_output` or `contract`.
        detail: One line without control characters: what was found.
    """

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind = kind
        self.detail = detail


# --- finding -----------------------------------------------------------------------------


def components(pattern: str) -> list[str]:
    """The components of a relative path that stays below its root and out of `.git`."""
    if pattern.startswith("/") or ".." in pattern.split("/"):
        raise OutputFault(CONTRACT, f"{shown(pattern)} leads outside")
    parts = [part for part in pattern.split("/") if part not in {"", "."}]
    if not parts or "\0" in pattern:
        raise OutputFault(CONTRACT, f"{shown(pattern)} is no path of a file")
    if any(part.lower() == ".git" for part in parts):
        raise OutputFault(CONTRACT, f"{shown(pattern)} leads into `.git`")
    return parts


def the_match(top: int, parts: list[str], pattern: str) -> str:
    """The path of the one thing that matches; the last component may be of any kind."""
    if not any(map(_is_wild, parts)):
        return "/".join(parts)
    in_the_way: list[OutputFault] = []
    try:
        found = list(islice(_matches(top, parts, "", in_the_way), _MANY + 1))
    except PermissionError:
        raise _denied(pattern) from None
    if len(found) > _MANY:
        raise OutputFault(CONTRACT, f"more than {_MANY} files match {shown(pattern)}")
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(map(shown, sorted(found)[:_NAMED]))
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise OutputFault(
            CONTRACT, f"{len(found)} files match {shown(pattern)}: {named}{more}; one is expected"
        )
    if in_the_way:
        raise min(in_the_way, key=lambda fault: fault.detail)
    raise _missing(pattern)


def _is_wild(part: str) -> bool:
    return any(mark in part for mark in "*?[")


def _matches(
    fd: int, parts: list[str], prefix: str, in_the_way: list[OutputFault]
) -> Iterator[str]:
    """Paths below an open directory that match, in no order.

    Links and closed directories where a directory is expected are passed over and noted in
    `in_the_way`: what lies behind them is not looked at.
    """
    part, rest = parts[0], parts[1:]
    for name in _names(fd, part):
        path = prefix + name
        if not rest:
            yield path
            continue
        try:
            inner = _open_directory(fd, name, path)
        except OutputFault as fault:
            if fault.kind == CONTRACT:
                in_the_way.append(fault)
            continue
        try:
            yield from _matches(inner, rest, path + "/", in_the_way)
        except PermissionError:  # a directory that may be entered, not listed
            in_the_way.append(_denied(path))
        finally:
            os.close(inner)


def _names(fd: int, part: str) -> Iterator[str]:
    """The names in an open directory that match one component and exist."""
    if not _is_wild(part):
        try:
            os.stat(part, dir_fd=fd, follow_symlinks=False)
        except OSError as error:
            if error.errno not in _NOT_THERE:
                raise
        else:
            yield part
        return
    with os.scandir(fd) as entries:
        for entry in entries:
            hidden = entry.name.startswith(".") and not part.startswith(".")
            if not hidden and entry.name.lower() != ".git" and fnmatchcase(entry.name, part):
                yield entry.name


# --- opening -----------------------------------------------------------------------------


@contextmanager
def directory(root: str, below: str, pattern: str) -> Iterator[int]:
    """Open the directory that a pattern starts at."""
    try:
        fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        _tell(error, root, pattern)
        raise
    try:
        inner = _descended(fd, below.split("/") if below else [], pattern)
    finally:
        os.close(fd)
    try:
        yield inner
    finally:
        os.close(inner)


def _descended(fd: int, above: list[str], wanted: str) -> int:
    """Open the directory at the end of a chain of literal names; a copy of `fd` for no names."""
    here, path = os.dup(fd), ""
    try:
        for name in above:
            path += name
            inner = _open_directory(here, name, path, wanted)
            os.close(here)
            here, path = inner, path + "/"
    except BaseException:
        os.close(here)
        raise
    return here


def _open_directory(fd: int, name: str, path: str, wanted: str | None = None) -> int:
    """Open a directory in an open one, not through a link.

    Args:
        fd: The directory above.
        name: One component.
        path: The path so far, for messages.
        wanted: The path that is missing when this one is; by default `path`.
    """
    try:
        return os.open(name, _FLAGS | os.O_DIRECTORY, dir_fd=fd)
    except OSError as error:
        if error.errno == errno.ENOTDIR and _is_link(fd, name):  # which Linux tells as this, too
            raise _link(path) from error
        _tell(error, path, wanted or path)
        raise


def _is_link(fd: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode)
    return False


@contextmanager
def opened(top: int, source: str) -> Iterator[int]:
    """Open what lies at a literal path, of whatever kind but a link, without waiting for it.

    Its kind is asked for by name first, only so that no device, FIFO or socket is touched;
    callers decide by the descriptor.
    """
    *above, name = source.split("/")
    here = _descended(top, above, source)
    try:
        try:
            refuse_kind(os.stat(name, dir_fd=here, follow_symlinks=False), source)
            fd = os.open(name, _FLAGS, dir_fd=here)
        except OSError as error:
            _tell(error, source, source)
            raise
    finally:
        os.close(here)
    try:
        yield fd
    finally:
        os.close(fd)


def refuse_kind(info: os.stat_result, source: str) -> None:
    """Raise the fault of everything that is no regular file."""
    if not stat.S_ISREG(info.st_mode):
        kind = next((text for test, text in _KINDS if test(info.st_mode)), "something else")
        raise OutputFault(CONTRACT, f"{shown(source)} is {kind}, not a regular file")


# --- wording -----------------------------------------------------------------------------


def _tell(error: OSError, path: str, wanted: str) -> None:
    """Raise what an error at opening says about the output; return where it says nothing."""
    if error.errno in _NOT_THERE:
        raise _missing(wanted) from error
    if error.errno == errno.ELOOP:
        raise _link(path) from error
    if error.errno in {errno.EACCES, errno.EPERM}:
        raise _denied(path) from error
    if error.errno in {errno.ENXIO, errno.ENODEV, errno.EAGAIN}:  # a socket now, or under a lease
        raise changed(path) from error


def _link(path: str) -> OutputFault:
    return OutputFault(CONTRACT, f"{shown(path)} is a symbolic link")


def _missing(pattern: str) -> OutputFault:
    if _is_wild(pattern):
        return OutputFault(MISSING, f"nothing matches {shown(pattern)}")
    return OutputFault(MISSING, f"there is no {shown(pattern)}")


def _denied(path: str) -> OutputFault:
    return OutputFault(CONTRACT, f"{shown(path)} cannot be read: permission denied")


def changed(source: str) -> OutputFault:
    """The fault of a file that somebody still wrote, or moved, while it was taken."""
    return OutputFault(CONTRACT, f"{shown(source)} changed while it was read")


def shown(path: str) -> str:
    """A path as messages have it: on one line, between backticks."""
    return f"`{plain(path).replace('`', chr(92) + 'x60')}`"


def plain(text: str) -> str:
    """A stranger's text on one line: what is not printable is escaped, what is long is cut."""
    if len(text) > _SHOWN:
        text = text[: _SHOWN - 1] + "…"
    return "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    if "\udc80" <= character <= "\udcff":  # a byte of a file name that is no UTF-8
        return f"\\x{ord(character) & 0xFF:02x}"
    return ascii(character)[1:-1]
