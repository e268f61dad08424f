"""Named points at which a test may kill this process with SIGKILL.

`ADW_FAILPOINT=name` kills the process the first time it reaches `name`; `name:3` the third time.
`name:3@FILE` counts over all processes of a run together, in the size of FILE, and so kills one of
them only; `*@FILE` kills nobody and writes down the names that are reached, one a line.
Standard library only: supervisors hit failpoints too. Without the variable a point costs one
comparison.
"""

import os
import signal
from typing import Final

NAMES: Final = frozenset(
    {
        "create.before_rename",
        "create.after_rename",
        "state.before_rename",
        "state.after_rename",
        "packet.written",
        "packet.handed_over",
        "go.before",
        "go.after",
        "outputs.copied",
        "verdict.written",
        "publish.before",
        "manifest.written",
        "history.written",
        "latest.written",
        "response.written",
        "request.applied",
        "request.moved",
        "ports.leased",
        "worktree.made",
        "shim.recorded",
        "shim.body_started",
        "shim.body_ended",
        "shim.exit_written",
        "shim.exit_durable",
    }
)

_WHAT, _, _FILE = os.environ.get("ADW_FAILPOINT", "").partition("@")
_NAME, _, _NTH = _WHAT.partition(":")
_left = int(_NTH) if _NTH.isdigit() else 1


def hit(name: str) -> None:
    """Die here when the environment asks for it.

    Args:
        name: One of `NAMES`; another name is a bug, found when any failpoint is armed.
    """
    if not _NAME:
        return
    global _left
    assert name in NAMES, name
    if _NAME == "*":
        _add(f"{name}\n".encode())
    elif name == _NAME:
        _left = int(_NTH) - _add(b".") if _FILE else _left - 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


def _add(data: bytes) -> int:
    """Append to the file that all processes share; how long it is with that."""
    fd = os.open(_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.write(fd, data)
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)
