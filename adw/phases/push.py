"""The program of `use: push`: the run's branch goes to a remote, once, and never by force.

Safe to be killed and started again at any instant: an effect whose key names branch and commit,
and which is looked up at the remote. The target is the branch that the state names. A remote that
refuses fails the phase with its own words; the work stays on the branch.
"""

import json
import os
import sys

from adw.errors import UsageError, WorktreeError
from adw.phases.api import Context, intended, options
from adw.phases.pushing import ended, mend_lock, pushed
from adw.phases.remote import Remote
from adw.store import effects, files
from adw.workspace.git import ask_git
from adw.workspace.worktree import inside


def main() -> int:
    """Push, and write result.json; exit codes as `pushing.ended` has them."""
    return ended(push)


def push(context: Context) -> tuple[str, dict[str, str]]:
    """Push the run's branch.

    Returns:
        One line for people, and what goes into the result.

    Raises:
        WorktreeError: The worktree is not on the run's branch.
        UsageError: There is nothing to push, or an option cannot be used.
        Refused: The remote refused.
        Unreachable: It did not answer, and does not have the commit.
        EffectUnknown: It was begun before, and the remote does not answer.
    """
    branch = _branch(context)
    head = inside(context.worktree, branch).check().head or ""
    _assert_own_commits(context, head)
    there = Remote.of(context, options())
    ref = f"refs/heads/{branch}"
    tracking = f"refs/remotes/{there.name}/{branch}"
    mend_lock(context, tracking)  # of an earlier attempt

    def look() -> str | None:
        tip = there.look(ref).get(ref)
        return head if tip is not None and there.contains(ref, tip, head) else None

    named = intended(context, f"push {head} to {branch[:120]}", payload=f"{head}:{ref}".encode())
    found = effects.perform(named, lambda: pushed(there, head, ref, look), look)
    mend_lock(context, tracking)  # of a git that was killed once the remote had it
    data = {"remote": there.name, "branch": branch, "commit": head}
    if found.acted:
        return f"pushed {head[:12]} to {branch} of {there.name}", data
    return f"{there.name} has {head[:12]} on {branch} already", data


def _branch(context: Context) -> str:
    """The run's branch, of which state and environment tell the same.

    Raises:
        WorktreeError: They do not.
    """
    try:
        named = str(json.loads(files.read(context.state))["branch_name"])
    except (OSError, ValueError, KeyError, TypeError):
        named = ""
    if not named or named != context.branch:
        raise WorktreeError(
            detail=f"the phase would push `{context.branch}`, but the state names `{named}`",
            path=context.state,
            reason=None,
            fix=None,
        )
    return named


def _assert_own_commits(context: Context, head: str) -> None:
    """Refuse to make a branch at the remote that has nothing of the run.

    Raises:
        UsageError: HEAD is in the history of the commit where the run began.
    """
    try:
        base = json.loads(files.read(os.path.join(context.state_root, "run.json")))["base"]
    except (OSError, ValueError, KeyError, TypeError):
        return
    args = ["merge-base", "--is-ancestor", head, str(base)]
    if base and ask_git(args, context.worktree, kind="read").exit_code == 0:
        raise UsageError(
            detail=f"nothing to push: `{context.branch}` has no commit of its own",
            fix="let an earlier phase `use: commit`",
        )


if __name__ == "__main__":
    sys.exit(main())
