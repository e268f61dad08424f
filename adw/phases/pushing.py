"""What `use: push` and `use: tag` have in common: how they push, mend, and tell how it ended."""

import os
import sys
import time
from collections.abc import Callable
from typing import Final

from adw.errors import AdwError, EffectUnknown
from adw.phases import remote
from adw.phases.api import Context, Probe, write_result
from adw.phases.remote import Refused, Remote, Unreachable
from adw.store import files
from adw.workspace import locks, mending, registration

LATER: Final = 75  # exit code: try again at a time
_LOCK_WAIT_S: Final = 2.0
_POLL_S: Final = 0.05

Program = Callable[[Context], tuple[str, dict[str, str]]]
"""Acts; returns one line for people, and what goes into the result."""


def ended(act: Program) -> int:
    """Run a program that speaks to a remote; tell how it ended.

    Returns:
        Exit code: 0 where the remote has it; 75 where it asks for patience; 79 where nobody can
        tell; 1 with a message on stderr otherwise.
    """
    try:
        summary, data = act(Context.from_env())
        write_result(summary=summary, data=data)
    except (AdwError, Refused, Unreachable) as error:
        return _failed(error)
    sys.stdout.write(summary + "\n")
    return 0


def _failed(error: AdwError | Refused | Unreachable) -> int:
    text = error.render() if isinstance(error, AdwError) else f"error: {error}"
    sys.stderr.write(text + "\n")
    if isinstance(error, EffectUnknown):
        return int(error.exit_code)
    if remote.busy(text):
        write_result(summary="the remote asks for patience", retry_after_s=remote.LATER_S)
        return LATER
    return 1


def pushed(there: Remote, what: str, ref: str, look: Probe) -> str:
    """Push; where git failed in a way that leaves it open, look whether it happened all the same.

    Args:
        there: The remote.
        what: Object or ref of this repository.
        ref: Of the remote.
        look: Looks whether it was done.

    Returns:
        What the look-up says of it.

    Raises:
        Refused: The remote refused; nothing was changed.
        Unreachable: It failed, and the remote does not have it, or does not say.
    """
    done = there.push(what, ref)
    if done.exit_code == 0:
        return what
    why = remote.words(done)
    try:
        found = look()
    except Unreachable:
        found = None
    if found is None:
        raise Unreachable(why)
    return found


def mend_lock(context: Context, ref: str) -> None:
    """Remove the lock of a ref that a killed git of this run left.

    The caller is the only one of adw that writes this ref. Somebody else's git may hold its lock
    for a moment, and is waited for; one that works in the main checkout or the worktree keeps it.
    """
    common = registration.common_of(registration.admin_of(context.worktree) or "")
    if common is None:
        return
    path = os.path.join(common, f"{ref}.lock")
    deadline = time.monotonic() + _LOCK_WAIT_S
    while os.path.lexists(path):
        if time.monotonic() > deadline:
            if not mending.git_in(os.path.dirname(common)):
                with locks.storing(path):
                    files.unlink(path)
            return
        time.sleep(_POLL_S)
