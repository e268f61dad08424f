"""Which places are tried: chosen from what the undisturbed run reached, by a seed alone."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from adw.app.chaos.report import BODY_ENDED, Point

_SUPERVISOR: Final = "shim."
_EARLY, _LATE = 0.05, 0.95


@dataclass(frozen=True, slots=True)
class Reached:
    """What the undisturbed run is made of."""

    failpoints: Sequence[str]
    """Names in the order in which they were reached; a name as often as it was."""
    attempts: Sequence[str]
    """Child ids in order."""
    bodies: frozenset[str]
    """Those whose body alone may be killed, since nothing but a new attempt comes of it."""


def plan(reached: Reached, rounds: int, seed: int) -> list[Point]:
    """The points of all rounds, in order.

    Each phase is killed when its body has ended and nobody knows it yet, and in its middle; then
    come durable writes and instants, drawn by lot, each once, until there are enough.
    """
    lot = random.Random(seed)  # noqa: S311 - it is to be repeatable
    first = [*_after_bodies(reached), *_within(reached, lot, ["all"])]
    lot.shuffle(first)
    writes = _writes(reached)
    lot.shuffle(writes)
    instants = _within(reached, lot, ["orchestrator", "nursery", "supervisor", "body"])
    lot.shuffle(instants)
    rest = _alternating(writes, instants)
    chosen = [*first, *rest][:rounds]
    while len(chosen) < rounds and reached.attempts:
        chosen += _within(reached, lot, ["all", "orchestrator"])
    return chosen[:rounds]


def known(reached: Reached) -> int:
    """How many durable writes there are to kill at."""
    return len(reached.failpoints)


def _after_bodies(reached: Reached) -> list[Point]:
    count = sum(name == BODY_ENDED for name in reached.failpoints)
    return [_write(reached, BODY_ENDED, nth) for nth in range(1, count + 1)]


def _writes(reached: Reached) -> list[Point]:
    counts: dict[str, int] = {}
    found = []
    for name in reached.failpoints:
        counts[name] = counts.get(name, 0) + 1
        if name != BODY_ENDED:
            found.append(_write(reached, name, counts[name]))
    return found


def _write(reached: Reached, name: str, nth: int) -> Point:
    if not name.startswith(_SUPERVISOR):
        return Point("failpoint", "orchestrator", name, nth)
    child = reached.attempts[nth - 1] if nth <= len(reached.attempts) else None
    return Point("failpoint", "supervisor", name, nth, attempt=child)


def _within(reached: Reached, lot: random.Random, targets: Sequence[str]) -> list[Point]:
    return [
        Point("instant", target, child, share=lot.uniform(_EARLY, _LATE))
        for child in reached.attempts
        for target in targets
        if target != "body" or child in reached.bodies
    ]


def _alternating(one: Sequence[Point], other: Sequence[Point]) -> list[Point]:
    found: list[Point] = []
    for at in range(max(len(one), len(other))):
        found += [*one[at : at + 1], *other[at : at + 1]]
    return found
