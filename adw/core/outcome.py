"""From what was observed and claimed to the outcome of an attempt: claims are never facts."""

from dataclasses import dataclass
from typing import Any, Final

from adw.core.interfaces import ExitRecord
from adw.model.result import Result
from adw.model.state import HistoryEntry

TRY_LATER: Final = 75  # EX_TEMPFAIL of sysexits.h
BLOCKED: Final = 77  # EX_NOPERM of sysexits.h
DETAIL_CHARS: Final = 500


@dataclass(frozen=True, slots=True)
class Verdict:
    """Success or a failure kind, and what goes with it."""

    success: bool
    reason: str | None = None
    detail: str | None = None
    """One line for people."""
    retry_after_s: float | None = None


def one_line(text: str) -> str:
    """Strangers' words as one line of bounded length that steers no terminal."""
    shown = "".join(
        c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:DETAIL_CHARS]
    )
    return shown if len(text) <= DETAIL_CHARS else shown + "…"


def judge(record: ExitRecord, result: Result | str | None, stopped_as: str) -> Verdict:
    """Judge an exit record.

    Args:
        record: What the supervisor saw.
        result: The parsed result.json; a text says why it is not valid; None where there is none.
        stopped_as: `cancelled` or `interrupted`, for an attempt that somebody asked to end.
    """
    if record.reason == "stopped":
        return Verdict(success=False, reason=stopped_as, detail=record.error)
    if record.reason is None:
        if isinstance(result, str):
            return Verdict(success=False, reason="result_invalid", detail=f"result.json: {result}")
        return Verdict(success=True)
    if record.reason == "exit" and isinstance(result, Result):
        if record.exit_code == TRY_LATER and result.retry_after_s is not None:
            return Verdict(
                success=False,
                reason="rate_limited",
                detail=result.summary,
                retry_after_s=result.retry_after_s,
            )
        if record.exit_code == BLOCKED and result.blocker is not None:
            return Verdict(
                success=False, reason="blocked", detail=result.blocker.question.splitlines()[0]
            )
    detail = told_by(record)
    if record.exit_code in {TRY_LATER, BLOCKED} and isinstance(result, str):
        detail = f"{detail}, and result.json: {result}"
    return Verdict(success=False, reason=record.reason, detail=detail)


def told_by(record: ExitRecord) -> str | None:
    """What an exit record alone says of a failure, in few words; None where it says nothing."""
    if record.error or record.reason in {None, "stopped"}:
        return record.error
    if record.signal is not None:
        return f"signal {record.signal}"
    if record.exit_code is not None:
        return f"exit code {record.exit_code}"
    return record.reason


def outcome_word(entry: HistoryEntry) -> str:
    """What a `when` calls the outcome of a phase by its latest entry: done, skipped or excused."""
    if not entry.success:
        return "excused"
    return "skipped" if entry.reason == "skipped" else "done"


def settable(result: Result, state: Any) -> dict[str, Any] | str:
    """The state fields that a result sets, or why it may not set them.

    Args:
        result: A valid result.
        state: The state document; its branch exists whenever a phase runs.
    """
    if result.state is None:
        return {}
    fields = result.state.model_dump(exclude_none=True)
    if "branch_name" in fields and fields["branch_name"] != state.branch_name:
        return "`branch_name` cannot be set: the branch exists"
    if "issue_class" in fields and state.issue_class not in {None, fields["issue_class"]}:
        return f"`issue_class` is `{state.issue_class}` already"
    plan = fields.get("plan_file", "")
    if plan.startswith("/") or ".." in plan.split("/") or "\0" in plan:
        return "`plan_file` must lie inside the worktree"
    try:
        state.changed(**fields)
    except ValueError:
        return f"the state file does not take this: {', '.join(f'`{name}`' for name in fields)}"
    return fields
