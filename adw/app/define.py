"""From a workflow file to a pinned definition with its compiled graph, and back from the pin."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from adw.core.cut import cut
from adw.core.graph import Graph, from_json, to_json
from adw.errors import UnknownName, UsageError, suggestion
from adw.store import definitions

if TYPE_CHECKING:
    from adw.loader import Loaded
    from adw.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Definition:
    """What a run follows."""

    id: str
    graph: Graph
    """Cut to the targets of the command."""
    full: Graph
    """The whole workflow."""
    config: Mapping[str, Any]
    command: Mapping[str, Any]
    """`only`, `until`, `model_set`, `base`, `base_branch` (None: not known), and the `path` of the workflow file when it was pinned."""
    source_sha256: str
    """Of the workflow file's bytes."""
    skills: Mapping[str, str] = field(default_factory=dict)
    """SHA-256 hex of each skill, by path as the workflow file names it."""

    @property
    def workflow(self) -> str:
        """As the state names it."""
        return f"{self.full.name}@{self.id}"

    @property
    def path(self) -> str | None:
        """Where the workflow file was when it was pinned."""
        return self.command.get("path")

    @property
    def base_branch(self) -> str | None:
        """The branch that runs start from and go back to; None: it was not known when pinned."""
        return self.command.get("base_branch") or self.config.get("base_branch")

    def derived(self) -> dict[str, Any]:
        """What `definitions/<id>.graph.json` holds."""
        return {
            "definition": self.id,
            "graph": to_json(self.full),
            "config": dict(self.config),
            "command": dict(self.command),
            "source_sha256": self.source_sha256,
            "skills": dict(self.skills),
        }

    def resource(self, run_dir: str, path: str) -> bytes:
        """A skill's bytes as they were pinned, whatever became of the file since.

        Args:
            run_dir: The state root.
            path: As the phase names it.

        Raises:
            BrokenRun: The pin is missing or damaged, or does not have it.
        """
        return definitions.resource(run_dir, self.id, path)


def pin(
    loaded: "Loaded", config: dict[str, Any], command: dict[str, Any]
) -> tuple[Definition, "Snapshot"]:
    """Make the definition of a new run or of another workflow on an old one."""
    command = {**command, "path": loaded.file}
    snapshot = definitions.make_definition(
        loaded.file, loaded.data, config, command, loaded.resources
    )
    return _definition(snapshot.id, loaded, config, command), snapshot


def _definition(
    definition_id: str, loaded: "Loaded", config: dict[str, Any], command: dict[str, Any]
) -> Definition:
    return Definition(
        definition_id,
        cut(loaded.graph, command),
        loaded.graph,
        config,
        command,
        hashlib.sha256(loaded.data).hexdigest(),
        {path: hashlib.sha256(data).hexdigest() for path, data in loaded.resources.items()},
    )


def load(run_dir: str, workflow: str) -> Definition:
    """Read what the state's `workflow` names: the derived form, else the pin itself.

    Raises:
        BrokenRun: The pin is missing or damaged.
    """
    definition_id = workflow.partition("@")[2]
    derived = definitions.load_graph_json(run_dir, definition_id)
    full = from_json(derived["graph"]) if derived else None
    if derived is None or full is None:
        return _rebuild(run_dir, definition_id)
    command = derived["command"]
    graph = cut(full, command)
    return Definition(
        definition_id,
        graph,
        full,
        derived["config"],
        command,
        derived["source_sha256"],
        derived.get("skills", {}),
    )


def _rebuild(run_dir: str, definition_id: str) -> Definition:
    from adw.loader import NotPinned, load_bytes

    snapshot = definitions.load_definition(run_dir, definition_id)
    name, source = definitions.workflow_source(snapshot)
    skills = definitions.resources_of(snapshot)
    config = definitions.load_json(snapshot, "config.json")
    try:
        loaded = load_bytes(source, name, skills, config.get("setup"))
    except NotPinned as lacking:
        raise definitions.without(run_dir, definition_id, lacking.path) from None
    command = definitions.load_json(snapshot, "command.json")
    return _definition(definition_id, loaded, config, command)


def keep(run_dir: str, definition: Definition) -> None:
    """Store the derived form beside the pin."""
    definitions.save_graph_json(run_dir, definition.id, definition.derived())


class Missing(NamedTuple):
    """An input that nothing would bring."""

    phase: str
    """Who reads it."""
    name: str
    producer: str


def missing_inputs(full: Graph, target: Graph, have: Collection[str]) -> list[Missing]:
    """Inputs of phases that would run, whose producers would not.

    Args:
        full: The whole workflow.
        target: What a command cuts out of it.
        have: Logical names that the run has already.

    Returns:
        In declared order; empty where all is well.
    """
    producers = {output.name: p.name for p in full.phases.values() for output in p.outputs}
    return [
        Missing(phase.name, name, producers[name])
        for phase in target.phases.values()
        for name in phase.inputs
        if name not in have and producers[name] not in target.phases
    ]


def refuse_missing_inputs(definition: Definition, run_dir: str | None, command: str) -> None:
    """Refuse to begin what would stop for want of an input.

    Args:
        definition: What would run.
        run_dir: The run that would go on; None: a new one.
        command: The beginning of one that helps: `adw run sdlc 47`.

    Raises:
        UsageError: The first missing input, and a command that makes it.
    """
    found = missing_inputs(definition.full, definition.graph, ())
    if found and run_dir is not None:
        from adw.app.promoting import read_manifest

        have = read_manifest(run_dir)
        found = [each for each in found if each.name not in have]
    if found:
        phase, name, producer = found[0]
        detail = f"`{phase}` reads the output `{name}` of `{producer}`, which the run does not have"
        target = definition.full.owners.get(phase, (phase,))[0]  # a repair phase is no target
        raise UsageError(detail=detail, fix=f"{command} --until {target}")


def check_phase(graph: Graph, name: str | None, *, start: bool) -> None:
    """Check a phase that a person names.

    Args:
        graph: The whole workflow.
        name: None: nothing was named.
        start: It is to be a start or a target, which a repair phase cannot be.

    Raises:
        UnknownName: No such phase.
        UsageError: A repair phase, which runs only when its owner calls it.
    """
    if name is None:
        return
    if name not in graph.phases:
        close = suggestion(name, list(graph.phases))
        raise UnknownName(kind="phase", name=name, suggestion=close, reason=None)
    if start and name in graph.owners:
        owners = " or ".join(f"`{owner}`" for owner in graph.owners[name])
        detail = f"`{name}` runs only when {owners} calls it"
        raise UsageError(detail=detail, fix=f"name {owners} instead")
