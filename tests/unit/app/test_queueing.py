"""Who needs a place, and who lets others have it."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from adw import engine
from adw.app import queueing
from adw.app.queueing import Place
from adw.engine import Outcome
from adw.errors import StoreError
from adw.model.state import ADWStateData

STATE = ADWStateData(adw_id="cc73faf1")


@pytest.mark.parametrize("config", [{}, {"max_concurrent": None}])
def test_without_a_limit_a_run_may_work_at_once_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: dict[str, object]
) -> None:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))

    with Place.of(str(tmp_path), str(tmp_path), STATE, config) as place:
        assert place.admitted
        assert place.look() is None

    assert not (tmp_path / "host").exists()


def test_a_run_inside_a_phase_needs_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would wait for the run that waits for it."""
    config = {"max_concurrent": 1}
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    assert not Place.of(str(tmp_path), str(tmp_path), STATE, config).admitted

    monkeypatch.setenv("ADW_CHILD", "test-1")

    assert Place.of(str(tmp_path), str(tmp_path), STATE, config).admitted


def test_a_place_is_taken_and_given_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    table = tmp_path / "host" / "queue.json"

    with Place.of(str(tmp_path), str(tmp_path), STATE, {"max_concurrent": 1}) as place:
        found = place.look()
        assert found is not None
        assert (place.admitted, found.position) == (True, 0)
        assert b"cc73faf1" in table.read_bytes()

    assert b"cc73faf1" not in table.read_bytes()


def test_a_host_directory_that_cannot_be_written_is_told_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "host").write_text("a file")
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))

    with (
        Place.of(str(tmp_path), str(tmp_path), STATE, {"max_concurrent": 1}) as place,
        pytest.raises(StoreError) as caught,
    ):
        place.look()

    assert caught.value.render() == (
        f"error: cannot write `{tmp_path}/host`: File exists\n"
        "  hint: ADW_HOST_DIR names a folder that can be written, or no `max_concurrent` in adw.yaml"
    )


@dataclass
class Sitting:
    """A session that is asked of nothing but what its wait needs."""

    run_dir: str
    fds: list[int]
    wished: str | None = None
    left: str | None = None
    told: list[str] = field(default_factory=list)
    asked: list[Callable[[], None]] = field(default_factory=list)
    """What happens at each tick."""
    is_dirty: bool = False
    decision: Any = None

    @property
    def parts(self) -> Any:
        drain = SimpleNamespace(fds=self.fds, run_dir=self.run_dir, drain=lambda: None)
        return SimpleNamespace(wishes=drain)

    def wish(self) -> str | None:
        return self.wished

    def dirty(self) -> bool:
        return self.is_dirty

    def tick_s(self) -> float | None:
        return None

    def tick(self) -> None:
        if self.asked:
            self.asked.pop(0)()

    def event(self, kind: str, _slots: object) -> None:
        self.told.append(kind)

    def decide(self, _now: float) -> Any:
        return self.decision

    def commit(self, _before: object = None) -> None:
        self.is_dirty = False

    def publish(self, _decision: object) -> None:
        self.told.append("published")


@pytest.fixture
def sitting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sitting]:
    """A run whose descriptors are always ready, so that nothing sleeps."""
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))
    reader, writer = os.pipe()
    os.write(writer, b".")
    yield Sitting(str(tmp_path), [reader])
    os.close(reader)
    os.close(writer)


def driven(
    sitting: Sitting, place: Place, monkeypatch: pytest.MonkeyPatch, outcomes: list[Outcome]
) -> tuple[Outcome, list[tuple[bool, bool]]]:
    """The outcome; for each call of the engine whether it might wait, and had the place."""
    calls: list[tuple[bool, bool]] = []

    def drive(*_args: object, wait: bool) -> Outcome:
        calls.append((wait, place.admitted))
        return outcomes.pop(0)

    monkeypatch.setattr(engine, "drive", drive)
    anything: Any = None
    session: Any = sitting
    return queueing.drive(place, session, anything, sitting.told.append, wait=True), calls


DONE = Outcome("succeeded", None)
FAR = Outcome(None, None, 4e9)
LIMIT = {"max_concurrent": 1}


def test_without_a_limit_the_engine_itself_waits(
    sitting: Sitting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place.of(str(tmp_path), str(tmp_path), STATE, {})

    assert driven(sitting, place, monkeypatch, [DONE]) == (DONE, [(True, True)])


def test_a_far_instant_lets_others_have_the_place_and_a_near_one_does_not(
    sitting: Sitting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "host" / "queue.json"
    with Place.of(str(tmp_path), str(tmp_path), STATE, LIMIT) as place:
        place.look()
        near = Outcome(None, None, 1.0)  # long ago: nothing is waited for

        def look() -> None:
            sitting.told.append("free" if b"cc73faf1" not in table.read_bytes() else "taken")

        def come_true() -> None:
            sitting.is_dirty = True
            sitting.decision = SimpleNamespace(starts=["a"], skips=[], closing=None, wake_at=None)

        sitting.asked = [look, come_true]
        found, calls = driven(sitting, place, monkeypatch, [near, FAR, DONE])

    assert found == DONE
    assert calls == [(False, True)] * 3, "it has its place again before it goes on"
    assert sitting.told == ["free", "published"]


def test_a_wish_ends_the_wait_for_an_instant(
    sitting: Sitting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paused = Outcome(None, "pause")
    with Place.of(str(tmp_path), str(tmp_path), STATE, LIMIT) as place:
        place.look()
        sitting.asked = [lambda: setattr(sitting, "wished", "pause")]

        found, calls = driven(sitting, place, monkeypatch, [FAR, paused])

    assert (found, calls) == (paused, [(False, True), (False, False)])
