"""What the kernel tells of processes: identity, kin, tags; and the only place that signals one.

A process is (pid, start time, boot id): a pid alone may name a stranger a moment later. Signals go
through a pidfd whose process was looked at after it was opened, so a stranger is never hit.

Source: proc(5), pidfd_open(2), prctl(2).
"""

import contextlib
import os
import signal
from typing import Any, Final, NamedTuple

from adw.store import files

_PR_SET_DUMPABLE: Final = 4
_PR_SET_CHILD_SUBREAPER: Final = 36
_START_TIME: Final = 19  # field 22, counted from the state, field 3
_STAT_BYTES: Final = 4096
_boot: list[str] = []
_prctl_of: list[Any] = []


class Seen(NamedTuple):
    """One line of /proc/PID/stat."""

    state: str
    """One letter; Z: dead, not yet reaped."""
    ppid: int
    session: int
    start_time: int
    """In clock ticks since boot."""

    @property
    def dead(self) -> bool:
        """Whether only its entry in the process table is left."""
        return self.state in {"Z", "X"}


def look(pid: int | str) -> Seen | None:
    """Look at one process (`self` for this one); None where there is none."""
    data = _read(f"/proc/{pid}/stat", _STAT_BYTES)
    # The name in parentheses may hold spaces and parentheses: count from the last one.
    fields = data[data.rfind(b")") + 2 :].split()
    if len(fields) <= _START_TIME:
        return None
    return Seen(fields[0].decode(), int(fields[1]), int(fields[3]), int(fields[_START_TIME]))


def everyone() -> dict[int, Seen]:
    """Look at all processes that /proc shows."""
    found = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            seen = look(name)
            if seen is not None:
                found[int(name)] = seen
    return found


def boot_id() -> str:
    """Name this boot of the machine: after another one every recorded pid is void."""
    if not _boot:
        _boot.append(_read("/proc/sys/kernel/random/boot_id", 64).decode().strip())
    return _boot[0]


def is_alive(pid: int, start_time: int) -> bool:
    """Tell whether this very process still runs."""
    seen = look(pid)
    return seen is not None and seen.start_time == start_time and not seen.dead


def below(roots: set[int], seen: dict[int, Seen], skip: frozenset[int] = frozenset()) -> set[int]:
    """All descendants of `roots` in a look at everyone.

    Args:
        roots: Not part of the answer.
        seen: From `everyone`.
        skip: These and what is below them are left out.
    """
    children: dict[int, list[int]] = {}
    for pid, each in seen.items():
        children.setdefault(each.ppid, []).append(pid)
    found: set[int] = set()
    open_ = list(roots)
    while open_:
        for pid in children.get(open_.pop(), ()):
            if pid not in skip and pid not in found:
                found.add(pid)
                open_.append(pid)
    return found - roots


def ancestors(seen: dict[int, Seen]) -> set[int]:
    """This process and all above it."""
    found: set[int] = set()
    pid = os.getpid()
    while pid > 0 and pid not in found:
        found.add(pid)
        pid = seen[pid].ppid if pid in seen else 0
    return found


def is_tagged(pid: int, adw_id: str, child_id: str) -> bool:
    """Tell whether a process was started with the environment of this attempt."""
    environ = _read(f"/proc/{pid}/environ", 1 << 22).split(b"\0")
    wanted = {b"ADW_ID=" + os.fsencode(adw_id), b"ADW_CHILD=" + os.fsencode(child_id)}
    return wanted.issubset(environ)


def send(pid: int, start_time: int, number: int) -> bool:
    """Send a signal to exactly this process.

    Args:
        pid: Never 0, 1, negative or this process: those are refused.
        start_time: What `look` said of it.
        number: The signal.

    Returns:
        False where that process is gone, or may not be signalled.
    """
    if pid <= 1 or pid == os.getpid():
        return False
    pidfd = open_pidfd(pid)
    try:
        if not is_alive(pid, start_time):
            return False
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if pidfd is None:
                os.kill(pid, number)
            else:
                signal.pidfd_send_signal(pidfd, number)
            return True
        return False
    finally:
        if pidfd is not None:
            os.close(pidfd)


def open_pidfd(pid: int) -> int | None:
    """Open a process, close-on-exec; None where it is gone or the machine cannot."""
    if files.disabled("pidfd") or not hasattr(os, "pidfd_open"):
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def become_subreaper() -> bool:
    """Let orphans below this process become its children; tells whether they will."""
    return not files.disabled("subreaper") and _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def hide() -> None:
    """Keep others of the same user out of this process's memory and environment."""
    _prctl(_PR_SET_DUMPABLE, 0)


def keep_only(fds: set[int]) -> None:
    """Close every descriptor but these."""
    try:
        found = [int(name) for name in os.listdir("/proc/self/fd")]
    except OSError:
        found = list(range(4096))
    for fd in found:
        if fd not in fds:
            with contextlib.suppress(OSError):
                os.close(fd)


def _prctl(option: int, value: int) -> bool:
    if not _prctl_of:  # looked up once, by the nursery: each supervisor would pay 200 KB for it
        import ctypes

        _prctl_of.append(getattr(ctypes.CDLL(None), "prctl", None))
    return _prctl_of[0] is not None and int(_prctl_of[0](option, value, 0, 0, 0)) == 0


def _read(path: str, size: int) -> bytes:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(fd, size)
    except OSError:
        return b""
    finally:
        os.close(fd)
