"""Compile phases to a `Graph`: the one place where shape is checked, and the only user of networkx.

What a reader may rely on: a graph from here has no cycle, no name without a phase, no loop
without a bound, and its order is the declared one wherever needs leave a choice.
Refusals are `GraphFault` values without wording or place: the loader knows file and line.
Nothing here recurses, so a chain of 10,000 phases is as safe as one of ten.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from heapq import heappop, heappush
from typing import Final

from adw.core.graph import Graph, Phase


class Kind(StrEnum):
    """What is wrong with a graph; a closed set."""

    EMPTY = "empty"
    """No phase at all."""
    NAME = "name"
    """Not `[a-z][a-z0-9_]*`."""
    DUPLICATE = "duplicate"
    """A name declared twice."""
    UNKNOWN_PHASE = "unknown_phase"
    """A name that no phase has."""
    CYCLE = "cycle"
    """Phases that need each other."""
    BOUND = "bound"
    """A count below 1."""
    UNBOUNDED_REPAIR = "unbounded_repair"
    """A repair without at least one and finitely many rounds."""
    REPAIR_PHASE = "repair_phase"
    """A repair phase with a key that it cannot have."""
    NEEDS_REPAIR_PHASE = "needs_repair_phase"
    """A repair phase in `needs`."""
    BACK_TO = "back_to"
    """A target that the owner does not need."""
    RESET_BESIDE = "reset_beside"
    """A reset of the worktree that would undo another phase's work."""
    OUTPUT_TWICE = "output_twice"
    """An output that two phases claim."""
    UNKNOWN_INPUT = "unknown_input"
    """An input that no phase puts out."""
    INPUT_NOT_NEEDED = "input_not_needed"
    """An input from a phase that this one, or who calls it, does not need."""
    NOT_A_START = "not_a_start"
    """A repair phase where a person must name an ordinary one."""


NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


class GraphFault(ValueError):
    """A graph that cannot be run.

    Attributes:
        kind: What is wrong.
        phase: The phase that has the fault; "" where it is the workflow's.
        key: Dotted key of the phase where it stands: `needs`, `repair.back_to`, ….
        names: The other names in it. For a cycle all its phases in order, `phase` first: each
            needs the next, the last needs the first.
    """

    def __init__(self, kind: Kind, phase: str, key: str, names: Sequence[str] = ()) -> None:
        super().__init__(kind, phase, key, tuple(names))
        self.kind = kind
        self.phase = phase
        self.key = key
        self.names = tuple(names)


def compile_graph(
    name: str, phases: Sequence[Phase], max_parallel: int, first: str | None = None
) -> Graph:
    """Check the shape of a workflow and compute what deciding needs of it.

    Args:
        name: Name of the workflow.
        phases: In declared order, as the file says them.
        max_parallel: How many attempts may run at once; at least 1.
        first: The phase among them that prepares the worktree for all others.

    Returns:
        The graph; `order` is topological and, where needs leave a choice, the declared order.

    Raises:
        GraphFault: The first fault found; nothing was compiled.
    """
    found = _by_name(phases)
    if max_parallel < 1:
        raise GraphFault(Kind.BOUND, "", "max_parallel")
    owners = _owners(found)
    for phase in phases:
        _check_names(phase, found)
        _check_bounds(phase)
        _check_repair_phase(phase, owners)
    order = _order([p for p in phases if p.name not in owners])
    dependents = _dependents(found, order)
    rank = {n: i for i, n in enumerate(order)}
    enclosing = _enclosing(found, dependents, rank)
    graph = Graph(
        name=name,
        phases=found,
        order=order,
        max_parallel=max_parallel,
        owners=owners,
        dependents=dependents,
        enclosing=enclosing,
        first=first,
    )
    _check_inputs(graph)
    _check_resets(graph, rank)
    return graph


def reach(
    starts: Iterable[str],
    edges: Callable[[str], Iterable[str]],
    rank: Mapping[str, int] | None = None,
    between: range = range(0),
) -> set[str]:
    """Everything that `edges` lead to from `starts`, without the starts unless led back to.

    Args:
        starts: Where to begin.
        edges: Phase to its neighbours.
        rank: Where given, neighbours whose rank is not in `between` are left out.
        between: The ranks to stay in.
    """
    found: set[str] = set()
    stack = list(starts)
    while stack:
        for name in edges(stack.pop()):
            if name not in found and (rank is None or rank[name] in between):
                found.add(name)
                stack.append(name)
    return found


