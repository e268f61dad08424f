"""Limits on what all processes of a body use together: memory, and how many they are.

A fence is one control group a controller. A supervisor goes in, starts the body, which is born
there with all that it will start, and goes out again: so the limits are never its own. The names
are those of `cgroups`, so that what a killed supervisor leaves can be told and removed.

Version 1 of control groups, or version 2 where the parent group hands the controller down; without
either there is no fence, and `missing` says so.

Source: the kernel's Documentation/admin-guide/cgroup-v1/memory.rst, pids.rst, cgroup-v2.rst.
"""

import contextlib
import os
from typing import Final

from adw.store import files
from adw.supervise import cgroups

_FILES: Final = {
    ("memory", 1): "memory.limit_in_bytes",
    ("memory", 2): "memory.max",
    ("pids", 1): "pids.max",
    ("pids", 2): "pids.max",
}
CONTROLLERS: Final = ("memory", "pids")
_COUNTERS: Final = {1: "memory.oom_control", 2: "memory.events"}


class CannotFence(Exception):
    """A limit that the machine offers could not be set."""


class Fence:
    """The groups of one body, as far as limits are given and the machine has their controllers.

    Args:
        memory_bytes: Most memory of all processes together; None: no limit.
        processes: Most processes and threads; None: no limit.
        name: Of each group; no other body's.

    Raises:
        CannotFence: The machine has the controller, and refuses the limit.
    """

    __slots__ = ("_groups", "_home", "_last", "oom_counter")

    def __init__(self, memory_bytes: int | None, processes: int | None, name: str) -> None:
        self._groups: list[str] = []
        self._home: list[str] = []
        self._last: list[tuple[str, int]] = []
        self.oom_counter = -1
        """Open file that counts the kernel's kills in the fence; -1: memory has no limit."""
        for controller, limit in zip(CONTROLLERS, (memory_bytes, processes), strict=True):
            found = parent(controller) if limit is not None else None
            if limit is None or found is None:
                continue
            try:
                self._add(controller, limit, *found, name)
            except OSError as error:
                self.remove()
                message = f"cannot limit {controller}: {error.strerror}"
                raise CannotFence(message) from error

    def _add(self, controller: str, limit: int, path: str, version: int, name: str) -> None:
        group = f"{path}/{name}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(group, 0o755)
        self._groups.append(group)
        self._home.append(path)
        file = f"{group}/{_FILES[controller, version]}"
        if controller == "pids":
            # One more for the supervisor, while it is inside to start the body.
            self._last.append((file, limit))
            limit += 1
        cgroups.write_text(file, str(limit))
        if controller == "memory":
            counter = f"{group}/{_COUNTERS[version]}"
            self.oom_counter = os.open(counter, os.O_RDONLY | os.O_CLOEXEC)

    def go_in(self) -> None:
        """Be inside, for the instant in which a body is started.

        Raises:
            OSError: The kernel says no.
        """
        for group in self._groups:
            cgroups.write_text(f"{group}/cgroup.procs", "0")

    def go_out(self) -> None:
        """Be where it was before."""
        for home in self._home:
            cgroups.write_text(f"{home}/cgroup.procs", "0")
        for file, limit in self._last:
            cgroups.write_text(file, str(limit))

    def remove(self) -> None:
        """Take the groups away, empty by now."""
        if self.oom_counter >= 0:
            os.close(self.oom_counter)
            self.oom_counter = -1
        for group in self._groups:
            cgroups.remove(group)


def parent(controller: str) -> tuple[str, int] | None:
    """Find the group below which groups with limits may be made, and its version.

    Args:
        controller: `memory` or `pids`.
    """
    if files.disabled(f"{controller}_limit"):
        return None
    for version, path in cgroups.own_groups(controller):
        if version == 2:  # noqa: PLR2004 - the version
            handed_down = cgroups.read_text(f"{path}/cgroup.subtree_control").split()
            if controller not in handed_down:
                continue
        if os.access(path, os.W_OK) and os.access(f"{path}/cgroup.procs", os.W_OK):
            return path, version
    return None


def missing() -> list[str]:
    """Controllers that this machine does not offer here."""
    return [controller for controller in CONTROLLERS if parent(controller) is None]


def sweep() -> None:
    """Remove empty groups of nurseries that are dead."""
    for controller in CONTROLLERS:
        found = parent(controller)
        if found:
            cgroups.sweep(found[0])


def remove(name: str) -> None:
    """Remove what a killed supervisor's body left, by the name of its groups."""
    for controller in CONTROLLERS:
        found = parent(controller)
        if found:
            cgroups.remove(f"{found[0]}/{name}")
