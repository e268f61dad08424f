"""Intent, look-up, act, receipt: what each of them leaves, and what the next try makes of it."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adw.errors import BrokenRun, EffectUnknown, LookUpFailed, StoreError
from adw.model.effect import EffectRecord
from adw.store import effects, files
from adw.store.effects import Effect, NotDone, Shelf


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(effects, "PAUSE_S", 0.0)
    path = tmp_path / "cc73faf1"
    path.mkdir()
    return path


class World:
    """Something outside that counts, and breaks when told to."""

    def __init__(self) -> None:
        self.done = 0
        self.looks = 0
        self.fault: Exception | None = None
        self.after: Exception | None = None
        self.blind = 0
        """So many look-ups tell nothing."""

    def act(self) -> str:
        if self.fault:
            raise self.fault
        self.done += 1
        if self.after:
            raise self.after
        return f"done {self.done}"

    def probe(self) -> str | None:
        self.looks += 1
        if self.blind:
            self.blind -= 1
            message = "timed out"
            raise TimeoutError(message)
        return f"found {self.done}" if self.done else None


@pytest.fixture
def world() -> World:
    return World()


def effect(run_dir: Path, key: str = "comment", **more: Any) -> Effect:
    found = {"phase": "review", "round": 1, "child_id": "review-1", **more}
    return Effect(run_dir=str(run_dir), key=key, **found)


def record_of(which: Effect) -> dict[str, Any]:
    data = Path(which.path).read_bytes()
    EffectRecord.model_validate_json(data)
    found: dict[str, Any] = json.loads(data)
    return found


def test_it_is_done_and_a_second_time_only_remembered(run_dir: Path, world: World) -> None:
    first = effects.perform(effect(run_dir), world.act)
    again = effects.perform(effect(run_dir, child_id="review-2"), world.act)

    assert (first.acted, again.acted, world.done) == (True, False, 1)
    assert first.record == again.record
    found = record_of(effect(run_dir))
    assert (found["state"], found["output"], found["child_id"]) == ("done", "done 1", "review-1")
    assert found["done_at"] >= found["intended_at"]
    assert stat.S_IMODE(os.stat(effect(run_dir).path).st_mode) == 0o600


def test_the_name_is_the_digest_of_run_phase_round_and_key(run_dir: Path) -> None:
    assert effects.full_key(effect(run_dir)) == "cc73faf1/review/1/comment"
    assert effects.full_key(effect(run_dir, once=True)) == "cc73faf1/run/comment"
    name = "3cda68e83ec97a3a15346d244ae5758c42fe5abfafbcbfe08eddafc6358edfb2"
    assert effect(run_dir).path == str(run_dir / "effects" / f"{name}.json")


@pytest.mark.parametrize(
    ("other", "times"),
    [
        ({"round": 2}, 2),
        ({"phase": "test"}, 2),
        ({"key": "label"}, 2),
        ({"child_id": "review-2"}, 1),
        ({"payload": b"another"}, 1),
    ],
)
def test_a_round_a_phase_and_a_key_make_another_effect_and_an_attempt_does_not(
    run_dir: Path, world: World, other: dict[str, Any], times: int
) -> None:
    effects.perform(effect(run_dir), world.act)
    effects.perform(effect(run_dir, **other), world.act)

    assert world.done == times


def test_once_is_once_in_the_run(run_dir: Path, world: World) -> None:
    effects.perform(effect(run_dir, once=True), world.act)
    effects.perform(effect(run_dir, once=True, phase="test", round=7), world.act)

    assert world.done == 1


def test_the_intent_is_durable_before_the_look_up_and_the_act(
    run_dir: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    replace = files.replace

    def noted(path: str, data: bytes, **more: Any) -> None:
        replace(path, data, **more)
        assert "sync" not in more
        order.append(json.loads(data)["state"])

    monkeypatch.setattr(files, "replace", noted)

    def act() -> str:
        order.append("act")
        return world.act()

    def probe() -> str | None:
        order.append("probe")
        return world.probe()

    effects.perform(effect(run_dir), act, probe)

    assert order == ["intent", "probe", "act", "done"]


def test_a_failed_act_is_looked_up_before_it_is_tried_again(run_dir: Path, world: World) -> None:
    """F49: it took hold, and the answer was lost."""
    world.after = ConnectionError("reset by peer")
    with pytest.raises(ConnectionError):
        effects.perform(effect(run_dir), world.act, world.probe)
    assert (record_of(effect(run_dir))["state"], world.done) == ("intent", 1)

    found = effects.perform(effect(run_dir, child_id="review-2"), world.act, world.probe)

    assert (found.acted, found.record["output"], world.done) == (False, "found 1", 1)
    assert record_of(effect(run_dir))["child_id"] == "review-2"


def test_a_failed_act_that_did_not_take_hold_is_done(run_dir: Path, world: World) -> None:
    world.fault = ConnectionError("refused")
    with pytest.raises(ConnectionError):
        effects.perform(effect(run_dir), world.act, world.probe)
    world.fault = None

    assert effects.perform(effect(run_dir), world.act, world.probe).acted
    assert (world.done, record_of(effect(run_dir))["looked_up"]) == (1, 2)


def test_without_a_look_up_an_open_intent_is_for_a_person(run_dir: Path, world: World) -> None:
    world.after = ConnectionError("reset by peer")
    with pytest.raises(ConnectionError):
        effects.perform(effect(run_dir), world.act)
    for child in ("review-2", "review-3"):
        with pytest.raises(EffectUnknown):
            effects.perform(effect(run_dir, child_id=child), world.act)
        found = record_of(effect(run_dir))
        assert (found["state"], found["child_id"], world.done) == ("unknown", child, 1)


def test_it_knows_that_it_was_refused_and_begins_anew(run_dir: Path, world: World) -> None:
    """F51: 429 is a clear word."""
    world.fault = NotDone("429 too many requests")
    with pytest.raises(NotDone):
        effects.perform(effect(run_dir), world.act)
    found = record_of(effect(run_dir))
    assert (found["state"], found["note"]) == ("not_done", "429 too many requests")
    world.fault = None

    assert effects.perform(effect(run_dir), world.act).acted


def test_a_look_up_that_cannot_tell_is_asked_three_times(run_dir: Path, world: World) -> None:
    world.blind = 2
    assert effects.perform(effect(run_dir), world.act, world.probe).acted
    assert world.looks == 3


def test_what_was_begun_and_cannot_be_looked_up_is_unknown(run_dir: Path, world: World) -> None:
    world.after = ConnectionError("reset by peer")
    with pytest.raises(ConnectionError):
        effects.perform(effect(run_dir), world.act, world.probe)
    world.blind = 3

    with pytest.raises(EffectUnknown, match="3 look-ups could not tell: timed out"):
        effects.perform(effect(run_dir), world.act, world.probe)

    assert (record_of(effect(run_dir))["state"], world.done) == ("unknown", 1)
    # The remote is back: the look-up settles it without a person.
    assert not effects.perform(effect(run_dir), world.act, world.probe).acted


def test_what_was_never_begun_is_not_unknown(run_dir: Path, world: World) -> None:
    """F52: no network, and nothing was done: a plain failure, to be tried again."""
    world.blind = 3
    with pytest.raises(LookUpFailed):
        effects.perform(effect(run_dir), world.act, world.probe)
    assert (record_of(effect(run_dir))["state"], world.done) == ("not_done", 0)

    assert effects.perform(effect(run_dir), world.act, world.probe).acted


@pytest.mark.parametrize(("state", "acts"), [("done", False), ("not_done", True)])
def test_a_persons_word_counts(run_dir: Path, world: World, state: str, acts: bool) -> None:
    world.fault = ConnectionError("who knows")
    with pytest.raises(ConnectionError):
        effects.perform(effect(run_dir), world.act)
    world.fault = None
    path = effect(run_dir).path
    effects.write_settled(path, record_of(effect(run_dir)), state)

    found = effects.perform(effect(run_dir), world.act)

    assert (found.acted, world.done) == (acts, int(acts))
    assert found.record["settled_by"] == (None if acts else "person")


def test_a_long_output_is_cut_at_a_character_and_told(run_dir: Path) -> None:
    text = "é" * effects.OUTPUT_BYTES
    found = effects.perform(effect(run_dir), lambda: text + "\udcff").record

    assert len(found["output"].encode()) == effects.OUTPUT_BYTES
    assert set(found["output"]) == {"é"}
    assert found["note"].startswith("the output had more than 65536 bytes")
    assert effects.perform(effect(run_dir), lambda: "no").record["output"] == found["output"]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema_version": 2}', b"\xff"])
def test_a_damaged_record_stops_it_and_stays(run_dir: Path, world: World, data: bytes) -> None:
    path = Path(effect(run_dir).path)
    path.parent.mkdir()
    path.write_bytes(data)

    with pytest.raises(BrokenRun, match="is not a valid effect record"):
        effects.perform(effect(run_dir), world.act, world.probe)

    assert (path.read_bytes(), world.done, Shelf().records(str(run_dir))) == (data, 0, {})


def test_an_intent_that_cannot_be_written_does_nothing(
    run_dir: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "replace", _refused)

    with pytest.raises(StoreError, match="No space left"):
        effects.perform(effect(run_dir), world.act, world.probe)

    assert (world.done, world.looks) == (0, 0)


def _refused(path: str, *_: Any, **__: Any) -> None:
    raise OSError(28, "No space left on device", path)


def test_left_temporary_files_of_the_same_effect_are_removed_and_of_others_not(
    run_dir: Path, world: World
) -> None:
    mine, other = Path(effect(run_dir).path), Path(effect(run_dir, "label").path)
    mine.parent.mkdir()
    left = [path.with_name(f".{path.name}.7.1.tmp") for path in (mine, other)]
    for path in left:
        path.touch()

    effects.perform(effect(run_dir), world.act)

    assert [path.exists() for path in left] == [False, True]


def test_whoever_is_second_waits_and_finds_the_receipt(run_dir: Path, world: World) -> None:
    which = effect(run_dir)
    held: list[bool] = []

    def act() -> str:
        held.append(effects.being_tried(which.path))
        return world.act()

    effects.perform(which, act)

    assert held == [True]
    assert not effects.being_tried(which.path)


def test_what_acts_inherits_the_lock_and_the_look_up_does_not(run_dir: Path) -> None:
    which = effect(run_dir)
    path = effects.lock_path(which.path)
    seen: dict[str, bool] = {}

    def look(name: str) -> Callable[[], None]:
        def note() -> None:
            for fd in os.listdir("/proc/self/fd"):
                try:
                    if os.readlink(f"/proc/self/fd/{fd}") == path:
                        seen[name] = os.get_inheritable(int(fd))
                except OSError:
                    continue

        return note

    effects.perform(which, look("act"), look("probe"))

    assert seen == {"act": True, "probe": False}


def test_a_shelf_shows_what_changed_and_reads_the_rest_once(
    run_dir: Path, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = Shelf()
    assert shelf.records(str(run_dir)) == {}
    effects.perform(effect(run_dir), world.act)
    effects.perform(effect(run_dir, "label", child_id="review-2"), world.act)
    reads: list[str] = []
    read = files.read

    def noted(path: str, **more: Any) -> bytes:
        reads.append(path)
        return read(path, **more)

    monkeypatch.setattr(files, "read", noted)

    assert len(shelf.of_child(str(run_dir), "review-1")) == 1
    assert len(shelf.of_child(str(run_dir), "review-2")) == 1
    assert len(reads) == 2
    path = effect(run_dir).path
    effects.write_settled(path, record_of(effect(run_dir)), "not_done")
    found = shelf.records(str(run_dir))[f"effects/{os.path.basename(path)}"]
    assert (found["state"], len(reads)) == ("not_done", 3)
