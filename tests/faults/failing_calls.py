"""The system calls of adw's own writes, failing at the n-th one, in this process.

All of them go through `adw.store.files`, whose `os` is exchanged. A call that is to fail does
nothing, a torn write half of it. `KILLED` stops everything from there on, as SIGKILL does: what
would be cleaned up afterwards is not.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from adw.store import files

KINDS: Final = ("killed", "once", "ever", "torn")
"""Killed there; an error at that call; at that one and all later ones; a write that is half done."""

ONE: Final = frozenset({"once", "torn", "memory", "close", "short"})
"""Kinds that harm one call only; `memory` is a MemoryError there, `close` counts closes
alone, `short` writes alone, of which one is done by half without an error."""

_CHANGING: Final = frozenset(
    {
        "write", "pwrite", "fsync", "fdatasync", "rename", "unlink", "rmdir", "mkdir", "link",
        "ftruncate", "mkfifo",
    }
)  # fmt: skip


class Killed(BaseException):
    """This process is dead."""


class Calls:
    """Stands for `os` in `adw.store.files`; `made` has the calls that change something."""

    def __init__(self, kind: str, at: int, code: int = errno.ENOSPC) -> None:
        self.kind, self.at, self.code = kind, at, code
        self.made: list[str] = []

    @property
    def fired(self) -> bool:
        """Whether the call came."""
        return len(self.made) >= self.at

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if self.kind == "close":
            return self._closing if name == "close" else real
        if self.kind == "short":
            return self._shortened(real) if name in {"write", "pwrite"} else real
        return self._counted(name, real) if name in _CHANGING else real

    def _shortened(self, real: Callable[..., int]) -> Callable[..., int]:
        """Write, and where it is to be short a half of it: no error, as write(2) may."""

        def call(fd: int, data: Any, *more: int) -> int:
            self.made.append(f"write {fd}")
            if len(self.made) == self.at:
                data = data[: max(1, len(data) // 2)]
            return real(fd, data, *more)

        return call

    def _closing(self, fd: int) -> None:
        """Close, and where it is to fail say that it did not, as close(2) may after EIO."""
        self.made.append(f"close {fd}")
        os.close(fd)
        if len(self.made) == self.at:
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path: str, flags: int, *more: Any) -> int:
        """Count those that may make a file."""
        call = os.open
        if flags & os.O_CREAT and self.kind not in {"close", "short"}:
            call = self._counted("open", os.open)
        return call(path, flags, *more)

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **keys: Any) -> Any:
            self.made.append(f"{name} {args[0]}")
            number = len(self.made)
            if number < self.at or (number > self.at and self.kind in ONE):
                # Nothing pulls the plug here, so syncing would only cost time.
                return None if name in {"fsync", "fdatasync"} else real(*args, **keys)
            if self.kind == "killed":
                raise Killed
            if self.kind == "memory" and number == self.at:
                raise MemoryError
            if self.kind == "torn" and name == "write":
                real(args[0], args[1][: len(args[1]) // 2])
            path = args[0] if isinstance(args[0], str) else None
            raise OSError(self.code, os.strerror(self.code), path)

        return call


@contextmanager
def failing(kind: str, at: int, below: str, code: int = errno.ENOSPC) -> Iterator[Calls]:
    """Have the call with this number fail; afterwards close what the dead would have closed.

    Args:
        kind: One of `KINDS`.
        at: Number of the call, from 1.
        below: Files that are open there are closed, so that their locks are free.
        code: Number of the error.
    """
    calls = Calls(kind, at, code)
    patched = [(files, "os", os), (files, "remove_tree", files.remove_tree)]
    setattr(files, "os", calls)  # noqa: B010 - a stand-in is no module
    files.remove_tree = lambda path: _remove(calls, path)
    try:
        yield calls
    finally:
        for module, name, value in patched:
            setattr(module, name, value)
        _close_all(below)


def _remove(calls: Calls, path: str) -> None:
    """As shutil.rmtree, by calls that are counted."""
    for folder, dirs, names in os.walk(path, topdown=False):
        for name in names:
            calls.unlink(os.path.join(folder, name))
        for name in dirs:
            calls.rmdir(os.path.join(folder, name))
    calls.rmdir(path)


def _close_all(below: str) -> None:
    for name in os.listdir("/proc/self/fd"):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue
        if target.startswith(below):
            os.close(int(name))
