"""The state document: what is read, what is refused, and the one form that is written."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adw.model.base import DuplicateKey, parse_json
from adw.model.state import (
    FAILURE,
    FINAL,
    FREE,
    HELD,
    MAX_ENTRIES,
    ADWStateData,
    HistoryEntry,
    encode_head,
    encode_state,
    parse_state,
)

GIVEN: dict[str, Any] = {
    "adw_id": "cc73faf1",
    "issue_number": 47,
    "issue_class": "feature",
    "branch_name": "feat-47-cc73faf1-oauth2",
    "plan_file": "specs/issue-47-adw-cc73faf1-oauth2.md",
    "worktree_path": "trees/cc73faf1",
    "backend_port": 9103,
    "frontend_port": 9203,
    "model_set": "base",
    "all_adws": ["cc73faf1"],
    "phase_history": [
        {"phase": "plan", "success": True},
        {"phase": "build", "success": False, "attempt": 1},
    ],
}
OTHER: dict[str, Any] = {
    **GIVEN,
    "adw_id": "abc-123",
    "issue_number": "47",
    "issue_class": "/chore",
    "frontend_port": 5173,
    "all_adws": ["abc-123"],
    "phase_history": [{"phase": "plan", "status": "ok"}, {"phase": "build", "status": "failed"}],
}

CANONICAL = b"""{
  "schema_version": 1,
  "adw_id": "cc73faf1",
  "issue_number": 47,
  "issue_class": "feature",
  "branch_name": "feat-47-cc73faf1-oauth2",
  "plan_file": "specs/issue-47-adw-cc73faf1-oauth2.md",
  "worktree_path": "trees/cc73faf1",
  "backend_port": 9103,
  "frontend_port": 9203,
  "model_set": "base",
  "all_adws": [
    "cc73faf1"
  ],
  "workflow": null,
  "updated_at": null,
  "phase_history": [
    {"phase": "plan", "attempt": 0, "success": true, "reason": null, "started_at": null, \
"ended_at": null, "commit": null},
    {"phase": "build", "attempt": 1, "success": false, "reason": null, "started_at": null, \
"ended_at": null, "commit": null}
  ]
}
"""


def encode(state: ADWStateData) -> bytes:
    return encode_state(encode_head(state), [entry.encode() for entry in state.phase_history])


def parsed(data: object) -> ADWStateData:
    return parse_state(json.dumps(data).encode())


def with_entry(**fields: object) -> dict[str, object]:
    return {**GIVEN, "phase_history": [{"phase": "build", "success": False, **fields}]}


def test_st_2_it_holds_identity_correlation_and_history_only() -> None:
    assert set(ADWStateData.model_fields) == {*GIVEN, "schema_version", "workflow", "updated_at"}


def test_st_5_the_given_form_is_read_and_written_canonically() -> None:
    assert encode(parsed(GIVEN)) == CANONICAL


def test_st_5_the_other_writers_form_is_read() -> None:
    state = parsed(OTHER)

    assert state.adw_id == "abc-123"
    assert state.issue_number == 47
    assert state.issue_class == "chore"
    assert state.frontend_port == 5173
    assert [entry.success for entry in state.phase_history] == [True, False]
    assert b'"status"' not in encode(state)
    assert parse_state(encode(state)) == state


def test_a_state_without_any_entry_is_written_on_one_line_less() -> None:
    data = encode(ADWStateData(adw_id="cc73faf1"))

    assert data.endswith(b'  "phase_history": []\n}\n')
    assert parse_state(data) == ADWStateData(adw_id="cc73faf1")


def test_fields_of_an_entry_that_do_not_apply_are_left_out() -> None:
    entry = HistoryEntry(
        phase="fix",
        attempt=2,
        success=False,
        reason="rate_limited",
        not_before="2026-11-30T17:00:00Z",
        signature="0123456789abcdef",
        repairs="test",
    )

    assert entry.encode() == (
        b'{"phase": "fix", "attempt": 2, "success": false, "reason": "rate_limited", '
        b'"started_at": null, "ended_at": null, "commit": null, '
        b'"not_before": "2026-11-30T17:00:00Z", "signature": "0123456789abcdef", '
        b'"repairs": "test"}'
    )


def test_an_entry_takes_about_two_hundred_bytes() -> None:
    entry = HistoryEntry(
        phase="build",
        attempt=12,
        success=True,
        started_at="2026-11-30T17:00:00.123456Z",
        ended_at="2026-11-30T17:04:10.123456Z",
        commit="0" * 40,
    )

    assert 150 < len(entry.encode()) < 250


REFUSED: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"state",
    "a list": b"[]",
    "a byte order mark": b"\xef\xbb\xbf" + CANONICAL,
    "not UTF-8": CANONICAL.replace(b"oauth2", b"oauth\xff"),
    "a byte more": CANONICAL + b"}",
    "two documents": CANONICAL + CANONICAL,
    "unknown key": json.dumps({**GIVEN, "plan": "# Plan"}).encode(),
    "unknown key in an entry": json.dumps(with_entry(log="…")).encode(),
    "duplicate key": CANONICAL.replace(b'  "issue_number"', b'  "adw_id": "x",\n  "issue_number"'),
    "duplicate key in an entry": CANONICAL.replace(b'"attempt": 1', b'"attempt": 1, "attempt": 1'),
    "newer version": json.dumps({**GIVEN, "schema_version": 2}).encode(),
    "version true": json.dumps({**GIVEN, "schema_version": True}).encode(),
    "version 1.0": json.dumps({**GIVEN, "schema_version": 1.0}).encode(),
    "version as text": json.dumps({**GIVEN, "schema_version": "1"}).encode(),
    "NaN": json.dumps({**GIVEN, "issue_number": float("nan")}).encode(),
    "Infinity": json.dumps({**GIVEN, "issue_number": float("inf")}).encode(),
    "overflow": CANONICAL.replace(b": 47,", b": 1e999,"),
    "float for an integer": CANONICAL.replace(b": 47,", b": 47.0,"),
    "bool for an integer": CANONICAL.replace(b": 47,", b": true,"),
    "5,000 digits": CANONICAL.replace(b": 47,", b": " + b"4" * 5000 + b","),
    "5,000 digits as text": CANONICAL.replace(b": 47,", b': "' + b"4" * 5000 + b'",'),
    "issue 0": json.dumps({**GIVEN, "issue_number": 0}).encode(),
    "negative issue": json.dumps({**GIVEN, "issue_number": "-47"}).encode(),
    "Arabic digits": json.dumps({**GIVEN, "issue_number": "٤٧"}).encode(),
    "text for a bool": json.dumps(with_entry(success="false")).encode(),
    "number for a bool": json.dumps(with_entry(success=0)).encode(),
    "both forms of an outcome": json.dumps(with_entry(status="ok")).encode(),
    "unknown status": json.dumps(
        {**GIVEN, "phase_history": [{"phase": "build", "status": "done"}]}
    ).encode(),
    "unknown reason": json.dumps(with_entry(reason="bad luck")).encode(),
    "success with a failure kind": json.dumps(with_entry(success=True, reason="exit")).encode(),
    "skip that is no success": json.dumps(with_entry(reason="skipped")).encode(),
    "negative attempt": json.dumps(with_entry(attempt=-1)).encode(),
    "short commit": json.dumps(with_entry(commit="abc1234")).encode(),
    "local time": json.dumps(with_entry(ended_at="2026-11-30T17:00:00+05:45")).encode(),
    "phase with a slash": json.dumps(with_entry(phase="../build")).encode(),
    "phase with a newline": json.dumps(with_entry(phase="build\n")).encode(),
    "id with a slash": json.dumps({**GIVEN, "adw_id": "../../etc"}).encode(),
    "id with a newline": json.dumps({**GIVEN, "adw_id": "cc73faf1\n"}).encode(),
    "id in capitals": json.dumps({**GIVEN, "adw_id": "CC73FAF1"}).encode(),
    "short id": json.dumps({**GIVEN, "adw_id": "cc73f"}).encode(),
    "no id": json.dumps({k: v for k, v in GIVEN.items() if k != "adw_id"}).encode(),
    "unknown class": json.dumps({**GIVEN, "issue_class": "epic"}).encode(),
    "class with two slashes": json.dumps({**GIVEN, "issue_class": "//bug"}).encode(),
    "port 0": json.dumps({**GIVEN, "backend_port": 0}).encode(),
    "port 65,536": json.dumps({**GIVEN, "backend_port": 65536}).encode(),
    "list for text": json.dumps({**GIVEN, "branch_name": ["main"]}).encode(),
    "null for a list": json.dumps({**GIVEN, "all_adws": None}).encode(),
    "same id twice": json.dumps({**GIVEN, "all_adws": ["cc73faf1", "cc73faf1"]}).encode(),
    "workflow without digest": json.dumps({**GIVEN, "workflow": "sdlc"}).encode(),
    "content as branch name": json.dumps({**GIVEN, "branch_name": "b" * 256}).encode(),
    "content as plan file": json.dumps({**GIVEN, "plan_file": "# Plan\n\nDo it."}).encode(),
    "a lone surrogate": CANONICAL.replace(b"oauth2", rb"\ud800"),
    "a NUL": CANONICAL.replace(b"oauth2", rb"\u0000"),
    "deep nesting": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000,
}


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.hostile("H30", "H31", "H32", "H33", "H35", "H36")
def test_it_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 (the kinds differ; the point is that all are refused)
        parse_state(data)


@pytest.mark.hostile("H35")
def test_st_4_the_reason_names_the_unknown_key() -> None:
    with pytest.raises(ValueError, match=r"plan_text\s+Extra inputs are not permitted"):
        parsed({**GIVEN, "plan_text": "# Plan"})


@pytest.mark.hostile("H30")
def test_a_duplicate_key_is_named() -> None:
    with pytest.raises(DuplicateKey, match="the key `adw_id` occurs twice"):
        parse_state(REFUSED["duplicate key"])


@pytest.mark.hostile("H36")
def test_st_21_a_missing_version_is_the_given_form_and_a_newer_one_is_refused() -> None:
    assert parsed(GIVEN).schema_version == 1
    with pytest.raises(ValueError, match="schema_version"):
        parsed({**GIVEN, "schema_version": 2})


def test_b1_cut_at_every_length_it_is_refused_or_equal() -> None:
    whole = parse_state(CANONICAL)
    equal = []
    for length in range(len(CANONICAL)):
        try:
            state = parse_state(CANONICAL[:length])
        except ValueError:
            continue
        assert state == whole
        equal.append(length)

    assert equal == [len(CANONICAL) - 1]  # without the last newline


def test_a_flipped_bit_never_gives_another_kind_of_error() -> None:
    for position in range(len(CANONICAL)):
        data = bytearray(CANONICAL)
        data[position] ^= 0x10
        try:
            state = parse_state(bytes(data))
        except ValueError:
            continue
        assert parse_state(encode(state)) == state


def test_st_4_a_field_or_type_that_the_schema_does_not_know_cannot_be_set() -> None:
    state = parsed(GIVEN)

    with pytest.raises(ValueError, match="plan_text"):
        state.changed(plan_text="# Plan")
    with pytest.raises(ValueError, match="issue_class"):
        state.changed(issue_class=47)
    with pytest.raises(ValueError, match="frozen"):
        state.plan_file = "specs/other.md"  # type: ignore[misc]


def test_a_changed_field_leaves_the_rest_and_the_original_alone() -> None:
    state = parsed(GIVEN)

    changed = state.changed(plan_file="specs/other.md")

    assert changed.plan_file == "specs/other.md"
    assert changed.phase_history == state.phase_history
    assert state == parsed(GIVEN)


def test_st_9_appending_keeps_what_was_there() -> None:
    state = parsed(GIVEN)
    entry = HistoryEntry(phase="test", attempt=1, success=True)

    longer = state.appended([entry])

    assert longer.phase_history == [*state.phase_history, entry]
    assert state == parsed(GIVEN)


def test_st_3_no_string_can_hold_content() -> None:
    limit = 4096
    for name in ("branch_name", "plan_file", "worktree_path", "workflow", "updated_at"):
        for text in ("x" * (limit + 1), "two\nlines"):
            with pytest.raises(ValueError, match=name):
                parsed({**GIVEN, name: text})


def test_st_17_the_same_run_is_not_linked_twice() -> None:
    with pytest.raises(ValueError, match="`all_adws` names an ID twice"):
        parsed({**GIVEN, "all_adws": ["cc73faf1", "d0a4b7e9", "cc73faf1"]})


def test_more_than_ten_thousand_entries_are_refused() -> None:
    entry = {"phase": "build", "success": True}

    assert len(parsed({**GIVEN, "phase_history": [entry] * MAX_ENTRIES}).phase_history) == 10_000
    with pytest.raises(ValueError, match="phase_history"):
        parsed({**GIVEN, "phase_history": [entry] * (MAX_ENTRIES + 1)})


def test_every_failure_kind_is_of_exactly_one_sort() -> None:
    sorts = [FAILURE, FREE, FINAL, HELD, {"invalidated", "skipped"}]
    field = HistoryEntry.model_json_schema()["properties"]["reason"]["anyOf"][0]["enum"]

    assert sum(len(sort) for sort in sorts) == len(field)
    assert set().union(*sorts) == set(field)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
@pytest.mark.hostile("H31")
def test_numbers_that_json_does_not_have_are_refused_wherever_they_stand(text: str) -> None:
    with pytest.raises(ValueError, match=f"`{text}` is not a JSON number"):
        parse_json(f'{{"usage": {{"cost": [{text}]}}}}'.encode())


def test_numbers_stay_numbers_and_text_stays_text() -> None:
    assert parse_json(b'{"a": [1, 1.5, "1", true, null]}') == {"a": [1, 1.5, "1", True, None]}


ids = st.from_regex(r"\A[a-z0-9][a-z0-9-]{5,20}\Z")
texts = st.text(
    st.characters(min_codepoint=0x20, exclude_categories=["Cs"]), min_size=1, max_size=40
)
instants = st.datetimes().map(lambda when: when.isoformat(timespec="microseconds") + "Z")
commits = st.text("0123456789abcdef", min_size=40, max_size=40)
names = texts.filter(lambda text: "/" not in text)
entries = st.one_of(
    st.builds(
        HistoryEntry,
        phase=names,
        attempt=st.integers(0, 10_000),
        success=st.just(value=False),
        reason=st.sampled_from([None, *sorted(FAILURE | FREE | FINAL | HELD)]),
        started_at=st.none() | instants,
        ended_at=st.none() | instants,
        commit=st.none() | commits,
        not_before=st.none() | instants,
        signature=st.none() | st.text("0123456789abcdef", min_size=16, max_size=16),
        repairs=st.none() | names,
    ),
    st.builds(
        HistoryEntry,
        phase=names,
        success=st.just(value=True),
        reason=st.sampled_from([None, "skipped"]),
    ),
)
states = st.builds(
    ADWStateData,
    adw_id=ids,
    issue_number=st.none() | st.integers(1, 10**12),
    issue_class=st.sampled_from([None, "chore", "bug", "feature"]),
    branch_name=st.none() | texts,
    plan_file=st.none() | texts,
    worktree_path=st.none() | texts,
    backend_port=st.none() | st.integers(1, 65535),
    frontend_port=st.none() | st.integers(1, 65535),
    model_set=st.sampled_from(["base", "heavy"]),
    all_adws=st.lists(ids, unique=True, max_size=4),
    workflow=st.none() | st.just("sdlc@" + "0" * 64),
    updated_at=st.none() | instants,
    phase_history=st.lists(entries, max_size=6),
)


@pytest.mark.sweep
@settings(max_examples=200, deadline=None)
@given(states)
def test_what_is_written_is_read_back_equal_and_written_the_same(state: ADWStateData) -> None:
    data = encode(state)

    assert parse_state(data) == state
    assert encode(parse_state(data)) == data
    assert json.loads(data) == state.model_dump(exclude_none=False) | {
        "phase_history": [json.loads(entry.encode()) for entry in state.phase_history]
    }
