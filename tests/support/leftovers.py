"""Finds, and ends, what a test left behind: processes, control groups, mounts.

A process belongs to a test when it is a child of this one, or when its environment names this
worker's temporary directory (every run's ADW_STATE_ROOT does), or when it works there.
"""

import contextlib
import os
import re
import shutil
import signal
import time
from typing import Final

MARK: Final = "TESTS_BASE"  # not ADW_…: phases do not inherit those
_PATIENCE_S: Final = 5.0  # a supervisor that is told to go needs a moment
_CGROUP_ROOT: Final = "/sys/fs/cgroup"


def end_processes(parent: int, base: str | None) -> list[str]:
    """Wait for processes of the test to go; kill those that stay, and describe them.

    Args:
        parent: Id of this process, whose children count.
        base: Temporary directory of this worker; None: only children are looked for.
    """
    if base is None and not _has_children():
        return []
    deadline = time.monotonic() + _PATIENCE_S
    while found := _find(parent, base):
        _reap()
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    told = [_describe(pid) for pid in found]
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 1
    while found and _find(parent, base) and time.monotonic() < deadline:
        time.sleep(0.001)
    _reap()
    return told


def cgroups() -> frozenset[str]:
    """Paths of all control groups whose name is adw's and whose nursery is dead."""
    found: set[str] = set()
    for top, names, _ in os.walk(_CGROUP_ROOT):
        for name in names:
            pid = name.removeprefix("adw-").partition("-")[0]
            # One with a living nursery is in use, perhaps by another run of the tests.
            if name.startswith("adw-") and not os.path.exists(f"/proc/{pid}"):
                found.add(os.path.join(top, name))
    return frozenset(found)


def staying_cgroups(before: frozenset[str]) -> list[str]:
    """Wait for control groups that were not there before to go; those that stay."""
    deadline = time.monotonic() + _PATIENCE_S
    while (left := cgroups() - before) and time.monotonic() < deadline:
        time.sleep(0.05)
    return sorted(left)


def mounts() -> frozenset[str]:
    """Mount points of this process, but for those of other runs of the tests that live."""
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        found = [line.split()[4] for line in file]
    return frozenset(path for path in found if not _of_others(path))


def _of_others(path: str) -> bool:
    """Whether pytest keeps this place for another process, which lives: its lock file says so."""
    base = re.match(r".*/pytest-of-[^/]+/pytest-\d+(?=/)", path)
    pid = _read(f"{base[0]}/.lock").decode() if base else ""
    return pid.isdigit() and int(pid) != os.getpid() and os.path.exists(f"/proc/{pid}")


def empty(directory: str) -> None:
    """Remove everything in a directory."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path)
        else:
            os.unlink(entry.path)


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _reap() -> None:
    # A zombie that nobody waits for any more is not left behind, only untidy.
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _find(parent: int, base: str | None) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == parent:
            continue
        stat = _read(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if not stat or stat[0] in {b"Z", b"X"}:
            continue
        if int(stat[1]) == parent or (base is not None and _works_in(name, base)):
            found.append(int(name))
    return found


def _works_in(pid: str, base: str) -> bool:
    with contextlib.suppress(OSError):
        if os.readlink(f"/proc/{pid}/cwd").startswith(base + "/"):
            return True
    environ = _read(f"/proc/{pid}/environ")
    # The workers of xdist run beside this one, each with its own base beneath the controller's.
    return f"={base}/".encode() in environ or f"{MARK}={base}\0".encode() in environ


def _describe(pid: int) -> str:
    command = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace").strip()
    return f"{pid}: {command or '(no command line)'}"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
