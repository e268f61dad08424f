"""`result.json`: what a phase says of itself; a claim, checked and size-capped before use."""

import contextlib
from typing import Annotated, Any, Final

from pydantic import Field, StringConstraints

from adw.model.base import Document, parse_json
from adw.model.state import IssueClass, Short

LIMIT: Final = 1 << 20  # bytes


class ResultState(Document):
    """State fields that a phase may set; `branch_name` only before the branch exists."""

    plan_file: Annotated[str, StringConstraints(min_length=1, max_length=1024)] | None = None
    """Path of the plan, relative to the worktree."""
    issue_class: IssueClass | None = None
    """Only while the state has none."""
    branch_name: Short | None = None
    """Only before the branch exists."""


class Blocker(Document):
    """What a person must do; owed with exit code 77."""

    question: Annotated[str, StringConstraints(min_length=1, max_length=4000)]
    """The exact missing condition or question."""
    who: Annotated[str, StringConstraints(max_length=255)] | None = None
    """Who can resolve it."""


class Result(Document):
    """The whole document; every key is optional."""

    state: ResultState | None = None
    """State fields to set with the entry of this attempt."""
    summary: Annotated[str, StringConstraints(max_length=4000)] | None = None
    """One paragraph for people."""
    data: dict[str, Any] | None = None
    """Structured result; never goes into the state."""
    blocker: Blocker | None = None
    """With exit code 77: what is needed."""
    retry_after_s: Annotated[float, Field(ge=0, le=30 * 86400, allow_inf_nan=False)] | None = None
    """With exit code 75: seconds until another try makes sense."""
    usage: dict[str, Any] | None = None
    """Tokens, cost, turns; unknown is absent, never zero."""


def parse_result(data: bytes) -> Result:
    """Read a result; ValueError says what is wrong."""
    found = parse_json(data)
    if isinstance(found, dict) and isinstance(found.get("retry_after_s"), int):
        # An int beyond floats is beyond the limit too: it is left for the schema to refuse.
        with contextlib.suppress(OverflowError):
            found["retry_after_s"] = float(found["retry_after_s"])
    return Result.model_validate(found)
