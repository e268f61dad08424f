"""Short locks, waited for with a limit: whoever may read a lock file can hold its lock for ever.

Who has the file open is named, for people; nothing is decided by it.

Source: proc(5), /proc/PID/fd; fcntl(2): a read lock needs no more than a descriptor for reading.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Final

from adw.errors import HostLocked
from adw.store import files

WAIT_S: Final = 30.0
"""For locks that adw itself holds for milliseconds."""
_POLL_S: Final = 0.005
_SHOWN: Final = 3


def take(fd: int, path: str, wait_s: float = WAIT_S) -> None:
    """Take the lock of an open file.

    Args:
        fd: The file.
        path: Its name, for the message.
        wait_s: Longest wait in seconds.

    Raises:
        HostLocked: It stayed taken; the message names who has the file open.
        OSError: The lock cannot be asked for.
    """
    deadline = time.monotonic() + wait_s
    while not files.lock(fd):
        if time.monotonic() >= deadline:
            raise HostLocked(path=path, seconds=f"{wait_s:g}", holder=holders(path))
        time.sleep(_POLL_S)


def holders(path: str) -> str | None:
    """Processes that have a file open, such as `process 4121 (flock) has it open`; not this one.

    None where none is seen: /proc is absent, or hides those of other users.
    """
    try:
        wanted = os.stat(path)
    except OSError:
        return None
    found = [f"process {pid} ({_name(pid)})" for pid in _having(wanted)]
    if not found:
        return None
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f"{', '.join(found[:_SHOWN])}{more} ha{'ve' if len(found) > 1 else 's'} it open"


def _having(wanted: os.stat_result) -> Iterator[int]:
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdigit() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                folder = f"/proc/{name}/fd"
                if any(_is(f"{folder}/{fd}", wanted) for fd in os.listdir(folder)):
                    yield int(name)


def _is(link: str, wanted: os.stat_result) -> bool:
    try:
        return os.path.samestat(os.stat(link), wanted)
    except OSError:
        return False


def _name(pid: int) -> str:
    with contextlib.suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        text = file.read(64).decode("utf-8", "replace").strip()
        return "".join(c if c.isprintable() else "?" for c in text)
    return "gone"
