"""A process that dies inside of this one: everything that `store` asks of the system is counted.

`Mortal(at=n)` dies before the n-th call: that call and all later ones raise `Killed`, so that no
clean-up happens that a killed process would not have made; `bury` closes what it had open, which
frees its locks as the kernel would. fsync is counted and not made.
"""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import pytest

from adw.store import effects, files

CALLS: Final = frozenset(
    {
        "open", "close", "write", "pwrite", "pread", "fsync", "fdatasync", "rename", "mkdir",
        "unlink", "fstat", "listdir", "scandir", "set_inheritable",
    }
)  # fmt: skip
"""Calls that are points; the other names of `os` are passed on."""


class Killed(BaseException):
    """The process is dead; nobody can catch this but the test."""


class Mortal:
    """One life, counted in system calls."""

    def __init__(self, at: int | None = None, *, torn: bool = False) -> None:
        self.at = at
        """Die before the call of this number; None: never."""
        self.torn = torn
        """Where that call is a write, half of it is written."""
        self.names: list[str] = []
        """The calls that were made."""
        self.dead = False
        self._fds: set[int] = set()

    def point(self, name: str, real: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Make a call, or die before it."""
        if self.dead:
            raise Killed(name)
        if len(self.names) == self.at:
            self.dead = True
            if self.torn and name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise Killed(name)
        self.names.append(name)
        if name in {"fsync", "fdatasync"}:
            return None
        found = real(*args, **more)
        if name == "open":
            self._fds.add(found)
        elif name == "close":
            self._fds.discard(args[0])
        return found

    def bury(self) -> None:
        """Close what it had open."""
        for fd in self._fds:
            with suppress(OSError):
                os.close(fd)
        self._fds.clear()


class _Calls:
    """Stands in for a module: its calls are points of one life."""

    def __init__(self, real: Any, mortal: Mortal, names: frozenset[str]) -> None:
        self._real, self._mortal, self._names = real, mortal, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._real, name)
        if name not in self._names:
            return found

        def call(*args: Any, **more: Any) -> Any:
            return self._mortal.point(name, found, *args, **more)

        return call


@contextmanager
def living(mortal: Mortal) -> Iterator[None]:
    """Within this block the store is that process; a `Killed` ends the block."""
    with pytest.MonkeyPatch.context() as patch:
        for room in (files, effects):
            patch.setattr(room, "os", _Calls(os, mortal, CALLS))
        patch.setattr(files, "fcntl", _Calls(fcntl, mortal, frozenset({"fcntl"})))
        try:
            yield
        except Killed:
            assert mortal.dead
        finally:
            mortal.bury()
