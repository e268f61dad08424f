"""The nursery: forked before anything heavy is imported, so that its supervisors stay small.

`run` and `resume` call `start` first of all. Nothing is imported here before the fork that costs
time or memory: every page that the nursery has, each supervisor has too.

A nursery that was lost is started anew by `spawn`: an exec, never a fork of a process that holds
a run's lock or has grown.
"""

import os
import socket
import sys

_KEPT = ("PATH", "LANG", "TZ", "LD_LIBRARY_PATH", "ADW_FAILPOINT", "ADW_DISABLE", "ADW_AGENTS_DIR")
_ENV_START = 47  # field 50, counted from the state, field 3


class Nursery:
    """The orchestrator's end: `fd` of the socket, `pid` of the process."""

    __slots__ = ("fd", "pid")

    def __init__(self, fd: int, pid: int) -> None:
        self.fd = fd
        self.pid = pid


def start() -> Nursery:
    """Fork the nursery; call it before any heavy import, any lock, any thread."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            become(theirs.fileno())
        finally:
            os._exit(1)
    theirs.close()
    return Nursery(ours.detach(), pid)


def spawn() -> Nursery:
    """Start a nursery as a program of its own, inheriting nothing but its socket."""
    ours, theirs = socket.socketpair()
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", os.path.abspath(__file__), "3"],
        kept_environment(),
        file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), 3)],
        setsid=True,
    )
    theirs.close()
    return Nursery(ours.detach(), pid)


def kept_environment() -> dict[str, str]:
    """What of the environment nursery and supervisors keep: no secret is among it."""
    return {k: v for k, v in os.environ.items() if k in _KEPT or k.startswith("LC_")}


def become(fd: int) -> None:
    """Be the nursery, in a session of its own, until nothing is left to do; never returns.

    Args:
        fd: Its socket; all other descriptors are closed.
    """
    kept = kept_environment()
    for name in set(os.environ) - set(kept):
        del os.environ[name]
    _forget(kept)
    os.chdir("/")

    from adw.supervise import keeper

    keeper.main(fd)
    os._exit(0)


def _forget(kept: dict[str, str]) -> None:
    """Let /proc/PID/environ show nothing but what is kept; supervisors inherit that.

    A fork keeps the block of memory with which its program was started, and unsetenv(3) erases
    nothing of it: whoever may read it would find all secrets of the orchestrator there.

    Source: proc(5), fields 50 and 51 of /proc/PID/stat.
    """
    import ctypes

    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[_ENV_START]), int(fields[_ENV_START + 1])
    except (OSError, IndexError, ValueError):
        return
    for name, value in kept.items():  # moves them out of that block
        os.putenv(name, value)
    block = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in kept.items())
    if 0 < start < end and len(block) <= end - start:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, block, len(block))


if __name__ == "__main__":
    # -I and -S leave out site-packages: the package is found beside this file, after the
    # standard library so that nothing there can stand in its place.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    become(int(sys.argv[1]))
