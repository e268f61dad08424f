"""A compiled workflow: plain frozen data that `decide` reads and `definitions/<id>.graph.json` keeps.

Made by `adw.core.compile` from a workflow file; loaded again without networkx, pydantic or YAML.
"""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any, Final

FORMAT: Final = 6  # of the JSON form; another number means: compile again from the pin


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed attempt is tried again."""

    attempts: int = 1
    """Tries in all, the first included."""
    delay_s: float = 0.0
    factor: float = 1.0
    max_delay_s: float = 60.0
    on: frozenset[str] | None = None
    """Failure kinds that are tried again; None: every kind that may be."""


@dataclass(frozen=True, slots=True)
class Repair:
    """Which phase mends a failure, and how often."""

    phase: str
    rounds: int
    back_to: str | None = None
    """Where a successful repair leads back to; None: the owner itself."""


@dataclass(frozen=True, slots=True)
class Output:
    """A file that a phase owes."""

    name: str
    """Logical name, unique in the workflow."""
    path: str
    """Path pattern relative to `root`, with `{name}` templates; wildcards inside one component."""
    description: str = ""
    root: str = "worktree"
    """`worktree`, or `artifacts`: the folder of the attempt's own."""
    state: str | None = None
    """State field that the found path is set as: `plan_file`."""
    format: str | None = None
    """`json`: it must be strict JSON."""
    optional: bool = False
    """Missing or wrong, it is told and fails nothing."""
    max_bytes: int = 1 << 30
    """A larger file is refused."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: the rule's part first, then what its process is."""

    name: str
    needs: tuple[str, ...] = ()
    when: str | None = None
    """Expression over state fields and outcomes of needs; None: always."""
    retry: Retry = Retry()
    repair: Repair | None = None
    allow_failure: bool = False
    gate: bool = False
    writes: bool = True
    argv: tuple[str, ...] = ()
    """Command of a `run` phase, with `{name}` templates; `("sh", "-euc", script)` for a string."""
    use: str | None = None
    """Built-in phase program, such as `commit`."""
    options: tuple[tuple[str, str], ...] = ()
    """What the built-in program is told, with `{name}` templates."""
    env: tuple[tuple[str, str], ...] = ()
    cwd: str | None = None
    """Relative to the worktree; None: the worktree."""
    timeout_s: float | None = None
    idle_timeout_s: float | None = None
    memory_bytes: int | None = None
    """Most memory of all its processes together."""
    processes: int | None = None
    """Most processes and threads at a time."""
    disk_bytes: int | None = None
    """Most that the run may keep on disk while it runs, and when it has ended."""
    log_bytes: int | None = None
    """How much of each of its logs is kept; None: as usual."""
    ensure: tuple[tuple[str, ...], ...] = ()
    """Post-conditions: ("changed",), ("committed",), ("clean",), or an argv that must exit 0."""
    on_retry: str = "keep"
    """`keep` or `reset` the worktree before another attempt."""
    inputs: tuple[str, ...] = ()
    """Logical names of outputs that it reads."""
    outputs: tuple[Output, ...] = ()
    """Files that it owes, checked after exit 0."""
    secrets: tuple[str, ...] = ()
    """Environment variables that are passed to it alone and blotted out of its logs."""
    skill: str | None = None
    """File with role instructions, as the definition pins it; becomes SKILL.md."""
    digest: str = ""
    """SHA-256 hex of the phase's own keys; tells at chaining whether its result still stands."""


@dataclass(frozen=True, slots=True)
class Graph:
    """All phases and the shape that deciding needs."""

    name: str
    phases: Mapping[str, Phase]
    """In declared order."""
    order: tuple[str, ...]
    """All but repair phases, each after what it needs."""
    max_parallel: int
    owners: Mapping[str, tuple[str, ...]]
    """Repair phase to the phases that name it."""
    dependents: Mapping[str, tuple[str, ...]]
    """Phase to the phases that directly need it."""
    enclosing: Mapping[str, tuple[str, ...]]
    """Owner to the owners of loops strictly around its own."""
    first: str | None = None
    """The phase that prepares the worktree: all others wait for it, but none is stale because it
    ran again."""

    def target(self, owner: str) -> str:
        """Where a repair for `owner` leads back to."""
        repair = self.phases[owner].repair
        assert repair is not None, owner
        return repair.back_to or owner


def to_json(graph: Graph) -> dict[str, Any]:
    """The graph as JSON-ready data; `from_json` gives an equal graph."""
    return {
        "format": FORMAT,
        "name": graph.name,
        "max_parallel": graph.max_parallel,
        "first": graph.first,
        "order": list(graph.order),
        "owners": {k: list(v) for k, v in graph.owners.items()},
        "dependents": {k: list(v) for k, v in graph.dependents.items()},
        "enclosing": {k: list(v) for k, v in graph.enclosing.items()},
        "phases": [_phase_to_json(p) for p in graph.phases.values()],
    }


def from_json(data: dict[str, Any]) -> Graph | None:
    """Read what `to_json` wrote; None where another format wrote it."""
    if data.get("format") != FORMAT:
        return None
    phases = [_phase_from_json(p) for p in data["phases"]]
    return Graph(
        name=data["name"],
        phases={p.name: p for p in phases},
        order=tuple(data["order"]),
        max_parallel=data["max_parallel"],
        owners={k: tuple(v) for k, v in data["owners"].items()},
        dependents={k: tuple(v) for k, v in data["dependents"].items()},
        enclosing={k: tuple(v) for k, v in data["enclosing"].items()},
        first=data["first"],
    )


def _phase_to_json(phase: Phase) -> dict[str, Any]:
    found: dict[str, Any] = {"name": phase.name, "digest": phase.digest}
    for name, default in _DEFAULTS.items():
        value = getattr(phase, name)
        if value != default:
            found[name] = value
    if phase.retry != Retry():
        on = phase.retry.on
        found["retry"] = [
            phase.retry.attempts,
            phase.retry.delay_s,
            phase.retry.factor,
            phase.retry.max_delay_s,
            None if on is None else sorted(on),
        ]
    if phase.outputs:
        found["outputs"] = [list(astuple(output)) for output in phase.outputs]
    if phase.repair:
        found["repair"] = [phase.repair.phase, phase.repair.rounds, phase.repair.back_to]
    return found


def _phase_from_json(data: dict[str, Any]) -> Phase:
    found = dict(data)
    for name in ("needs", "argv", "inputs", "secrets"):
        if name in found:
            found[name] = tuple(found[name])
    for name in ("env", "ensure", "options"):
        if name in found:
            found[name] = tuple(tuple(item) for item in found[name])
    if "outputs" in found:
        found["outputs"] = tuple(Output(*fields) for fields in found["outputs"])
    if "retry" in found:
        attempts, delay, factor, max_delay, on = found["retry"]
        on = None if on is None else frozenset(on)
        found["retry"] = Retry(attempts, delay, factor, max_delay, on)
    if "repair" in found:
        found["repair"] = Repair(*found["repair"])
    return Phase(**found)


_DEFAULTS: Final = {
    name: getattr(Phase("x"), name)
    for name in (
        "needs", "when", "allow_failure", "gate", "writes", "argv", "use", "options", "env", "cwd",
        "timeout_s", "idle_timeout_s", "memory_bytes", "processes", "disk_bytes", "log_bytes",
        "ensure",
        "on_retry", "inputs", "secrets", "skill",
    )
}  # fmt: skip
