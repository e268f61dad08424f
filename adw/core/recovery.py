"""What is done about a failure, in one word: read off the decision that follows it.

Failure kinds and their recoveries are a closed list, docs/reference/failure-kinds.md.
"""

from collections.abc import Iterable, Mapping
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


def recovery(graph: Graph, decision: Decision, entry: Entry, *, narrowed: bool) -> Recovery:
    """What the decision makes of a failed attempt.

    Args:
        graph: The workflow.
        decision: The first one after the entry.
        entry: The phase's latest entry, a failed attempt.
        narrowed: Its outputs were all that was wrong, so a retry asks for them alone.
    """
    again = "rerun" if entry.reason in FREE else "narrowed_retry" if narrowed else "retry"
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
