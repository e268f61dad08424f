"""From a workflow file to a pinned definition with its compiled graph, and back from the pin."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adw.core.cut import cut
from adw.core.graph import Graph, from_json, to_json
from adw.errors import UnknownName, UsageError, suggestion
from adw.store import definitions

if TYPE_CHECKING:
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
    """`only`, `until`, `model_set`, `base`, and the `path` of the workflow file when it was pinned."""
    source_sha256: str
    """Of the workflow file's bytes."""

    @property
    def workflow(self) -> str:
        """As the state names it."""
        return f"{self.full.name}@{self.id}"

    @property
    def path(self) -> str | None:
        """Where the workflow file was when it was pinned."""
        return self.command.get("path")

    def derived(self) -> dict[str, Any]:
        """What `definitions/<id>.graph.json` holds."""
        return {
            "definition": self.id,
            "graph": to_json(self.full),
            "config": dict(self.config),
            "command": dict(self.command),
            "source_sha256": self.source_sha256,
        }


def pin(
    file: str, source: bytes, graph: Graph, config: dict[str, Any], command: dict[str, Any]
) -> tuple[Definition, "Snapshot"]:
    """Make the definition of a new run or of another workflow on an old one."""
    command = {**command, "path": file}
    snapshot = definitions.make_definition(file, source, config, command)
    digest = hashlib.sha256(source).hexdigest()
    found = Definition(snapshot.id, cut(graph, command), graph, config, command, digest)
    return found, snapshot


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
        definition_id, graph, full, derived["config"], command, derived["source_sha256"]
    )


def _rebuild(run_dir: str, definition_id: str) -> Definition:
    from adw.loader import load_bytes

    snapshot = definitions.load_definition(run_dir, definition_id)
    name, source = definitions.workflow_source(snapshot)
    full = load_bytes(source, name).graph
    config = definitions.load_json(snapshot, "config.json")
    command = definitions.load_json(snapshot, "command.json")
    digest = hashlib.sha256(source).hexdigest()
    return Definition(definition_id, cut(full, command), full, config, command, digest)


def keep(run_dir: str, definition: Definition) -> None:
    """Store the derived form beside the pin."""
    definitions.save_graph_json(run_dir, definition.id, definition.derived())


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