def _by_name(phases: Sequence[Phase]) -> dict[str, Phase]:
    found: dict[str, Phase] = {}
    for phase in phases:
        if not NAME.fullmatch(phase.name):
            raise GraphFault(Kind.NAME, phase.name, "")
        if phase.name in found:
            raise GraphFault(Kind.DUPLICATE, phase.name, "")
        found[phase.name] = phase
    if not found:
        raise GraphFault(Kind.EMPTY, "", "phases")
    return found


def _owners(phases: Mapping[str, Phase]) -> dict[str, tuple[str, ...]]:
    """Repair phase to those that name it, both in declared order."""
    found: dict[str, list[str]] = {}
    for phase in phases.values():
        if phase.repair:
            found.setdefault(phase.repair.phase, []).append(phase.name)
    return {name: tuple(found[name]) for name in [*phases, *found] if name in found}


def _check_names(phase: Phase, phases: Mapping[str, Phase]) -> None:
    for need in phase.needs:
        if need not in phases:
            raise GraphFault(Kind.UNKNOWN_PHASE, phase.name, "needs", [need])
    if not phase.repair:
        return
    if phase.repair.phase not in phases:
        raise GraphFault(Kind.UNKNOWN_PHASE, phase.name, "repair.phase", [phase.repair.phase])
    if phase.repair.back_to is not None and phase.repair.back_to not in phases:
        raise GraphFault(Kind.UNKNOWN_PHASE, phase.name, "repair.back_to", [phase.repair.back_to])


def _check_bounds(phase: Phase) -> None:
    """Every loop has a bound: tries and rounds are counted numbers."""
    if phase.retry.attempts < 1:
        raise GraphFault(Kind.BOUND, phase.name, "retry.attempts")
    if phase.repair and phase.repair.rounds < 1:
        raise GraphFault(Kind.UNBOUNDED_REPAIR, phase.name, "repair.rounds")


def _check_repair_phase(phase: Phase, owners: Mapping[str, tuple[str, ...]]) -> None:
    """A repair phase has no `needs, when, repair, allow_failure`, is no gate, needed by nobody."""
    for need in phase.needs:
        if need in owners:
            raise GraphFault(Kind.NEEDS_REPAIR_PHASE, phase.name, "needs", [need, *owners[need]])
    if phase.name not in owners:
        return
    for key, has in (
        ("needs", bool(phase.needs)),
        ("when", phase.when is not None),
        ("repair", phase.repair is not None),
        ("allow_failure", phase.allow_failure),
        ("approve", phase.gate),
    ):
        if has:
            raise GraphFault(Kind.REPAIR_PHASE, phase.name, key, owners[phase.name])


def _order(phases: Sequence[Phase]) -> tuple[str, ...]:
    """Topological order, the declared one wherever needs leave a choice (Kahn, with a heap)."""
    index = {p.name: i for i, p in enumerate(phases)}
    needs = [set(p.needs) for p in phases]
    left = [len(each) for each in needs]
    users: list[list[int]] = [[] for _ in phases]
    for i, each in enumerate(needs):
        for need in each:
            users[index[need]].append(i)
    ready = [i for i, count in enumerate(left) if not count]
    order = []
    while ready:
        i = heappop(ready)
        order.append(phases[i].name)
        for user in users[i]:
            left[user] -= 1
            if not left[user]:
                heappush(ready, user)
    if len(order) < len(phases):
        raise _cycle([p for i, p in enumerate(phases) if left[i]], index)
    return tuple(order)


def _cycle(phases: Sequence[Phase], index: Mapping[str, int]) -> GraphFault:
    """Name a cycle, which only a graph library finds without recursion in few lines.

    Args:
        phases: All that could not be ordered; a cycle is among them.
        index: Declared positions.
    """
    import networkx as nx

    graph: nx.DiGraph[str] = nx.DiGraph()
    graph.add_nodes_from(p.name for p in phases)
    # along needs: each phase of the cycle needs the next one
    graph.add_edges_from((p.name, need) for p in phases for need in p.needs if need in graph)
    cycle = [edge[0] for edge in nx.find_cycle(graph)]
    first = cycle.index(min(cycle, key=index.__getitem__))
    names = cycle[first:] + cycle[:first]
    return GraphFault(Kind.CYCLE, names[0], "needs", names)


def _dependents(phases: Mapping[str, Phase], order: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in order}
    for name in order:
        for need in dict.fromkeys(phases[name].needs):
            found[need].append(name)
    return {name: tuple(names) for name, names in found.items()}


