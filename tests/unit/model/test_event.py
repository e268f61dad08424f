"""Events: one shape a kind, keys and value types alike."""

from typing import Any

import pytest

from adw.core.recovery import ACTIONS
from adw.model.event import COMMON, KINDS, SCHEMA_VERSION, event_fault, make_event
from adw.model.event_schema import CHOICES, MEANING, SLOTS

NOW = "2026-03-01T12:00:00.000000Z"
GOOD: dict[str, Any] = {
    "str": "x",
    "str|null": None,
    "int": 1,
    "int|null": None,
    "bool": False,
    "object": {},
    "list[str]": ["x"],
}
"""A value of each type."""
OTHER = {
    "str": None,
    "str|null": 1,
    "int": True,
    "int|null": True,
    "bool": 1,
    "object": [],
    "list[str]": [1],
}
"""A value that each type does not take."""


def event_of(kind: str) -> dict[str, Any]:
    """A good event."""
    slots = {name: GOOD[word] for name, word in KINDS[kind].items()}
    common = {"entries": 0, "stage": "plan", "child_id": "plan-1"}
    return make_event(kind, 7, NOW, common, slots)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_made_has_the_slots_of_its_kind_FS_13(kind: str) -> None:
    event = event_of(kind)

    assert list(event) == [*COMMON, *KINDS[kind]]
    assert event_fault(event) is None


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_or_a_new_key_is_a_fault_FS_13(kind: str) -> None:
    event = event_of(kind)

    assert event_fault({**event, "details": {}}) == f"wrong keys for `{kind}`: details"
    for name in event.keys() - {"event"}:
        rest = {key: value for key, value in event.items() if key != name}
        assert event_fault(rest) == f"wrong keys for `{kind}`: {name}"


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_another_type_is_a_fault_FS_13(kind: str) -> None:
    event = event_of(kind)
    for name, word in (COMMON | KINDS[kind]).items():
        if name != "event":
            expected = f"wrong type for `{name}` of `{kind}`: {word} is expected"
            assert event_fault({**event, name: OTHER[word]}) == expected


def test_a_promotion_has_its_canonical_slots_first_class_FS_13() -> None:
    slots = {"schema_version", "ts", "event", "stage", "child_id"}
    slots |= {"logical_name", "artifact_path", "producer"}

    assert slots <= set(event_of("artifact_promoted"))


def test_an_event_of_another_version_is_a_fault_FS_14() -> None:
    newer = {**event_of("run_paused"), "schema_version": SCHEMA_VERSION + 1}

    assert event_fault(newer) == "schema version 2 is found, 1 is expected"


@pytest.mark.parametrize("line", [None, [], "x", 3])
def test_a_line_that_is_no_object_is_a_fault(line: object) -> None:
    assert event_fault(line) == "not an object"


@pytest.mark.parametrize("kind", [None, "dance", ["run_paused"], {}])
def test_the_kinds_are_a_closed_union(kind: object) -> None:
    event = {**event_of("run_paused"), "event": kind}

    assert event_fault(event) == f"unknown event `{kind}`"


@pytest.mark.parametrize(
    "slots",
    [
        {"closing": "failed"},
        {"reason": None, "closing": "failed"},
        {"closing": "failed", "reason": 3},
        {"closing": "failed", "reason": None, "detail": None},
    ],
    ids=["missing", "order", "type", "more"],
)
def test_whoever_makes_another_shape_has_a_bug(slots: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        make_event("run_closed", 1, NOW, {"entries": 0}, slots)


def test_the_closed_lists_of_the_schema_are_those_of_the_code_FS_21() -> None:
    assert CHOICES["recovery_decided", "action"] == ACTIONS
    assert set(MEANING) == set(KINDS)
    assert set(SLOTS) == {slot for kind in (COMMON, *KINDS.values()) for slot in kind}
