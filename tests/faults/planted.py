"""Faults that once were common in supervisors, put into adw in a process of its own.

The tests of the tests: a campaign that stays green with one of these shows nothing.

    python -m tests.faults.planted NAME adw-words…
"""

import contextlib
import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from adw.store import attempts, files, runs
from adw.supervise import cgroups, keeper, procs, tree


def group_only() -> None:
    """End a body's process group, and take that for the end of its tree."""

    def none() -> None:
        return None

    def others(self: tree.Inside, *, childless: bool) -> dict[int, int]:
        del childless
        seen = procs.everyone()
        near = procs.below({os.getpid()}, seen)
        near = {pid for pid in near if seen[pid].ppid == os.getpid() and not seen[pid].dead}
        near -= {pid for pid in near if seen[pid].session != os.getpid()}
        del self
        return {pid: seen[pid].start_time for pid in near}

    def end_dead(line: dict[str, Any], body: dict[str, Any] | None) -> tuple[bool, tuple[int, ...]]:
        del line
        if body:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(body["pid"], signal.SIGKILL)
        return True, ()

    def orphans(self: keeper.Keeper, ward: keeper.Ward) -> tuple[int, ...]:
        del self, ward
        return ()

    cgroups.base = none
    tree.Inside.others = others  # type: ignore[method-assign]
    tree.end_dead = end_dead
    keeper.Keeper._end_orphans = orphans  # type: ignore[method-assign]


def pid_file() -> None:
    """Believe the number in a file: who has it lives, and whoever is not found is dead."""
    lock, locked = files.lock, files.locked

    def there(data: bytes) -> bool:
        found = re.findall(rb'"pid": ?(\d+)', data)
        return bool(found) and os.path.exists(f"/proc/{int(found[-1])}")

    def take(fd: int, *, wait: bool = False) -> bool:
        path = os.readlink(f"/proc/self/fd/{fd}")
        if os.path.basename(path) != runs.LOCK:
            return lock(fd, wait=wait)
        return not there(os.pread(fd, 1 << 16, 0))

    def taken(path: str) -> bool:
        if os.path.basename(path) not in {runs.LOCK, attempts.FILE}:
            return locked(path)
        data = files.read_if_exists(path) or b""
        return b'"line":"exit"' not in data and there(data)

    def is_alive(pid: int, start_time: int) -> bool:
        del start_time
        return os.path.exists(f"/proc/{pid}")

    files.lock = take
    files.locked = taken
    procs.is_alive = is_alive


FAULTS: Final[Mapping[str, Callable[[], None]]] = {"group_only": group_only, "pid_file": pid_file}


if __name__ == "__main__":
    plant = sys.argv.pop(1)
    if plant:
        FAULTS[plant]()
    from adw.__main__ import main

    sys.exit(main())
