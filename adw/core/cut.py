"""Parts of a graph: what `--from` touches, and the graphs that `--only` and `--until` run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from adw.core.compile import GraphFault, Kind, reach
from adw.core.fold import Live
from adw.core.graph import Graph, Phase


def required(graph: Graph, phase: str) -> Phase:
    """The phase that a person names as a start.

    Raises:
        GraphFault: `unknown_phase`; `not_a_start` for a repair phase, which runs only when
            called: `names` are its owners.
    """
    if phase not in graph.phases:
        raise GraphFault(Kind.UNKNOWN_PHASE, phase, "", sorted(graph.phases))
    if phase in graph.owners:
        raise GraphFault(Kind.NOT_A_START, phase, "", graph.owners[phase])
    return graph.phases[phase]


def affected_by(graph: Graph, phase: str) -> set[str]:
    """A phase, what transitively needs it, and the repair phases of all these.

    Raises:
        GraphFault: As `required`.
    """
    again = _again(graph, phase)
    return again | _repairs_of(graph, again)


def ends_first(graph: Graph, running: Sequence[Live], phase: str) -> list[Live]:
    """What `--from PHASE` ends before it marks: attempts of it, of its dependents, repairs for these.

    A shared repair phase that works for another owner goes on.

    Raises:
        GraphFault: As `required`.
    """
    again = _again(graph, phase)
    return [live for live in running if (live.repairs or live.phase) in again]


def cut_until(graph: Graph, phase: str) -> Graph:
    """The graph cut to a phase and all it transitively needs, with their repair phases.

    Raises:
        GraphFault: As `required`.
    """
    required(graph, phase)
    kept = {phase} | reach([phase], lambda name: graph.phases[name].needs)
    kept |= _repairs_of(graph, kept)
    return Graph(
        name=graph.name,
        phases={name: each for name, each in graph.phases.items() if name in kept},
        order=tuple(name for name in graph.order if name in kept),
        max_parallel=graph.max_parallel,
        owners=_within(graph.owners, kept),
        dependents=_within(graph.dependents, kept),
        enclosing={o: inner for o, inner in _within(graph.enclosing, kept).items() if inner},
        first=graph.first,
    )


def only(graph: Graph, phase: str) -> Graph:
    """The graph of one phase alone, without needs, `when` and repair; `first` comes before it.

    Raises:
        GraphFault: `unknown_phase`; a repair phase may stand alone, its result counts for no owner.
    """
    if phase not in graph.owners:
        required(graph, phase)
    before = (graph.first,) if graph.first and graph.first != phase else ()
    alone = replace(graph.phases[phase], needs=before, when=None, repair=None)
    return Graph(
        name=graph.name,
        phases={**{name: graph.phases[name] for name in before}, phase: alone},
        order=(*before, phase),
        max_parallel=1,
        owners={},
        dependents={**dict.fromkeys(before, (phase,)), phase: ()},
        enclosing={},
        first=graph.first,
    )


def cut(graph: Graph, command: Mapping[str, Any]) -> Graph:
    """The graph of a command: all of it, `--only P`, or up to `--until P`.

    Args:
        graph: The whole workflow.
        command: What the command asked for: `only` and `until`, both optional.
    """
    if command.get("only"):
        return only(graph, command["only"])
    if command.get("until"):
        return cut_until(graph, command["until"])
    return graph


def _again(graph: Graph, phase: str) -> set[str]:
    required(graph, phase)
    return {phase} | reach([phase], graph.dependents.__getitem__)


def _repairs_of(graph: Graph, names: set[str]) -> set[str]:
    repairs = (graph.phases[name].repair for name in names)
    return {repair.phase for repair in repairs if repair}


def _within(shape: Mapping[str, tuple[str, ...]], kept: set[str]) -> dict[str, tuple[str, ...]]:
    return {
        name: tuple(each for each in names if each in kept)
        for name, names in shape.items()
        if name in kept
    }
