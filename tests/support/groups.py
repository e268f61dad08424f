"""Control groups with a limit, for whatever a test puts into them."""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from adw.supervise import fence
from tests.support.wait import until

_LIMITS: Final = {
    ("memory", 1): "memory.limit_in_bytes",
    ("memory", 2): "memory.max",
    ("pids", 1): "pids.max",
    ("pids", 2): "pids.max",
}
_KILLS: Final = {1: "memory.oom_control", 2: "memory.events"}


@dataclass(frozen=True)
class Group:
    """One control group of one controller."""

    path: Path
    controller: str
    version: int

    @property
    def wrap(self) -> list[str]:
        """Words before a command that is to run inside, with all that it starts."""
        return ["sh", "-c", f'echo $$ > {self.path}/cgroup.procs; exec "$@"', "sh"]

    def limit(self, most: int) -> None:
        """Set the limit: bytes, or processes and threads."""
        (self.path / _LIMITS[self.controller, self.version]).write_text(str(most))

    def take(self, pid: int) -> None:
        """Put one process in; what it starts from now on comes after it."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def members(self) -> list[int]:
        """Processes that are inside."""
        return [int(word) for word in (self.path / "cgroup.procs").read_text().split()]

    def count(self) -> int:
        """Processes and threads that count towards a limit on them."""
        return int((self.path / "pids.current").read_text())

    def killed(self) -> int:
        """How often the kernel killed here for want of memory."""
        words = (self.path / _KILLS[self.version]).read_text().split()
        return int(words[words.index("oom_kill") + 1])

    def ended(self) -> bool:
        """Kill whoever is left; whether nobody was."""
        left = self.members()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left


@contextlib.contextmanager
def group(controller: str, limit: int | None = None) -> Iterator[Group]:
    """Make a group, and remove it when all in it are gone; skip where none may be made.

    Args:
        controller: `memory` or `pids`.
        limit: As `Group.limit`; None: none yet.
    """
    found = fence.parent(controller)
    if found is None:
        pytest.skip(f"no control group for {controller} here: its limit was NOT tested")
    path = Path(found[0], f"tests-{os.getpid()}-{os.urandom(3).hex()}")
    path.mkdir()
    made = Group(path, controller, found[1])
    try:
        if limit is not None:
            made.limit(limit)
        yield made
    finally:
        try:
            until(lambda: not made.members(), what="end of all in the group")
        finally:
            until(made.ended, what="end of all that were killed in the group")
            path.rmdir()
