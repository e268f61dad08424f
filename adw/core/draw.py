"""A graph for people: as text, as a Mermaid flowchart, and its longest chain."""

from adw.core.graph import Graph, Phase


def critical_path(graph: Graph) -> tuple[str, ...]:
    """The longest chain of phases that need each other, first to last; "" free, without repairs."""
    length: dict[str, int] = {}
    before: dict[str, str | None] = {}
    for name in graph.order:
        needs = graph.phases[name].needs
        last = max(needs, key=lambda need: length[need], default=None)
        before[name] = last
        length[name] = 1 + (length[last] if last is not None else 0)
    found: list[str] = []
    at: str | None = max(graph.order, key=length.__getitem__, default=None)
    while at is not None:
        found.append(at)
        at = before[at]
    return tuple(reversed(found))


def to_text(graph: Graph) -> str:
    """One line a phase, each after what it needs; repair phases stand under their owners.

    Returns:
        Lines without a final newline.
    """
    width = max((len(name) for name in graph.phases), default=0)
    lines = []
    for name in graph.order:
        lines.append(_line(graph.phases[name], width))
        repair = graph.phases[name].repair
        if repair:
            rounds = "1 round" if repair.rounds == 1 else f"{repair.rounds} rounds"
            back = graph.target(name)
            lines.append(f"{'':{width}}  on failure: {repair.phase}, {rounds}, back to {back}")
    return "\n".join(lines)


def to_mermaid(graph: Graph) -> str:
    """A Mermaid flowchart: solid arrows for needs, dotted ones for calls and ways back.

    An arrow between two phases bears the names of the outputs that the second reads of the first.

    Returns:
        Lines without a final newline.
    """
    # `end`, `graph` and the like are words of Mermaid: names get a prefix, labels are quoted
    lines = ["flowchart TD"]
    for name, phase in graph.phases.items():
        left, right = ("{{", "}}") if phase.gate else ("([", "])") if name in graph.owners else "[]"
        lines.append(f'  p_{name}{left}"{name}"{right}')
    for name in graph.order:
        lines.extend(_arrow(graph, need, name) for need in graph.phases[name].needs)
    for name in graph.order:
        repair = graph.phases[name].repair
        if repair:
            lines.append(f'  p_{name} -. "fails, at most {repair.rounds}" .-> p_{repair.phase}')
            lines.append(f"  p_{repair.phase} -.-> p_{graph.target(name)}")
    return "\n".join(lines)


def _arrow(graph: Graph, need: str, name: str) -> str:
    """An arrow with what is handed over along it."""
    inputs = graph.phases[name].inputs
    passed = [each.name for each in graph.phases[need].outputs if each.name in inputs]
    label = f' -- "{", ".join(passed)}"' if passed else ""
    return f"  p_{need}{label} --> p_{name}"


def _line(phase: Phase, width: int) -> str:
    notes = []
    if phase.needs:
        notes.append("needs " + ", ".join(phase.needs))
    if phase.when is not None:
        notes.append(f"when {phase.when}")
    if phase.gate:
        notes.append("approved by a person")
    if phase.retry.attempts > 1:
        notes.append(f"{phase.retry.attempts} attempts")
    if phase.allow_failure:
        notes.append("may fail")
    if phase.inputs:
        notes.append("reads " + ", ".join(phase.inputs))
    if phase.outputs:
        notes.append("makes " + ", ".join(each.name for each in phase.outputs))
    return f"{phase.name:{width}}  {'; '.join(notes)}".rstrip()
