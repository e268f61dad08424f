"""Named points at which a test may kill this process with SIGKILL.

`ADW_FAILPOINT=name` kills the process the first time it reaches `name`; `name:3` the third time.
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

_NAME, _, _NTH = os.environ.get("ADW_FAILPOINT", "").partition(":")
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
    if name == _NAME:
        _left -= 1
        if _left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
