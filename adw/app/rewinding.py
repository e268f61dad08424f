"""What an attempt found and what it left: `adw diff`, and `adw rewind` back to before it."""

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adw.app import keeping, reading
from adw.app.places import Places, refuse_inside
from adw.app.rebuilding import read_info
from adw.errors import BusyError, StoreError, UnknownName, UsageError, suggestion
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.store import attempts, runs
from adw.store.state import StateFile, load_state
from adw.workspace import comparing
from adw.workspace.registration import Place

if TYPE_CHECKING:
    from adw.app.session import Session
    from adw.core.graph import Phase
    from adw.workspace.comparing import Changed


@dataclass(frozen=True, slots=True)
class Tried:
    """An attempt that was launched."""

    phase: str
    attempt: int
    launch: dict[str, Any]

    @property
    def child(self) -> str:
        """Its name."""
        return child_id(self.phase, self.attempt)

    @property
    def before(self) -> str:
        """Commit that holds the tree as it was before it."""
        return str(self.launch.get("kept") or self.launch["head"])


@dataclass(frozen=True, slots=True)
class Span:
    """Two trees of a run; `new` None: what lies in the worktree now."""

    place: Place
    tried: Tried | None
    old: str
    new: str | None
    note: str | None = None
    """What a person should know of the comparison."""

    def patch(self, *, stat: bool) -> bytes:
        """The difference as text."""
        return comparing.patch(self.place, self.old, self.new, stat=stat)

    def changed(self) -> list["Changed"]:
        """The paths that differ."""
        return comparing.changed(self.place, self.old, self.new)


def span(places: Places, run_dir: str, text: str | None) -> Span:
    """What `adw diff` compares.

    Args:
        places: The repository and its runs.
        run_dir: The run.
        text: `PHASE` (its latest attempt) or `PHASE-N`; None: from the base to now.

    Raises:
        UnknownName: No such attempt.
        UsageError: It was launched by a version of adw that noted no commit.
    """
    state, _ = load_state(run_dir)
    place = _place(places, state)
    if text is None:
        base = read_info(run_dir).get("base") or _first_head(run_dir)
        if base is None:
            detail = f"the base of run `{state.adw_id}` is not known"
            raise UsageError(detail=detail, fix=f"adw diff {state.adw_id} PHASE")
        return Span(place, None, str(base), None)
    tried = find(run_dir, text)
    if _only_reads(run_dir, state, tried):
        head = str(tried.launch["head"])
        note = f"`{tried.phase}` has `writes: false`: it is taken to have changed nothing"
        return Span(place, tried, head, head, note)
    return Span(place, tried, tried.before, _after(place, run_dir, state, tried))


def find(run_dir: str, text: str) -> Tried:
    """The attempt that `PHASE` or `PHASE-N` names.

    Raises:
        UnknownName: No such attempt was launched.
        UsageError: It was launched by a version of adw that noted no commit.
    """
    launched = _launched(run_dir)
    numbers = [each.attempt for each in launched if each.phase == text]
    wanted = (text, max(numbers)) if numbers else attempts.split(text)
    for each in launched:
        if (each.phase, each.attempt) == wanted:
            if not each.launch.get("head"):
                detail = f"`{each.child}` was launched by an earlier adw, which noted no commit"
                raise UsageError(detail=detail, fix=None)
            return each
    close = suggestion(text, [*{each.phase for each in launched}, *(e.child for e in launched)])
    raise UnknownName(kind="attempt", name=text, suggestion=close, reason=None)


def rewind(places: Places, run_dir: str, text: str, host: Any) -> list[str]:
    """Put tree and branch back to what they were before an attempt; its phase starts again.

    What is there now is kept first. The marks are durable before the tree is touched: after a
    kill in between the phase starts again in the tree as it is, and another rewind ends it.

    Returns:
        Lines for people.

    Raises:
        BusyError: Another adw holds the run, or one of its attempts lives.
        WorktreeError: The worktree is not on the run's branch; nothing was touched.
    """
    refuse_inside(run_dir, "rewind")
    load_state(run_dir)
    tried = find(run_dir, text)
    lock = runs.open_run(run_dir)
    adw_id = os.path.basename(run_dir)
    if runs.attempt_alive(run_dir):
        lock.close()
        raise BusyError(adw_id=adw_id, holder=runs.ORPHAN)
    from adw.app.sitting import Work, definition_of

    state, data = load_state(run_dir)
    definition = definition_of(run_dir, state)
    work = Work(places, host, lock, state, StateFile(run_dir, state, data), definition, "rewind")
    place = _place(places, state)
    kept: list[str] = []
    work.settle("rewind", lambda session: kept.append(_go_back(session, place, tried)))
    if not kept:
        return [f"run {adw_id} is {reading.status(run_dir)['status']}; nothing was rewound"]
    return [
        f"the worktree of run {adw_id} is as it was before {tried.child}",
        f"  what was there: {kept[0]}",
        f"  next: adw resume {adw_id}",
    ]


