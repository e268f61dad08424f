"""What a phase program reads and writes."""

import json
from pathlib import Path

import pytest

from adw.errors import StoreError, UsageError
from adw.phases.api import Context, write_result
from adw.phases.commit import message

ENV = {
    "ADW_ID": "cc73faf1",
    "ADW_PHASE": "commit",
    "ADW_ATTEMPT": "2",
    "ADW_CHILD": "commit-2",
    "ADW_STATE": "/r/adw_state.json",
    "ADW_STATE_ROOT": "/r",
    "ADW_TASK": "/r/children/commit-2/TASK.md",
    "ADW_RESPONSE": "/r/children/commit-2/RESPONSE.md",
    "ADW_RESULT": "/r/children/commit-2/result.json",
    "ADW_ARTIFACTS": "/r/children/commit-2/artifacts",
    "ADW_INPUTS": '{"plan": "specs/p.md"}',
    "ADW_WORKTREE": "/w",
    "ADW_BRANCH": "feat-47-cc73faf1-x",
    "ADW_ISSUE_NUMBER": "47",
    "ADW_ISSUE_CLASS": "feature",
    "ADW_PLAN_FILE": "",
    "ADW_BACKEND_PORT": "9171",
    "ADW_FRONTEND_PORT": "9271",
    "ADW_MODEL_SET": "base",
}


def test_the_environment_is_read_with_its_types() -> None:
    context = Context.from_env(ENV)

    assert (context.attempt, context.issue_number, context.backend_port) == (2, 47, 9171)
    assert context.plan_file is None
    assert context.inputs == {"plan": "specs/p.md"}


def test_what_a_run_does_not_have_is_none() -> None:
    bare = {**ENV, "ADW_ISSUE_NUMBER": "", "ADW_BACKEND_PORT": "", "ADW_INPUTS": ""}

    context = Context.from_env(bare)

    assert (context.issue_number, context.backend_port, context.inputs) == (None, None, {})


@pytest.mark.parametrize(
    "change",
    [{"ADW_ATTEMPT": "x"}, {"ADW_INPUTS": "["}, {"ADW_INPUTS": "[]"}, {"ADW_ISSUE_NUMBER": "-"}],
)
def test_a_malformed_environment_is_told(change: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="not started as a phase of adw"):
        Context.from_env({**ENV, **change})


def test_an_absent_environment_is_told() -> None:
    with pytest.raises(UsageError, match="'ADW_ID'"):
        Context.from_env({})


def test_a_result_holds_what_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "result.json"
    monkeypatch.setenv("ADW_RESULT", str(target))

    write_result({"plan_file": "specs/p.md"}, "planned", {"n": 1})
    assert json.loads(target.read_bytes()) == {
        "state": {"plan_file": "specs/p.md"},
        "summary": "planned",
        "data": {"n": 1},
    }
    write_result(retry_after_s=5, blocker={"question": "?"}, usage={"tokens": 1})

    assert sorted(json.loads(target.read_bytes())) == ["blocker", "retry_after_s", "usage"]


def test_a_result_that_is_no_json_leaves_the_old_one(tmp_path: Path) -> None:
    target = str(tmp_path / "result.json")
    write_result(summary="old", path=target)

    with pytest.raises(ValueError, match="Out of range float"):
        write_result(data={"x": float("nan")}, path=target)

    assert json.loads(Path(target).read_bytes()) == {"summary": "old"}


def test_a_result_that_cannot_be_written_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no/result.json"):
        write_result(summary="x", path=str(tmp_path / "no/result.json"))


@pytest.mark.parametrize(
    ("title", "subject"),
    [
        ("Log in", "Log in"),
        ("  a\t b\r\nc ", "a b c"),
        ("x" * 100_000, "x" * 72),
        (("y" * 71) + " z", "y" * 71),
        ("nul\0 esc\x1b[31m", "nul esc [31m"),
        ("", "Work of run cc73faf1"),
        ("\u200b\u2028", "Work of run cc73faf1"),
        ("Grüße 世界", "Grüße 世界"),
        (None, "Work of run cc73faf1"),
    ],
)
@pytest.mark.hostile("H3")
def test_H3_the_subject_is_one_printable_line(title: str | None, subject: str) -> None:
    run = {"issue": {"title": title}}

    lines = message(Context.from_env(ENV), run, "cc73faf1/commit/1").decode().split("\n")

    assert lines == [
        subject,
        "",
        "ADW-Effect: cc73faf1/commit/1",
        "ADW-Run: cc73faf1",
        "Issue: #47",
        "",
    ]
