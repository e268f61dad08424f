"""Instants and durations."""

import time

import pytest

from adw import clock


def test_an_instant_is_utc_whatever_the_zone() -> None:
    assert time.tzname[0] == "XST"  # conftest.py sets a zone that is not UTC
    assert clock.stamp(0) == "1970-01-01T00:00:00.000000Z"
    assert clock.stamp(1796056922.123456) == "2026-11-30T16:42:02.123456Z"


def test_instants_sort_as_text() -> None:
    moments = [0.0, 0.5, 1.0, 999999999.999999, 1e9, 4e9]

    stamps = [clock.stamp(moment) for moment in moments]

    assert stamps == sorted(stamps)


def test_an_open_run_does_not_see_the_wall_clock_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    run_clock = clock.Clock()
    before = run_clock.now()

    monkeypatch.setattr(time, "time", lambda: 0.0)

    assert before <= run_clock.now() < before + 60
