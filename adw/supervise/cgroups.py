"""Control groups, version 2: one for each supervisor, made by its nursery, ended as a whole.

Names are `adw-<nursery pid>-<nursery start time>-<n>` below the nursery's own group, so that a
left-over one can be told from one in use. Writes here go to the kernel, not to a disk.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst.
"""

import contextlib
import os
import time
from typing import Final

from adw.store import files
from adw.supervise import procs

_PREFIX: Final = "adw-"
_PAUSE_S: Final = 0.002
_CHUNK: Final = 1 << 14
_seen_mounts: dict[str, list[tuple[str, str]]] = {}


def base() -> str | None:
    """Find this process's own group where groups may be made below it, else None."""
    mounts = _mounts("cgroup2")
    if files.disabled("cgroup"):
        return None
    own = own_path()
    for mount, root in mounts:
        inside = _inside(own, root)
        if inside is not None:
            path = os.path.normpath(mount + "/" + inside)
            if os.access(path, os.W_OK) and os.access(path + "/cgroup.procs", os.W_OK):
                return path
    return None


def own_path() -> str | None:
    """Path of this process's group as /proc/self/cgroup has it; None without version 2."""
    return _own("")


def own_groups(controller: str) -> list[tuple[int, str]]:
    """Version and path of each group of this process that may have a controller.

    Args:
        controller: `memory` or `pids`.
    """
    found = []
    kinds = ((1, f"cgroup {controller}", _own(controller)), (2, "cgroup2", _own("")))
    for version, kind, own in kinds:
        for mount, root in _mounts(kind):
            inside = _inside(own, root)
            if inside is not None:
                found.append((version, os.path.normpath(f"{mount}/{inside}")))
    return found


def name_of(nursery_pid: int, nursery_start: int, number: int | str) -> str:
    """Name the group of a nursery's n-th supervisor: never given twice in one boot."""
    return f"{_PREFIX}{nursery_pid}-{nursery_start}-{number}"


def make(parent: str, name: str) -> str | None:
    """Make a group; None where the kernel says no."""
    path = f"{parent}/{name}"
    try:
        os.mkdir(path, 0o755)
    except OSError:
        return None
    return path


def enter(path: str, pid: int) -> bool:
    """Move a process into a group; what it starts from then on is born there."""
    try:
        write_text(path + "/cgroup.procs", str(pid))
    except OSError:
        return False
    return True


def members(path: str) -> set[int]:
    """Processes in a group and in all groups below it."""
    found: set[int] = set()
    for top, _, _ in os.walk(path):
        found.update(int(word) for word in read_text(top + "/cgroup.procs").split())
    return found


def holds(path: str, pid: int) -> bool:
    """Tell whether a process is in a group or below it, going by the group's unique name."""
    name = os.path.basename(path)
    line = _own("", pid)
    return line is not None and name in line.split("/")


def kill(path: str, wait_s: float = 5.0) -> tuple[int, ...]:
    """End all processes of a group in which this process is not, wait for it, remove the group.

    Returns:
        Who was still alive when time was up, or everybody where this process is one of them;
        empty also where there is no such group.
    """
    deadline = time.monotonic() + wait_s
    while os.path.isdir(path):
        if holds(path, os.getpid()):
            return tuple(sorted(members(path)))
        try:
            write_text(path + "/cgroup.kill", "1")
        except OSError:  # before Linux 5.14, or the group is just being removed
            for pid in members(path):
                signal_member(path, pid, 9)
        if "populated 0" in read_text(path + "/cgroup.events") or not os.path.isdir(path):
            remove(path)
            return ()
        if time.monotonic() > deadline:
            return tuple(sorted(members(path)))
        time.sleep(_PAUSE_S)
    return ()


def signal_member(path: str, pid: int, number: int) -> None:
    """Signal a process if it is in the group: looked at after its start time, so never another."""
    seen = procs.look(pid)
    if seen is not None and holds(path, pid):
        procs.send(pid, seen.start_time, number)


