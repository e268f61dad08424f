"""The world that a run left, looked at before it goes on: commits still there, plan still there."""

import os

from adw.errors import WorktreeError
from adw.model.state import ADWStateData
from adw.workspace.worktree import Worktree


def check(worktree: Worktree, state: ADWStateData) -> None:
    """Refuse to go on from a world that the history does not describe.

    Raises:
        WorktreeError: A commit that a phase left is not in the branch any more, or the plan file
            is gone. Nothing was changed; `--from` says that this is meant.
    """
    last = next((e for e in reversed(state.phase_history) if e.commit), None)
    if last is not None and last.commit is not None:
        head = worktree.check().head
        if head != last.commit and not worktree.contains(last.commit):
            raise WorktreeError(
                detail=f"commit {last.commit[:12]} of phase `{last.phase}` is not in the branch any more",
                path=worktree.path,
                reason=f"HEAD is {(head or 'nothing')[:12]}",
                fix=f"adw resume {state.adw_id} --from {last.phase}",
            )
    plan = state.plan_file
    if plan and not os.path.isfile(os.path.join(worktree.path, plan)):
        setter = next((e.phase for e in state.phase_history if e.success), None)
        raise WorktreeError(
            detail=f"the plan file `{plan}` is gone",
            path=worktree.path,
            reason=None,
            fix=f"put it back, or adw resume {state.adw_id} --from {setter}" if setter else None,
        )
