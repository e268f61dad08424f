"""Going on with another definition: what is kept, what is marked, and `--from`."""

import hashlib
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from adw.app import define
from adw.app.define import Definition
from adw.app.places import Places
from adw.app.rebuilding import read_info
from adw.core.decide import ends_first, from_marks
from adw.core.interfaces import Supervision
from adw.errors import DefinitionChanged, UsageError
from adw.ids import child_id
from adw.store import definitions, files

if TYPE_CHECKING:
    from adw.app.session import Session

_SETTLED = frozenset({"done", "skipped", "excused"})


def switch(
    session: "Session",
    old: Definition,
    new: Definition,
    say: Callable[[str], None],
    *,
    keep: bool,
    again: bool = False,
) -> None:
    """Name the new definition and mark each settled phase that it defines differently.

    With `again` a phase is to be started whatever is settled, so that it is not called done.

    Both reach the disk in one rename, so a crash never leaves a definition without its marks.
    """
    decision = session.decide(0.0)
    kept, marked = [], []
    for name, view in decision.phases.items():
        if view.state not in _SETTLED:
            continue
        before = old.full.phases.get(name)
        if before is not None and before.digest != new.full.phases[name].digest and not keep:
            marked.append(name)
        else:
            kept.append(name)
    for name in marked:
        session.record_mark(name)
    if session.state.workflow != new.workflow:
        session.set_fields({"workflow": new.workflow})
        slots = {"workflow": new.workflow, "marked": marked}
        session.event("definition_changed", slots)
    if kept:
        say(f"kept: {', '.join(kept)}")
    if marked:
        say(f"starts again, since its definition changed: {', '.join(marked)}")
    if kept and not (marked or again) and len(kept) == len(session.graph.order):
        say("nothing to do; `--from PHASE` starts a phase again")


def accepted(places: Places, run_dir: str, old: Definition) -> Definition:
    """Pin the changed files as a child of the old pin.

    Raises:
        DefinitionChanged: A phase that the run has begun and not settled is gone.
        UsageError: A phase would lack an input.
    """
    from adw.config import load_config
    from adw.loader import find_workflow, load_workflow
    from adw.model.snapshot import make_snapshot

    root = places.repo.root
    config = load_config(root)
    loaded = load_workflow(find_workflow(old.full.name, root), config.setup)
    missing = [name for name in old.graph.order if name not in loaded.graph.phases]
    targets = {old.command.get("only"), old.command.get("until")}
    _refuse_missing(run_dir, missing, targets)
    command = {**old.command, "path": loaded.file}
    define.check_phase(loaded.graph, command.get("until"), start=True)
    definition, fresh = define.pin(loaded, config.to_json(), command)
    _refuse_without_inputs(run_dir, definition)
    parent = definitions.load_definition(run_dir, old.id)
    contents = {path: file.data() for path, file in fresh.files.items()}
    snapshot = make_snapshot(fresh.agent_type, fresh.component_rules, contents, parent)
    definitions.save_definition(run_dir, snapshot)
    return define.load(run_dir, f"{loaded.graph.name}@{snapshot.id}")


def _refuse_missing(run_dir: str, missing: list[str], targets: set[str | None]) -> None:
    """A phase that failed, was cut off or is the target cannot be gone."""
    from adw.store.state import load_state

    state, _ = load_state(run_dir)
    latest = {entry.phase: entry for entry in state.phase_history}
    for name in missing:
        if name in targets or (name in latest and not latest[name].success):
            raise DefinitionChanged(
                adw_id=state.adw_id,
                detail=f"phase `{name}`, where the run stopped, is gone",
                fix=f"put it back, or go on with the pinned one: adw resume {state.adw_id}",
            )


def _refuse_without_inputs(run_dir: str, definition: Definition) -> None:
    """`--only` stays the target; what it newly reads may be there or not."""
    adw_id = os.path.basename(run_dir)
    number = read_info(run_dir)["issue"]["number"]
    subject = f"{number or '--task FILE'} --adw-id {adw_id}"
    command = f"adw run {definition.full.name} {subject}"
    define.refuse_missing_inputs(definition, run_dir, command)


def tell_changed(root: str, definition: Definition, say: Callable[[str], None]) -> None:
    """Say so when the workflow file or adw.yaml is not what the run pinned."""
    for name, what in _changes(root, definition):
        more = " (`--accept-changed` goes over to the new one)" if what == "changed" else ""
        say(f"`{name}` {what} since the run pinned it; the pinned one is used{more}")


def _changes(root: str, definition: Definition) -> Iterator[tuple[str, str]]:
    from adw.config import FILE, load_config, parse_config

    if definition.path:
        name = os.path.basename(definition.path)
        try:
            data = files.read(definition.path)
        except OSError:
            yield name, "is gone"
        else:
            if hashlib.sha256(data).hexdigest() != definition.source_sha256:
                yield name, "changed"
        folder = os.path.dirname(definition.path)
        for skill, digest in definition.skills.items():
            yield from _skill_changes(folder, skill, digest)
    if not os.path.exists(os.path.join(root, FILE)):
        return  # no word on a file that was removed, and no models loaded where there never was one
    try:
        config = load_config(root).to_json()
    except UsageError:
        yield FILE, "has become invalid"
    else:
        unset = parse_config(b"", FILE).to_json()  # what an older adw pinned may lack newer keys
        if config != {**unset, **definition.config}:
            yield FILE, "changed"


def _skill_changes(folder: str, skill: str, digest: str) -> Iterator[tuple[str, str]]:
    from adw.source.skill import SkillFault, read_skill

    try:
        data = read_skill(folder, skill)
    except SkillFault:
        gone = not os.path.exists(os.path.join(folder, skill))
        yield skill, "is gone" if gone else "has become invalid"
    else:
        if hashlib.sha256(data).hexdigest() != digest:
            yield skill, "changed"


def start_from(session: "Session", supervision: Supervision, phase: str) -> None:
    """`--from`: end what runs of the phase and its dependents, then mark it.

    Raises:
        UnknownName: No such phase.
    """
    define.check_phase(session.graph, phase, start=True)
    asked: set[str] = set()
    while waiting := ends_first(session.graph, session.running(), phase):
        for child in (child_id(live.phase, live.attempt) for live in waiting):
            if child not in asked:  # a second time would end its grace
                asked.add(child)
                supervision.stop(child)
        for ended in supervision.wait(None):
            session.record(ended)
        session.tick()
        if session.wish() is not None:
            return  # the loop ends what runs, as that wish says
    for name in from_marks(session.graph, session.fold, phase):
        session.record_mark(name)
