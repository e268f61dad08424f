"""What is allowed in a workflow file and probably not meant."""

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from adw.core import template
from adw.core.compile import reach
from adw.core.graph import Graph

if TYPE_CHECKING:
    from adw.model.workflow import PhaseSpec

_BRACES: Final = re.compile(r"(?<!\$)\{([a-z][a-z0-9_.]*)\}")


class Doubt(NamedTuple):
    """One thing worth a second look."""

    path: tuple[str | int, ...]
    text: str
    fix: str | None = None


def doubts_in(graph: Graph, phases: Mapping[str, "PhaseSpec"]) -> Iterator[Doubt]:
    """All doubts about a valid workflow, in declared order."""
    for name, spec in phases.items():
        yield from _kept_results(graph, name)
        known = (*template.NAMES, *(f"inputs.{each}" for each in spec.inputs))
        for i, word in enumerate(spec.run if isinstance(spec.run, list) else ()):
            yield from _literal_braces(("phases", name, "run", i), word, known)
        for logical, output in spec.outputs.items():
            path = ("phases", name, "outputs", logical, "path")
            yield from _literal_braces(path, output.path, template.NAMES)
        if spec.inputs:
            yield from _uncertain_inputs(graph, name)


def _kept_results(graph: Graph, owner: str) -> Iterator[Doubt]:
    """A repair changes the code; a check beside its target has not seen the change."""
    repair = graph.phases[owner].repair
    if repair is None or not graph.phases[repair.phase].writes:
        return
    target = graph.target(owner)
    again = reach([target], graph.dependents.__getitem__) | {target}
    kept = [n for n in graph.order if n not in again and _is_check(graph, n)]
    if not kept:
        return
    listed = ", ".join(f"`{n}`" for n in kept[:12])
    have = "keep their results" if len(kept) > 1 else "keeps its result"
    text = f"after a repair by `{repair.phase}`, {listed} {have}, though the code has changed"
    yield Doubt(("phases", owner, "repair"), text, _back_to(graph, owner, kept))


def _is_check(graph: Graph, name: str) -> bool:
    if graph.phases[name].writes:
        return False
    above = reach([name], lambda n: graph.phases[n].needs)
    return any(graph.phases[n].writes for n in above)


def _back_to(graph: Graph, owner: str, kept: list[str]) -> str | None:
    """The nearest phase that the owner needs and from which all kept checks run again."""
    above = reach([owner], lambda n: graph.phases[n].needs)
    for name in reversed(graph.order):
        if name in above:
            again = reach([name], graph.dependents.__getitem__) | {name}
            if again.issuperset(kept):
                return f"back_to: {name}"
    return None


def _uncertain_inputs(graph: Graph, name: str) -> Iterator[Doubt]:
    """An attempt whose input is not there is refused, so it had better be there."""
    makers = {o.name: (p, o) for p in graph.phases.values() for o in p.outputs}
    for i, wanted in enumerate(graph.phases[name].inputs):
        producer, output = makers[wanted]
        if output.optional:
            why = "it is optional"
        elif producer.when is not None:
            why = f"`{producer.name}` has `when`"
        elif producer.allow_failure:
            why = f"`{producer.name}` has `allow_failure`"
        else:
            continue
        text = f"`{name}` cannot start without `{wanted}`, which may be missing: {why}"
        yield Doubt(("phases", name, "inputs", i), text)


def _literal_braces(
    path: tuple[str | int, ...], word: str, known: Sequence[str]
) -> Iterator[Doubt]:
    for name in _BRACES.findall(word):
        close = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if close and name not in known:
            text = f"`{{{name}}}` is no name that adw replaces, so it stays as it is"
            yield Doubt(path, text, f"did you mean `{{{close[0]}}}`?")
