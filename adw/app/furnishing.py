"""What a worktree needs beyond what git checks out, put there before a phase works in it."""

from typing import TYPE_CHECKING, Any

from adw.errors import UsageError
from adw.workspace import copying, updating
from adw.workspace.registration import Place
from adw.workspace.repository import base, base_branch, submodules_line

if TYPE_CHECKING:
    from adw.app.session import Session
    from adw.app.sitting import Work


def furnish(work: "Work", session: "Session", action: str, altered: str | None) -> None:
    """Mend what a killed git left, bring the base branch in if asked to, copy what `copy:` lists.

    Args:
        work: The sitting.
        session: Opened; its worktree is complete.
        action: What was done to have the worktree: `reused`, or how it was made.
        altered: What is said of a state that somebody else changed.

    Raises:
        UsageError: The base branch cannot be brought in; nothing was touched.
        GitError: git refused.
        StoreError: A file could not be written.
    """
    for limit in (*([altered] if altered else []), *_unlimited(session)):
        warn(work, session, limit)
    running = session.running()
    if running:
        if work.update_base:
            alive = ", ".join(f"`{live.phase}`" for live in running)
            detail = f"the base branch is brought in while nothing runs, and {alive} runs"
            raise UsageError(detail=detail, fix=f"adw watch {session.state.adw_id}")
        return
    session.parts.worktree.mend_locks()
    path = session.parts.worktree.path
    place = Place(work.places.repo.git_dir, path, session.state.branch_name or "")
    if cut_off := updating.finish(place):
        _tell(work, session, cut_off)
    if work.update_base:
        _tell(work, session, _update(work, place))
    if action != "reused" and (line := submodules_line(path)):
        warn(work, session, line)
    names: Any = work.definition.config.get("copy")
    if names:
        lines = copying.bring(work.places.repo, place, names, fresh=action != "reused")
        for line in lines:
            warn(work, session, line)


def _unlimited(session: "Session") -> list[str]:
    """One line for each kind of limit that phases have and this machine cannot set."""
    phases = session.graph.phases.values()
    asked = {  # by controller
        "memory": [phase.name for phase in phases if phase.memory_bytes is not None],
        "pids": [phase.name for phase in phases if phase.processes is not None],
    }
    if not any(asked.values()):
        return []
    from adw.supervise import fence

    missing = fence.missing()
    return [
        f"no control group for {controller} can be made here: the limit of "
        f"{', '.join(f'`{name}`' for name in names)} is unavailable, and it runs without"
        for controller, names in asked.items()
        if names and controller in missing
    ]


def warn(work: "Work", session: "Session", line: str) -> None:
    """Tell a person and the history of something that stops nothing."""
    session.event("warning", {"detail": line})
    work.host.say(f"warning: {line}")


def _update(work: "Work", place: Place) -> updating.Updated:
    repo = work.places.repo
    name = base_branch(repo, work.definition.base_branch)
    return updating.update(place, name or "HEAD", base(repo, name))


def _tell(work: "Work", session: "Session", found: updating.Updated) -> None:
    if found.how == "already":
        work.host.say(f"the run's branch has all of `{found.base}` already")
        return
    slots = {"base_branch": found.base, "old": found.old, "new": found.new, "how": found.how}
    session.event("base_updated", slots)
    work.host.say(
        f"`{found.base}` is in the run's branch now ({found.how}, {found.new[:12]}); what is done "
        "stays done, `--from PHASE` starts it again"
    )
