"""Processes that work in a folder or hold a file below it, also one that was removed meanwhile.

Where /proc is absent, or hides other users' processes, those are not seen.

Source: proc(5), /proc/PID/cwd and /proc/PID/fd; the kernel adds " (deleted)" to a removed name.
"""

import contextlib
import os
from collections.abc import Iterator
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
    return [who for who in _others() if _below(_link(f"/proc/{who.pid}/cwd"), folder)]


def holding(folder: str) -> list[Occupant]:
    """Processes that have a file below the folder open; not this one."""
    return [who for who in _others() if any(_below(each, folder) for each in _open_files(who.pid))]


def named(found: list[Occupant]) -> str:
    """Such as: `process 4121 (bash)`, the first few."""
    words = [f"process {each.pid} ({each.name})" for each in found[:_SHOWN]]
    more = len(found) - _SHOWN
    return ", ".join(words) + (f" and {more} more" if more > 0 else "")


def _others() -> Iterator[Occupant]:
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError), open(f"/proc/{name}/comm", "rb") as file:
                yield Occupant(int(name), file.read().decode("utf-8", "replace").strip())


def _open_files(pid: int) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            yield _link(f"/proc/{pid}/fd/{fd}")


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _below(path: str, folder: str) -> bool:
    return f"{path.removesuffix(' (deleted)')}/".startswith(f"{os.path.realpath(folder)}/")