def _enclosing(
    phases: Mapping[str, Phase],
    dependents: Mapping[str, tuple[str, ...]],
    rank: Mapping[str, int],
) -> dict[str, tuple[str, ...]]:
    """Owner to owners of the loops around its own; refuses targets that are not upstream.

    A loop encloses an owner that its own owner needs, where its target is that owner or something
    the owner needs. Only phases between target and owner can be that, so each walk stays between
    their ranks and no transitive set is kept.
    """
    found: dict[str, list[str]] = {}
    for outer in rank:
        repair = phases[outer].repair
        if not repair or repair.back_to is None:
            continue
        target = repair.back_to
        between = range(rank.get(target, len(rank)), rank[outer])
        above = reach([outer], lambda n: phases[n].needs, rank, between)
        if target not in above:
            raise GraphFault(Kind.BACK_TO, outer, "repair.back_to", [target])
        below = reach([target], dependents.__getitem__, rank, between)
        for name in (above & below) | {target}:
            if phases[name].repair:
                found.setdefault(name, []).append(outer)
    return {name: tuple(found[name]) for name in rank if name in found}


def _check_inputs(graph: Graph) -> None:
    """Refuse an output of two phases, and an input that may not be there when its phase starts."""
    producers: dict[str, str] = {}
    for phase in graph.phases.values():
        for output in phase.outputs:
            if output.name in producers:
                names = [output.name, producers[output.name]]
                raise GraphFault(Kind.OUTPUT_TWICE, phase.name, "outputs", names)
            producers[output.name] = phase.name
    readers = [phase for phase in graph.phases.values() if phase.inputs]
    for phase in readers:
        for name in phase.inputs:
            if name not in producers:
                raise GraphFault(Kind.UNKNOWN_INPUT, phase.name, "inputs", [name, *producers])
    above = _producers_above(graph, {producers[n] for p in readers for n in p.inputs})
    for phase in readers:
        for name in phase.inputs:
            starters = graph.owners.get(phase.name, (phase.name,))  # a repair's are its owners
            without = [each for each in starters if not above(each, producers[name])]
            if without:
                names = [name, producers[name], *without]
                raise GraphFault(Kind.INPUT_NOT_NEEDED, phase.name, "inputs", names)


def _producers_above(graph: Graph, producers: set[str]) -> Callable[[str, str], bool]:
    """Tell whether a phase of the order needs a producer, directly or by others.

    One bit a producer: 10,000 phases that each read what another one makes take 12 MB.
    """
    bit = {name: 1 << i for i, name in enumerate(sorted(producers))}
    above: dict[str, int] = {}
    for name in graph.order if producers else ():
        found = 0
        for need in graph.phases[name].needs:
            found |= above[need] | bit.get(need, 0)
        above[name] = found

    return lambda phase, producer: bool(above[phase] & bit[producer])


def _check_resets(graph: Graph, rank: Mapping[str, int]) -> None:
    """Refuse `on_retry: reset` for a phase that can run beside, or between, another's work.

    A reset restores the tree from before the first attempt: what an independent phase wrote
    since then would be undone, and one that only reads would lose the tree under its feet.
    """
    resets = [p for p in graph.phases.values() if p.on_retry == "reset"]
    if not resets:
        return
    ordered = _ordered_with_all(graph, rank)
    for phase in resets:
        for name in graph.owners.get(phase.name, (phase.name,)):
            if name in ordered:
                continue
            beside = [q for q in _unordered(graph, name) if _harmed(graph, phase, graph.phases[q])]
            if beside:
                raise GraphFault(Kind.RESET_BESIDE, phase.name, "on_retry", beside)


def _harmed(graph: Graph, phase: Phase, other: Phase) -> bool:
    mends = other.repair is not None and graph.phases[other.repair.phase].writes
    together = graph.max_parallel > 1 and not phase.writes
    return other.writes or mends or together


def _unordered(graph: Graph, name: str) -> list[str]:
    above = reach([name], lambda n: graph.phases[n].needs)
    below = reach([name], graph.dependents.__getitem__)
    return [n for n in graph.order if n != name and n not in above and n not in below]


def _ordered_with_all(graph: Graph, rank: Mapping[str, int]) -> set[str]:
    """Phases that every other one needs or is needed by, in one pass each way.

    All earlier phases lead to the one at rank r if each has a dependent at rank r or before;
    all later ones come from it if each has a need at rank r or after.
    """
    last = len(rank)
    first_use = [min((rank[d] for d in graph.dependents[n]), default=last) for n in graph.order]
    last_need = [max((rank[m] for m in graph.phases[n].needs), default=-1) for n in graph.order]
    from_all, to_all = [True] * last, [True] * last
    latest, earliest = -1, last
    for r in range(last):
        from_all[r] = latest <= r
        latest = max(latest, first_use[r])
    for r in reversed(range(last)):
        to_all[r] = earliest >= r
        earliest = min(earliest, last_need[r])
    return {n for r, n in enumerate(graph.order) if from_all[r] and to_all[r]}
