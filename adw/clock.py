"""The only reader of the clocks; every instant that adw writes is made here.

Instants are UTC, ISO 8601 with microseconds and `Z`. Durations are measured on the monotonic
clock, so that a jump of the wall clock changes no decision.
"""

import time
from datetime import UTC, datetime


def stamp(epoch_s: float | None = None) -> str:
    """Write an instant as text.

    Args:
        epoch_s: Seconds since 1970 UTC; now by default.

    Returns:
        Such as `2026-11-30T16:42:02.123456Z`.
    """
    when = time.time() if epoch_s is None else epoch_s
    return datetime.fromtimestamp(when, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Clock:
    """Wall time at creation plus monotonic time since: never goes back while a run is open."""

    def __init__(self) -> None:
        self._wall = time.time()
        self._mono = time.monotonic()

    def now(self) -> float:
        """Seconds since 1970 UTC, as far as this clock knows."""
        return self._wall + time.monotonic() - self._mono


def monotonic() -> float:
    """Seconds on the monotonic clock."""
    return time.monotonic()
