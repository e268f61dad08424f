"""Waiting until a server of a run listens, and telling it from a stranger on the same port."""

import os
import time
from collections.abc import Callable
from typing import Any, Final

from adw import clock
from adw.errors import PortSilent, PortTaken, UsageError
from adw.store import attempts, runs
from adw.supervise import procs
from adw.workspace.listeners import Listener, listeners

NAMES: Final = {"backend": "backend_port", "frontend": "frontend_port"}
"""Words for the ports of a run's pair, and the state's fields."""
MAX_PORT: Final = 65535
_POLL_S: Final = 0.1
_COMMAND_CHARS: Final = 100


def port_of(run_dir: str, word: str) -> int:
    """The port that a word means for a run.

    Args:
        run_dir: The run.
        word: `backend`, `frontend` or a number.

    Raises:
        UsageError: It is no port, or the run has no pair.
        StateError: The state is damaged.
    """
    if word.isascii() and word.isdigit() and 0 < int(word) <= MAX_PORT:
        return int(word)
    adw_id = os.path.basename(run_dir)
    if word not in NAMES:
        detail = f"`{word}` is found, `backend`, `frontend` or a port number is expected"
        raise UsageError(detail=detail, fix=None)
    port = _state(run_dir).get(NAMES[word])
    if not isinstance(port, int):
        detail = f"run `{adw_id}` has no ports"
        raise UsageError(detail=detail, fix="name the port by its number")
    return port


def _state(run_dir: str) -> dict[str, Any]:
    from adw.app import reading

    found: dict[str, Any] = reading.status(run_dir)["state"]
    return found


def await_listener(run_dir: str, port: int, timeout_s: float) -> int:
    """Wait until something listens on a port, and see that it belongs to the run.

    Args:
        run_dir: The run.
        port: Any TCP port of this host.
        timeout_s: Longest wait.

    Returns:
        Process id of the server.

    Raises:
        PortTaken: What listens belongs to no phase of the run; nothing is done to it.
        PortSilent: Nothing listened in time.
    """
    adw_id = os.path.basename(run_dir)
    deadline = clock.monotonic() + timeout_s
    while True:
        found = listeners(port)
        kin = _Kin(run_dir) if found else None
        owners = [_owner(each, kin.has) for each in found] if kin else []
        strangers = [each for each, owner in zip(found, owners, strict=True) if owner is None]
        gone = [each for each in strangers if not each.pids and each.uid == os.geteuid()]
        if strangers and len(gone) < len(strangers):
            named = next(each for each in strangers if each not in gone)
            raise PortTaken(port=port, adw_id=adw_id, holder=_holder(named))
        pids = [owner for owner in owners if owner is not None]
        if pids and not strangers:
            return pids[0]
        if clock.monotonic() >= deadline:
            if gone:  # in another namespace of processes, say
                raise PortTaken(port=port, adw_id=adw_id, holder=_holder(gone[0]))
            raise PortSilent(port=port, adw_id=adw_id, seconds=f"{timeout_s:g}")
        time.sleep(min(_POLL_S, max(0.0, deadline - clock.monotonic())))


def _owner(listener: Listener, has: Callable[[int], bool]) -> int | None:
    """A process of the run that has the socket, if one has."""
    return next((pid for pid in listener.pids if has(pid)), None)


class _Kin:
    """The processes of a run's phases, at one look.

    By the environment that each phase is given, else by descent from a supervisor of the run,
    which adopts what its phase left behind.
    """

    def __init__(self, run_dir: str) -> None:
        names = {run_dir, os.path.realpath(run_dir)}
        self._marks = {b"ADW_STATE_ROOT=" + os.fsencode(name) for name in names}
        self._seen = procs.everyone()
        self._roots = _supervisors(run_dir)

    def has(self, pid: int) -> bool:
        """Whether the process belongs to a phase of the run."""
        above: set[int] = set()
        while pid > 1 and pid not in above and pid in self._seen:
            if pid in self._roots or not self._marks.isdisjoint(_environ(pid)):
                return True
            above.add(pid)
            pid = self._seen[pid].ppid
        return False


def _supervisors(run_dir: str) -> set[int]:
    """Process ids of the supervisors whose attempt lives."""
    found = set()
    for child in attempts.child_ids(run_dir):
        folder = attempts.dir_of(run_dir, child)
        line = attempts.find(attempts.read_lines(folder), "supervisor")
        if line and attempts.alive(folder) and runs.start_time(line["pid"]) == line["start_time"]:
            found.add(line["pid"])
    return found


def _environ(pid: int) -> list[bytes]:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read().split(b"\0")
    except OSError:
        return []


def _holder(listener: Listener) -> str:
    """Such as: process 4121 (`python -m http.server`)."""
    if not listener.pids:
        return f"a process of user {listener.uid} that cannot be seen"
    pid = listener.pids[0]
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        words = ""
    return f"process {pid}" + (f" (`{words[:_COMMAND_CHARS]}`)" if words else "")
