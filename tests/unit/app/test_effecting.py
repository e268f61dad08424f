"""A person's word on an effect: which one is meant, and that it is applied to what they were shown."""

import hashlib
import json
import os
from pathlib import Path
from typing import Any, cast

import pytest

from adw.app import effecting
from adw.app.effecting import Choice
from adw.app.session import Session
from adw.errors import UnknownName, UsageError
from adw.store import effects, files
from adw.store.effects import Effect
from adw.store.requests import Request

ID = "cc73faf1"


class Open:
    """What `settle` needs of an open run."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = str(run_dir)
        self.events: list[tuple[str, dict[str, Any], str]] = []

    def event(self, kind: str, slots: dict[str, Any], stage: str) -> None:
        self.events.append((kind, slots, stage))


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    path = tmp_path / ID
    path.mkdir()
    return path


def effect(run_dir: Path, number: int = 1, key: str = "deploy", phase: str = "ship") -> Effect:
    return Effect(str(run_dir), phase, number, f"{phase}-{number}", key)


def begun(run_dir: Path, number: int = 1, **more: Any) -> Effect:
    """An effect that was begun and whose end nobody knows."""
    which = effect(run_dir, number, **more)
    with pytest.raises(ConnectionError):
        effects.perform(which, _cut)
    return which


def _cut() -> str:
    message = "reset by peer"
    raise ConnectionError(message)


def state_of(which: Effect) -> tuple[str, str | None]:
    record = json.loads(Path(which.path).read_bytes())
    return record["state"], record["settled_by"]


def settle(run_dir: Path, fields: dict[str, Any], *, told: bool = False) -> Open:
    opened = Open(run_dir)
    request = Request("000001-settle.json", "settle", fields, 0)
    effecting.settle(cast("Session", opened), request, told=told)
    return opened


def test_the_only_open_one_is_meant(run_dir: Path) -> None:
    which = begun(run_dir, 2)
    effects.perform(effect(run_dir, 1), lambda: "")

    fields = effecting.settlement(str(run_dir), Choice("deploy", "done"))

    assert fields == {
        "effect": os.path.relpath(which.path, run_dir),
        "state": "done",
        "seen_sha256": hashlib.sha256(Path(which.path).read_bytes()).hexdigest(),
    }


def test_several_are_told_apart_by_phase_and_round(run_dir: Path) -> None:
    begun(run_dir, 1)
    second = begun(run_dir, 2)
    other = begun(run_dir, 1, phase="tell")

    with pytest.raises(
        UsageError, match="3 effects have the key `deploy`, one is expected"
    ) as told:
        effecting.settlement(str(run_dir), Choice("deploy", "done"))
    assert told.value.line("hint") == (
        "say which: --phase ship --round 1; --phase ship --round 2; --phase tell --round 1"
    )
    by_phase = effecting.settlement(str(run_dir), Choice("deploy", "done", "tell"))
    by_both = effecting.settlement(str(run_dir), Choice("deploy", "done", "ship", 2))
    assert by_phase["effect"] == os.path.relpath(other.path, run_dir)
    assert by_both["effect"] == os.path.relpath(second.path, run_dir)


def test_what_was_seen_to_happen_cannot_be_settled_and_an_unknown_key_has_a_hint(
    run_dir: Path,
) -> None:
    effects.perform(effect(run_dir), lambda: "")

    with pytest.raises(UsageError, match="`deploy` is done: there is nothing to settle"):
        effecting.settlement(str(run_dir), Choice("deploy", "not_done"))
    with pytest.raises(UnknownName, match="did you mean `deploy`"):
        effecting.settlement(str(run_dir), Choice("deplyo", "done"))


def test_a_persons_own_word_may_be_taken_back(run_dir: Path) -> None:
    which = begun(run_dir)
    for state in ("done", "not_done", "done"):
        settle(run_dir, effecting.settlement(str(run_dir), Choice("deploy", state)))
        assert state_of(which) == (state, "person")


def test_one_that_is_being_done_is_not_settled(run_dir: Path) -> None:
    which = begun(run_dir)
    fields = effecting.settlement(str(run_dir), Choice("deploy", "done"))

    with effects.locked(which.path):
        assert settle(run_dir, fields).events == []
        with pytest.raises(UsageError, match="`deploy` is being done just now"):
            effecting.settlement(str(run_dir), Choice("deploy", "done"))

    assert state_of(which) == ("intent", None)


def test_it_is_applied_and_told_once_though_a_crash_comes_in_between(run_dir: Path) -> None:
    which = begun(run_dir)
    fields = effecting.settlement(str(run_dir), Choice("deploy", "not_done"))

    first = settle(run_dir, fields)
    after = Path(which.path).read_bytes()
    again = settle(run_dir, fields)
    told = settle(run_dir, fields, told=True)

    event = ("effect_settled", {"key": "deploy", "round": 1, "state": "not_done"}, "ship")
    assert (first.events, again.events, told.events) == ([event], [event], [])
    assert Path(which.path).read_bytes() == after


def test_a_word_that_came_too_late_changes_nothing(run_dir: Path) -> None:
    """The next attempt has looked it up and done it meanwhile."""
    which = begun(run_dir)
    choice = Choice("deploy", "not_done")
    fields = effecting.settlement(str(run_dir), choice)
    effects.perform(which, lambda: "", lambda: None)

    assert settle(run_dir, fields).events == []

    assert state_of(which) == ("done", None)
    with pytest.raises(UsageError, match="changed meanwhile and is not settled"):
        effecting.words_on(str(run_dir), fields, choice)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"effect": "effects/../adw_state.json", "state": "done", "seen_sha256": ""},
        {"effect": f"effects/{'0' * 64}.json", "state": "done", "seen_sha256": ""},
        {"effect": f"effects/{'0' * 64}.json", "state": "unknown", "seen_sha256": ""},
        {"effect": 5, "state": "done"},
    ],
)
def test_a_request_that_names_no_effect_does_nothing(run_dir: Path, fields: dict[str, Any]) -> None:
    assert settle(run_dir, fields).events == []
    assert not (run_dir / "effects").exists()


def test_a_damaged_record_is_left_as_it_is(run_dir: Path) -> None:
    which = begun(run_dir)
    fields = effecting.settlement(str(run_dir), Choice("deploy", "done"))
    files.replace(which.path, b"{")

    assert settle(run_dir, fields).events == []

    assert Path(which.path).read_bytes() == b"{"
    assert effecting.listed(str(run_dir)) == []
    assert effecting.damaged(str(run_dir)) == [which.path]


def test_a_run_without_effects_has_none_that_are_damaged(run_dir: Path) -> None:
    assert effecting.damaged(str(run_dir)) == []
    begun(run_dir)
    assert effecting.damaged(str(run_dir)) == []
