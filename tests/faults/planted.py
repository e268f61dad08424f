"""Faults that once were common in supervisors, put into adw in a process of its own.

The tests of the tests: a campaign that stays green with one of these shows nothing.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Mapping
from typing import Any, Final

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
    """Take a supervisor for alive while any process has its number."""

    def is_alive(pid: int, start_time: int) -> bool:
        del start_time
        return os.path.exists(f"/proc/{pid}")

    procs.is_alive = is_alive


FAULTS: Final[Mapping[str, Callable[[], None]]] = {"group_only": group_only, "pid_file": pid_file}
