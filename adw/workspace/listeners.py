"""Who listens on a TCP port of this host, as the kernel tells it.

Source: proc(5), /proc/net/tcp and /proc/PID/fd: a row in state 0A names the inode of its socket,
and a process that has the socket has a descriptor that leads to `socket:[inode]`.
"""

import contextlib
import os
from dataclasses import dataclass
from typing import Final

_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_LISTEN: Final = "0A"
_LOCAL, _STATE, _UID, _INODE = 1, 3, 7, 9  # columns


@dataclass(frozen=True, slots=True)
class Listener:
    """One socket that listens."""

    uid: int
    """Whose it is."""
    pids: tuple[int, ...]
    """The processes that have it; empty where they are of another user, or have just gone."""


def listeners(port: int) -> list[Listener]:
    """Every socket that listens on a port, of both address families, whatever its address."""
    found = {inode: uid for table in _TABLES for inode, uid in _rows(table, port)}
    holders = _holders(set(found)) if found else {}
    return [Listener(uid, tuple(sorted(holders[inode]))) for inode, uid in found.items()]


def _rows(table: str, port: int) -> list[tuple[str, int]]:
    """Inode and uid of each socket that listens; none where the family is missing."""
    try:
        with open(table, encoding="ascii") as file:
            lines = file.read().splitlines()[1:]
    except OSError:
        return []
    rows = (line.split() for line in lines)
    return [
        (row[_INODE], int(row[_UID]))
        for row in rows
        if row[_STATE] == _LISTEN and int(row[_LOCAL].rpartition(":")[2], 16) == port
    ]


def _holders(inodes: set[str]) -> dict[str, set[int]]:
    """Inode to the processes of this user that have it."""
    found: dict[str, set[int]] = {inode: set() for inode in inodes}
    wanted = {f"socket:[{inode}]": inode for inode in inodes}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError):
            for fd in os.listdir(f"/proc/{name}/fd"):
                with contextlib.suppress(OSError):
                    inode = wanted.get(os.readlink(f"/proc/{name}/fd/{fd}"))
                    if inode is not None:
                        found[inode].add(int(name))
    return found