def remove(path: str) -> None:
    """Remove an empty group and those below it; one that is still in use stays."""
    for top, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(top)


def sweep(parent: str) -> None:
    """Remove empty groups of nurseries that are dead."""
    for path in of_dead(parent):
        remove(path)


def of_dead(parent: str) -> list[str]:
    """Groups below `parent` whose nursery is dead; a supervisor may live on in one."""
    found = []
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            parts = name.removeprefix(_PREFIX).split("-", 2)
            ours = name.startswith(_PREFIX) and len(parts) == 3  # noqa: PLR2004  pid, start, number
            ours = ours and all(part.isdigit() for part in parts)
            if ours and not procs.is_alive(int(parts[0]), int(parts[1])):
                found.append(f"{parent}/{name}")
    return found


def oom_counter() -> int:
    """Open the file whose `oom_kill` line counts kills in this process's memory group; -1: none."""
    own = own_path()
    for mount, root in _mounts("cgroup2"):
        found = _beneath(mount, root, own, "memory.events")
        if found:
            return os.open(found, os.O_RDONLY | os.O_CLOEXEC)
    own = _own("memory")
    for mount, root in _mounts("cgroup"):
        found = _beneath(mount, root, own, "memory.oom_control")
        if found:
            return os.open(found, os.O_RDONLY | os.O_CLOEXEC)
    return -1


def oom_kills(counter: int) -> int:
    """How often the kernel killed for want of memory, by a file that `oom_counter` opened."""
    if counter < 0:
        return 0
    try:
        words = os.pread(counter, 4096, 0).split()
    except OSError:
        return 0
    return int(words[words.index(b"oom_kill") + 1]) if b"oom_kill" in words else 0


def _beneath(mount: str, root: str, own: str | None, name: str) -> str | None:
    inside = _inside(own, root)
    if inside is None:
        return None
    path = os.path.normpath(f"{mount}/{inside}/{name}")
    return path if "oom_kill " in read_text(path) else None


def _inside(own: str | None, root: str) -> str | None:
    """A group's path within a mount that shows `root` and what is below it."""
    if own is None or "/.." in own or not (own + "/").startswith(root.rstrip("/") + "/"):
        return None
    return own[len(root.rstrip("/")) :].lstrip("/")


def _own(controller: str, pid: int | str = "self") -> str | None:
    for line in read_text(f"/proc/{pid}/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if controller in names.split(","):
            return path
    return None


def _mounts(kind: str) -> list[tuple[str, str]]:
    """Mount point and root of each mounted hierarchy of a kind; looked up once, by the nursery.

    Args:
        kind: `cgroup2`, `cgroup`, or `cgroup <controller>`.
    """
    if not _seen_mounts:
        for line in read_text("/proc/self/mountinfo").splitlines():
            before, _, after = line.partition(" - ")
            fields = before.split(" ")
            found = (_unescaped(fields[4]), _unescaped(fields[3]))
            kind_of, _, options = after.split(" ", 2)
            _seen_mounts.setdefault(kind_of, []).append(found)
            if kind_of == "cgroup":
                for option in options.split(","):
                    _seen_mounts.setdefault(f"cgroup {option}", []).append(found)
    return _seen_mounts.get(kind, [])


def _unescaped(text: str) -> str:
    for code, char in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        text = text.replace(code, char)
    return text


def read_text(path: str) -> str:
    """Read a file of the kernel; empty where there is none."""
    # Not open(): its buffers and codecs are memory that every supervisor would pay for.
    parts = []
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        while data := os.read(fd, _CHUNK):
            parts.append(data)
    except OSError:
        return ""
    finally:
        os.close(fd)
    return os.fsdecode(b"".join(parts))


def write_text(path: str, text: str) -> None:
    """Write to a file of the kernel; OSError where it says no."""
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
