"""Fixtures of the supervisors' room."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from adw.supervise import cgroups
from tests.integration.supervise.room import Room


@pytest.fixture(params=["cgroup", "tag"])
def mode(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to end a tree."""
    if request.param == "tag":
        monkeypatch.setenv("ADW_DISABLE", "cgroup")
    elif cgroups.base() is None:
        pytest.skip("no writable cgroup v2: mode cgroup was NOT tested")
    return str(request.param)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A room, closed at the end."""
    made = Room(tmp_path)
    yield made
    if made.supervision is not None:
        made.supervision.close()
