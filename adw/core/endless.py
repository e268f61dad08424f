"""How often a phase was started in a row without coming to an end: a bound for resumes.

A phase that brings the host down, or is always interrupted, burns no attempt; resumed at each boot
it would be started for ever. Three losses in a row are an ordinary failure by the rule of
deciding; this bounds interruptions, and mixtures of both. Pure.
"""

from collections.abc import Iterable
from typing import Final

from adw.core.standing import Entry

MOST: Final = 10
"""So many starts without an outcome; the next one fails as `stuck`."""

_NO_OUTCOME: Final = frozenset({"lost", "interrupted"})


def without_outcome(history: Iterable[Entry], phase: str) -> int:
    """Count the latest attempts of a phase that were lost or interrupted, back to any other entry.

    A mark, which a person's resume of a failed run sets, begins the count anew.

    Args:
        history: All entries, the oldest first.
        phase: Its name; a repair phase counts for all its owners together.
    """
    count = 0
    for entry in history:
        if entry.phase == phase:
            count = count + 1 if entry.reason in _NO_OUTCOME else 0
    return count