def _go_back(session: "Session", place: Place, tried: Tried) -> str:
    """Keep, mark, commit, restore; the ref of what was there."""
    from adw.workspace.rescue import free_name

    tree, exclude = session.parts.worktree, keeping.copied(session)
    tree.check()
    tree.mend_locks()
    owner = tried.launch.get("repairs") or tried.phase
    if owner not in session.graph.phases:
        detail = f"`{tried.child}` belongs to a workflow that the run has left"
        raise UsageError(detail=detail, fix=None)
    head, name = str(tried.launch["head"]), free_name(place, "rewind")
    found = _before(place, session.run_dir, session.state, tried)
    kept = tree.keep(name, exclude, always=True)
    if kept is None:
        raise StoreError(path=tree.path, reason="nothing could be kept of it", fix=None)
    keeping.tell(session, kept, tried.phase, tried.child)
    target = {None: kept.commit, head: None}.get(found, found)
    _note_as_left(session, place, kept.commit)
    for phase in _undone(session, tried, owner):
        session.record_mark(phase, "rewind", head)
    slots = {"head": head, "commit": target, "cause": "rewind"}
    session.event("tree_reset", slots, stage=tried.phase, child_id=tried.child)
    session.event("run_left", {"by": "rewind"})
    session.commit()
    tree.back_to(head, target, "rewind", exclude, name)
    return kept.ref


def _undone(session: "Session", tried: Tried, owner: str) -> list[str]:
    """The phase, and all whose work since then is taken back, in declared order."""
    history, since = session.state.phase_history, False
    names = {owner}
    for entry in history:
        phase = session.graph.phases.get(entry.phase)
        since = since or (entry.phase, entry.attempt) == (tried.phase, tried.attempt)
        repairs = entry.phase in session.graph.owners
        if since and entry.success and phase is not None and phase.writes and not repairs:
            names.add(entry.phase)
    return [name for name in session.graph.phases if name in names]


def _note_as_left(session: "Session", place: Place, commit: str) -> None:
    """What the latest writing attempt left is told by the tree, which now goes back."""
    for entry in reversed(session.state.phase_history):
        phase = session.graph.phases.get(entry.phase)
        if entry.attempt and phase is not None and phase.writes:
            name = f"{child_id(entry.phase, entry.attempt)}-after"
            if comparing.commit_named(place, name) is None:
                session.parts.worktree.pin(name, commit)
            return


def _before(place: Place, run_dir: str, state: ADWStateData, tried: Tried) -> str | None:
    """Commit that holds the tree as an attempt found it; None: that is what is there now.

    Before an attempt that only reads nothing is kept: it found what the latest writing attempt
    before it had left.
    """
    if not _only_reads(run_dir, state, tried):
        return tried.before
    for each in reversed(_launched(run_dir)):
        earlier = _order(each) < _order(tried) and each.launch.get("head")
        if earlier and _writes(run_dir, state, each):
            return _after(place, run_dir, state, each)
    return str(tried.launch["head"])


def _after(place: Place, run_dir: str, state: ADWStateData, tried: Tried) -> str | None:
    """Commit that holds the tree as an attempt left it; None: that is what is there now."""
    kept = comparing.commit_named(place, f"{tried.child}-after")
    if kept is not None:
        return kept
    for each in _launched(run_dir):
        later = _order(each) > _order(tried) and each.launch.get("head")
        if later and _writes(run_dir, state, each):
            return each.before
    entry = next(
        (e for e in state.phase_history if (e.phase, e.attempt) == (tried.phase, tried.attempt)),
        None,
    )
    return entry.commit if entry is not None and not entry.success else None


def _writes(run_dir: str, state: ADWStateData, tried: Tried) -> bool:
    """Whether what it found was kept, if the tree was not clean."""
    phase = _phase(run_dir, state, tried)
    return phase is not None and phase.writes


def _only_reads(run_dir: str, state: ADWStateData, tried: Tried) -> bool:
    """Whether nothing was kept before it, though the tree may not have been clean."""
    phase = _phase(run_dir, state, tried)
    return phase is not None and not phase.writes


def _phase(run_dir: str, state: ADWStateData, tried: Tried) -> "Phase | None":
    """The phase of an attempt; None: of a workflow that the run has left."""
    from adw.app.sitting import definition_of

    return definition_of(run_dir, state).graph.phases.get(tried.phase)


def _launched(run_dir: str) -> list[Tried]:
    """All attempts that were launched, in that order."""
    found = []
    for child in attempts.child_ids(run_dir):
        launch = keeping.launch_of(run_dir, child)
        if launch:
            found.append(Tried(launch["phase"], launch["attempt"], launch))
    return sorted(found, key=_order)


def _order(tried: Tried) -> tuple[str, int]:
    return str(tried.launch["at"]), tried.attempt


def _first_head(run_dir: str) -> str | None:
    return next((t.launch["head"] for t in _launched(run_dir) if t.launch.get("head")), None)


def _place(places: Places, state: ADWStateData) -> Place:
    path = places.worktree(state.adw_id, state.worktree_path)
    return Place(places.repo.git_dir, path, state.branch_name or "")
