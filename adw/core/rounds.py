"""Which round of a phase an attempt belongs to: what tells a repetition from new work.

An outside effect is made once a round. A retry, a crash and a person's resume stay in the round; a
new result of what the phase needs, and a repair of that, begin a new one. Pure, and computed from
the history alone. Source: specs/0006-effects.md.
"""

from collections.abc import Sequence

from adw.core.compile import reach
from adw.core.graph import Graph
from adw.core.standing import Entry


def round_of(graph: Graph, history: Sequence[Entry], phase: str, repairs: str | None = None) -> int:
    """The round of the attempt that starts after a history.

    Args:
        graph: The whole workflow, not cut to what one command runs.
        history: All entries so far.
        phase: What starts.
        repairs: With a repair phase: the owner that calls it.

    Returns:
        1 for the first attempt. After that, for an ordinary phase one more each time when between
        two of its attempts lies a success of a phase that it transitively needs, or of a repair
        for it or for one of these; for a repair phase one more each time when its owner was tried
        between two attempts made for that owner.
    """
    if repairs is not None:
        return _of_repair(history, phase, repairs)
    first = next((i for i, each in enumerate(history) if _tried(each, phase)), None)
    if first is None:
        return 1
    above = reach([phase], lambda name: graph.phases[name].needs if name in graph.phases else ())
    above.discard(graph.first or "")  # to prepare the worktree again brings nothing new
    served = {phase, *above}
    found, fresh = 1, False
    for each in history[first + 1 :]:
        if _tried(each, phase):
            found, fresh = found + fresh, False
        elif each.attempt and each.success:
            fresh = fresh or each.phase in above or each.repairs in served
    return found + fresh


def _of_repair(history: Sequence[Entry], phase: str, owner: str) -> int:
    """Rounds of a repair phase, which several owners may call: no two calls share a number."""
    last, current = 0, dict[str | None, int]()
    for each in history:
        if _tried(each, phase):
            if each.repairs not in current:
                last += 1
                current[each.repairs] = last
        elif each.attempt:
            current.pop(each.phase, None)
    return current.get(owner, last + 1)


def _tried(entry: Entry, phase: str) -> bool:
    return entry.phase == phase and entry.attempt > 0
