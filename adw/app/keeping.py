"""What is kept of the worktree around an attempt, and where it goes back to before another one.

A tree that is not clean is kept before each attempt of a writing phase and after one that did not
succeed. HEAD is noted at the launch; afterwards that commit must still be in the branch.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adw.app.secrecy import searched
from adw.core.decide import Live, Start
from adw.core.outcome import Verdict
from adw.errors import AdwError, WorktreeError
from adw.ids import child_id
from adw.store import attempts
from adw.workspace.git import on_one_line
from adw.workspace.leaks import Leak, leaks
from adw.workspace.settings import named

if TYPE_CHECKING:
    from adw.app.session import Session
    from adw.core.graph import Phase
    from adw.core.interfaces import Kept
    from adw.model.state import HistoryEntry

WITH_USERS_GIT: Final = frozenset({"commit", "push", "tag"})
"""Programs that run the user's filters, hooks, signing and credential helpers."""
_TO_OTHERS: Final = frozenset({"push", "tag"})
_TOLD_LEAKS: Final = 5


@dataclass(frozen=True, slots=True)
class Ground:
    """What the worktree was when an attempt was launched."""

    head: str | None
    """Commit that HEAD named."""
    kept: str | None = None
    """Commit that keeps the tree; None: it was clean, or the phase does not write."""


def before(session: "Session", start: Start, history: Sequence["HistoryEntry"]) -> Ground:
    """Look at the worktree, reset it where that is due, and keep it.

    Args:
        session: The open run.
        start: What starts.
        history: Entries, those of the next commit included.

    Raises:
        WorktreeError: It is not the run's worktree; nothing was touched.
        GitError: The tree could not be kept, so nothing may start.
    """
    tree = session.parts.worktree
    head = tree.check().head
    phase = session.graph.phases[start.phase]
    _refuse_planted(session, phase, history)
    if phase.use in _TO_OTHERS:
        _refuse_leaks(session)
    if not phase.writes:
        return Ground(head)
    child = child_id(start.phase, start.attempt)
    target = _reset_target(session, start, history, head) if phase.on_retry == "reset" else None
    if target is not None:
        failed, ground = target
        return _reset(session, start.phase, child, failed, ground)
    kept = tree.keep(f"{child}-before", copied(session))
    if kept is None:
        return Ground(head)
    tell(session, kept, start.phase, child)
    return Ground(head, kept.commit)


def _refuse_planted(session: "Session", phase: "Phase", history: Sequence["HistoryEntry"]) -> None:
    """Refuse a program that runs the user's filters, hooks and helpers after a phase changed them.

    What the setup of the worktree sets is the user's own. A person who resumes has looked.
    """
    tree = session.parts.worktree
    set_up = bool(history) and history[-1].phase == session.graph.first
    changed = tree.settings_changed(anew=set_up)
    if changed and phase.use in WITH_USERS_GIT:
        detail = f"git's settings have changed since this run was opened: {named(changed)}"
        remedy = "a phase can plant programs there; a resume takes them as they are"
        raise WorktreeError(detail=f"{detail}; {remedy}", path=tree.path, reason=None, fix=None)


def _refuse_leaks(session: "Session") -> None:
    """Refuse to let commits go to a remote in which a secret of the run stands."""
    base = session.parts.run_info["base"]
    wanted = searched(session.parts.secrets)
    if not base or not wanted:
        return
    tree = session.parts.worktree
    found = leaks(tree.path, base, wanted)
    if not found:
        return
    told = [_where(leak) for leak in found[:_TOLD_LEAKS]]
    if len(found) > len(told):
        told.append(f"and {len(found) - len(told)} more")
    detail = f"nothing is pushed, since secrets stand in its commits: {'; '.join(told)}"
    remedy = "take them out of the branch and change them, then resume"
    raise WorktreeError(detail=f"{detail}; {remedy}", path=tree.path, reason=None, fix=None)


def _where(leak: Leak) -> str:
    where = f"in `{on_one_line(leak.path)}`" if leak.path else "beside its files"
    return f"`{leak.name}` {where} of {leak.commit[:12]}"


def look(
    session: "Session", live: Live, child: str, verdict: Verdict
) -> tuple[Verdict, str | None]:
    """Assert after an attempt that the tree is the run's own and its history only grew.

    Returns:
        The verdict, `workspace` where it is not so; and the commit that HEAD names.
    """
    _tell_planted(session, live.phase, child)
    tree, old = session.parts.worktree, launch_of(session.run_dir, child).get("head")
    fault: str | None = None
    head = None
    try:
        head = tree.check().head
    except WorktreeError as error:
        fault = error.message
    lost = old is not None and head != old and not tree.contains(old)
    if lost:
        _keep_old_head(session, live.phase, child, str(old))
        if fault is None:
            short = str(old)[:12]
            fault = f"phase `{live.phase}` rewrote history: {short} is not in the branch any more"
    if fault is None or verdict.reason in {"tampered", "cancelled"}:
        return verdict, head
    # Without a branch to go on with, a failure that is tried again stays what it is: the next
    # attempt is refused. A history that was rewritten would not be noticed then.
    if verdict.success or (lost and head is not None and not _resets(session, live.phase)):
        verdict = Verdict(success=False, reason="workspace", detail=fault)
    return verdict, head


