"""The world that a run left, looked at before it goes on: commits, plan and worktree still there."""

import os
from collections.abc import Callable

from adw.core.graph import Graph
from adw.errors import WorktreeError
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.workspace.worktree import Worktree


def _not_known(_child: str) -> None:
    """What `unsaved` is told where nothing tells more than the history."""


def check(worktree: Worktree, state: ADWStateData, graph: Graph, *, remade: bool) -> None:
    """Refuse to go on from a world that the history does not describe.

    Args:
        worktree: As it was found or made again.
        state: What the history says.
        graph: Of the run; what a failed attempt of a phase with `on_retry: reset` committed may
            have been taken back.
        remade: The worktree was gone; what was not committed is looked at by `unsaved`.

    Raises:
        WorktreeError: A commit that a phase left is not in the branch any more, or the plan file
            is gone. Nothing was changed; `--from` says that this is meant.
    """
    undone = {name for name, phase in graph.phases.items() if phase.on_retry == "reset"}
    entries = reversed(state.phase_history)
    last = next((e for e in entries if e.commit and (e.success or e.phase not in undone)), None)
    if last is not None and last.commit is not None:
        head = worktree.check().head
        if head != last.commit and not worktree.contains(last.commit):
            raise WorktreeError(
                detail=f"commit {last.commit[:12]} of phase `{last.phase}` is not in the branch any more",
                path=worktree.path,
                reason=f"HEAD is {(head or 'nothing')[:12]}",
                fix=f"adw resume {state.adw_id} --from {last.phase}",
            )
    plan = None if remade else state.plan_file
    if plan and not os.path.isfile(os.path.join(worktree.path, plan)):
        setter = next((e.phase for e in state.phase_history if e.success), None)
        raise WorktreeError(
            detail=f"the plan file `{plan}` is gone",
            path=worktree.path,
            reason=None,
            fix=f"put it back, or adw resume {state.adw_id} --from {setter}" if setter else None,
        )


def unsaved(
    state: ADWStateData, graph: Graph, launched_at: Callable[[str], str | None] = _not_known
) -> list[str]:
    """Writing phases whose success is in no commit, so that it went with a worktree that is gone.

    A phase's work counts as committed when HEAD moved with it or at any time after it; that of the
    graph's `first` never, since what prepares a worktree is mostly ignored by git.

    Args:
        state: What the history says.
        graph: Of the run.
        launched_at: HEAD when an attempt was launched, by its child id; the base branch may have
            been brought in since the attempt before. None: not known.
    """
    entries = state.phase_history
    last = next((e.commit for e in reversed(entries) if e.commit), None)
    found: dict[str, bool] = {}
    before = None
    for entry in entries:
        if entry.attempt and entry.success and entry.phase in graph.phases:
            head = launched_at(child_id(entry.phase, entry.attempt)) or before
            moved = head is not None and entry.commit != head
            kept = moved or entry.commit != last
            found[entry.phase] = graph.phases[entry.phase].writes and not kept
        before = entry.commit or before
    return [name for name, lost in found.items() if lost or name == graph.first]
