"""When the views of a run are written: at once where anybody could look, seldom in a hurry."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from adw import clock
from adw.app import publish
from adw.core.decide import Decision

FIRST, SECOND = (Decision((), (), at, None, {}) for at in (1.0, 2.0))


class Watched:
    """Views on a clock that a test sets, with a record of what was written."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.running: list[str] = ["build-1"]
        self.written: list[Decision] = []
        self.flushes = 0
        self.views = publish.Views()
        self.session: Any = SimpleNamespace(
            parts=SimpleNamespace(history=SimpleNamespace(flush=self._flush)),
            manifest=SimpleNamespace(write=lambda: None),
            running=lambda: self.running,
        )
        patch.setattr(clock, "monotonic", lambda: self.now)
        patch.setattr(publish, "_replace_views", lambda _, decision: self.written.append(decision))

    def _flush(self) -> None:
        self.flushes += 1


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Callable[[], Watched]:
    return lambda: Watched(monkeypatch)


def test_a_boundary_after_a_pause_is_written_at_once(watched: Callable[[], Watched]) -> None:
    seen = watched()
    seen.views.write(seen.session, FIRST)
    seen.now += publish.HOLD_S
    seen.views.write(seen.session, SECOND)

    assert seen.written == [FIRST, SECOND]
    assert seen.views.soonest(None) is None


def test_a_boundary_right_after_another_is_held_back_and_written_in_time(
    watched: Callable[[], Watched],
) -> None:
    seen = watched()
    seen.views.write(seen.session, FIRST)
    seen.now += publish.HOLD_S / 4
    seen.views.write(seen.session, SECOND)
    assert (seen.written, seen.flushes) == ([FIRST], 2)
    assert seen.views.soonest(None) == pytest.approx(publish.HOLD_S * 3 / 4)
    assert seen.views.soonest(0.001) == 0.001
    seen.views.catch_up(seen.session)
    assert seen.written == [FIRST]

    seen.now += publish.HOLD_S
    assert seen.views.soonest(None) == 0
    seen.views.catch_up(seen.session)
    seen.views.catch_up(seen.session)
    assert seen.written == [FIRST, SECOND]
    assert seen.views.soonest(0.25) == 0.25


def test_what_is_left_behind_is_up_to_date(watched: Callable[[], Watched]) -> None:
    seen = watched()
    seen.views.write(seen.session, FIRST)
    seen.running = []
    seen.views.write(seen.session, SECOND)

    assert seen.written == [FIRST, SECOND]
    assert seen.views.soonest(None) is None
