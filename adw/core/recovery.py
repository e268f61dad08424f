"""What is done about a failure, in one word: read off the decision that follows it.

Failure kinds and their recoveries are a closed list, docs/reference/failure-kinds.md.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, NamedTuple

from adw.core.decide import Decision, PhaseView
from adw.core.graph import Graph
from adw.core.standing import FREE, HELD, Entry

ACTIONS: Final = (
    "retry", "narrowed_retry", "rerun", "repair", "wait", "hold", "excuse", "give_up",
)  # fmt: skip


class Recovery(NamedTuple):
    """A decision about one failed attempt."""

    action: str
    """One of `ACTIONS`: `rerun` burns nothing, `retry` counts as a try."""
    target: str | None = None
    """With `repair`: the repair phase."""
    detail: str | None = None
    """Why no more is done, or what is waited for."""


def recovery(
    graph: Graph, decision: Decision, entry: Entry, entries: Sequence[Entry], *, narrowed: bool
) -> Recovery:
    """What is made of a failed attempt.

    Args:
        graph: The workflow.
        decision: The latest one.
        entry: The failed attempt.
        entries: All entries; what follows in them tells, and else the decision does.
        narrowed: Its outputs were all that was wrong, so a retry asks for them alone.
    """
    followed = _followed(graph, entry, entries, narrowed=narrowed)
    if followed is not None:
        return followed
    again = _again(entry, narrowed=narrowed)
    view = _view(graph, decision.phases, entry)
    if view is None:
        return Recovery("hold" if entry.reason in HELD else again)
    if entry.repairs is not None and view.state == "repairing":
        return Recovery(again)
    found = _PLAIN.get(view.state)
    if found is not None:
        return Recovery(found, view.repair if found == "repair" else None, _detail(view, entry))
    if view.state == "wait" and entry.reason == "rate_limited":
        return Recovery("wait")
    return Recovery("hold" if entry.reason in HELD else again)


def _followed(
    graph: Graph, entry: Entry, entries: Sequence[Entry], *, narrowed: bool
) -> Recovery | None:
    """What was made of a failed attempt, as the entries after it show; None where none does."""
    later = takewhile(lambda each: each is not entry, reversed(entries))
    for each in reversed(list(later)):
        if each.repairs == entry.phase and entry.phase not in graph.owners:
            return Recovery("repair", each.phase)
        if each.phase != entry.phase or each.repairs != entry.repairs:
            continue
        if each.attempt:
            return Recovery(_again(entry, narrowed=narrowed))
        return Recovery("hold" if entry.reason in HELD else "give_up")
    return None


def _again(entry: Entry, *, narrowed: bool) -> str:
    return "rerun" if entry.reason in FREE else "narrowed_retry" if narrowed else "retry"


def blamed(reason: str | None, faults: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The outputs that an attempt failed by; none where it failed by something else.

    Args:
        reason: Its failure kind.
        faults: Of its verdict line, those of optional outputs too.
    """
    if reason not in {"missing_output", "contract"}:
        return []
    return [fault for fault in faults if not fault["optional"]]


def _view(graph: Graph, views: Mapping[str, PhaseView], entry: Entry) -> PhaseView | None:
    """A repair phase has no standing of its own: it is seen through its owner."""
    name = entry.repairs if entry.phase in graph.owners else entry.phase
    return views.get(name) if name else None


def _detail(view: PhaseView, entry: Entry) -> str | None:
    known = {None, entry.reason, view.repair}
    return view.detail if isinstance(view.detail, str) and view.detail not in known else None


_PLAIN: Final = {
    "repairing": "repair",
    "failed": "give_up",
    "held": "hold",
    "excused": "excuse",
}