def _tell_planted(session: "Session", phase: str, child: str) -> None:
    changed = session.parts.worktree.settings_changed()
    new = [key for key in changed if key not in session.told_settings]
    if new and phase != session.graph.first:
        session.told_settings.update(new)
        detail = f"git's settings were changed while {child} ran: {named(new)}"
        session.event("warning", {"detail": detail}, stage=phase, child_id=child)


def after(session: "Session", live: Live, child: str, verdict: Verdict) -> None:
    """Keep what an attempt left that did not succeed; take away locks that its git left.

    A fault here is told and stops nothing: the tree itself is still there.
    """
    phase = session.graph.phases.get(live.phase)  # None: of the workflow before this one
    if phase is not None and not phase.writes:
        return
    tree = session.parts.worktree
    try:
        for path in tree.mend_locks():
            detail = f"`{path}` was removed: a git of {child} that was ended had left it"
            session.event("warning", {"detail": detail}, stage=live.phase, child_id=child)
        always = verdict.reason == "workspace"
        kept = tree.keep(f"{child}-after", copied(session), always=always)
    except (AdwError, OSError) as error:
        detail = f"what {child} left in the worktree could not be kept: {_words(error)}"
        session.event("warning", {"detail": detail}, stage=live.phase, child_id=child)
        return
    if kept is not None:
        tell(session, kept, live.phase, child)


def copied(session: "Session") -> Sequence[str]:
    """What adw copied into the worktree, which is never kept."""
    if not session.parts.config.get("copy"):
        return ()
    from adw.workspace.copying import copied_into

    return tuple(copied_into(session.parts.worktree.path))


def launch_of(run_dir: str, child: str) -> dict[str, Any]:
    """The launch line of an attempt; empty where there is none."""
    lines = attempts.lines_of(run_dir, child)
    return attempts.find(lines, "launch") or {}


def _reset_target(
    session: "Session", start: Start, history: Sequence["HistoryEntry"], head: str | None
) -> tuple[str, Ground] | None:
    """The attempt to go back before: the phase's last one, if it failed and nobody wrote since.

    A branch that was moved since, such as by a person's commit or another base, stays as it is.
    """
    for entry in _attempts_back(session, history):
        if entry.phase != start.phase or entry.success:
            return None
        child = child_id(entry.phase, entry.attempt)
        launch = launch_of(session.run_dir, child)
        if launch.get("head"):  # else it was refused before its launch, and wrote nothing
            if head in {entry.commit, launch["head"]}:
                return child, Ground(launch["head"], launch.get("kept"))
            detail = f"the worktree is not reset: its branch has moved since {child}"
            session.event("warning", {"detail": detail}, stage=start.phase)
            return None
    return None


def _attempts_back(
    session: "Session", history: Sequence["HistoryEntry"]
) -> Iterator["HistoryEntry"]:
    """Attempts of phases that write, the latest first."""
    for entry in reversed(history):
        phase = session.graph.phases.get(entry.phase)
        if entry.attempt and (phase is None or phase.writes):
            yield entry


def _reset(session: "Session", phase: str, child: str, failed: str, ground: Ground) -> Ground:
    tree = session.parts.worktree
    assert ground.head is not None, "a launch line with a head"
    args = (f"{failed}-reset", copied(session), f"{failed}-after")
    found = tree.back_to(ground.head, ground.kept, *args)
    if found is not None:
        tell(session, found, phase, child)
    slots = {"head": ground.head, "commit": ground.kept, "cause": "on_retry"}
    session.event("tree_reset", slots, stage=phase, child_id=child)
    if ground.kept:
        tell(session, tree.pin(f"{child}-before", ground.kept), phase, child)
    return ground


def _resets(session: "Session", phase: str) -> bool:
    known = session.graph.phases.get(phase)
    return known is not None and known.on_retry == "reset"


def _keep_old_head(session: "Session", phase: str, child: str, head: str) -> None:
    with contextlib.suppress(AdwError):  # an object that is gone cannot be kept
        tell(session, session.parts.worktree.pin(f"{child}-head", head), phase, child)


def tell(session: "Session", kept: "Kept", phase: str, child: str) -> None:
    """Add the event of a tree that was kept."""
    slots = {"ref": kept.ref, "commit": kept.commit, "left_out": list(kept.left_out)}
    session.event("tree_kept", slots, stage=phase, child_id=child)


def _words(error: Exception) -> str:
    return error.message if isinstance(error, AdwError) else str(error)
