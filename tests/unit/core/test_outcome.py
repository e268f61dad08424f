"""What an attempt's exit record and claim amount to."""

import pytest

from adw.core.interfaces import ExitRecord
from adw.core.outcome import Verdict, judge, settable
from adw.model.result import Result, parse_result
from adw.model.state import ADWStateData

AT = "2026-01-01T00:00:00Z"


def _record(reason: str | None, code: int | None = None, signal: int | None = None) -> ExitRecord:
    return ExitRecord(reason=reason, started_at=AT, ended_at=AT, exit_code=code, signal=signal)


@pytest.mark.parametrize(
    ("record", "result", "expected"),
    [
        (_record(None, 0), None, Verdict(success=True)),
        (_record(None, 0), "bad", Verdict(False, "result_invalid", "result.json: bad")),
        (_record("exit", 1), None, Verdict(False, "exit", "exit code 1")),
        (_record("exit", 1), "bad", Verdict(False, "exit", "exit code 1")),
        (_record("signal", None, 11), None, Verdict(False, "signal", "signal 11")),
        (_record("timeout"), None, Verdict(False, "timeout", "timeout")),
        (_record("stopped"), None, Verdict(False, "interrupted", None)),
        (_record("exit", 75), None, Verdict(False, "exit", "exit code 75")),
        (_record("exit", 77), None, Verdict(False, "exit", "exit code 77")),
        (
            _record("exit", 75),
            Result(retry_after_s=30.0, summary="quota"),
            Verdict(False, "rate_limited", "quota", 30.0),
        ),
        (
            _record("exit", 77),
            parse_result(b'{"blocker": {"question": "Which key?"}}'),
            Verdict(False, "blocked", "Which key?"),
        ),
    ],
)
def test_each_record_has_one_verdict(
    record: ExitRecord, result: Result | str | None, expected: Verdict
) -> None:
    assert judge(record, result, "interrupted") == expected


def test_whoever_asked_chooses_what_a_stop_is_called() -> None:
    assert judge(_record("stopped"), None, "cancelled").reason == "cancelled"


def test_a_result_sets_only_what_is_still_open_case_A5() -> None:
    fresh = ADWStateData(adw_id="cc73faf1", branch_name="bug-47-cc73faf1-x")
    named = fresh.changed(issue_class="bug")
    both = parse_result(b'{"state": {"plan_file": "specs/p.md", "issue_class": "feature"}}')
    branch = parse_result(b'{"state": {"branch_name": "other"}}')
    outside = parse_result(b'{"state": {"plan_file": "../p.md"}}')

    assert settable(both, fresh) == {"plan_file": "specs/p.md", "issue_class": "feature"}
    assert settable(both, named) == "`issue_class` is `bug` already"
    assert settable(branch, fresh) == "`branch_name` cannot be set: the branch exists"
    assert settable(outside, fresh) == "`plan_file` must lie inside the worktree"
    assert settable(Result(), fresh) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"prose",
        b"[]",
        b'{"plan": 1}',
        b'{"state": {"adw_id": "x"}}',
        b'{"retry_after_s": -1}',
        b'{"retry_after_s": 1e400}',
        b'{"retry_after_s": NaN}',
        b'{"summary": "a", "summary": "b"}',
    ],
)
def test_case_H5_a_result_that_is_not_one_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="."):
        parse_result(data)
