"""Processes that work in a folder or hold a file below it, also one that was removed meanwhile.

Where /proc is absent, or hides other users' processes, those are not seen.

Source: proc(5), /proc/PID/cwd and /proc/PID/fd; the kernel adds " (deleted)" to a removed name.
"""

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Occupant:
    """One process."""

    pid: int
    name: str
    """As the kernel has it, at most 15 characters."""


def working_in(folder: str) -> list[Occupant]:
    """Processes whose working directory is the folder or below it; not this one."""
    top = os.path.realpath(folder)
    return _named(pid for pid in _others() if _below(_link(f"/proc/{pid}/cwd"), top))


def holding(folder: str) -> list[Occupant]:
    """Processes that have a file below the folder open; not this one."""
    top = os.path.realpath(folder)
    return _named(pid for pid in _others() if any(_below(each, top) for each in _open_files(pid)))


def named(found: list[Occupant]) -> str:
    """Such as: `process 4121 (bash)`, the first few."""
    words = [f"process {each.pid} ({each.name})" for each in found[:_SHOWN]]
    more = len(found) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _others() -> Iterator[int]:
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid():
                yield int(name)


def _named(pids: Iterable[int]) -> list[Occupant]:
    """Those that live still, with their names."""
    found = []
    for pid in pids:
        with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
            found.append(Occupant(pid, file.read().decode("utf-8", "replace").strip()))
    return found


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            yield _link(f"/proc/{pid}/fd/{fd}")


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _below(path: str, top: str) -> bool:
    return f"{path.removesuffix(' (deleted)')}/".startswith(f"{top}/")
