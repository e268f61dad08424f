"""The state file `agents/<adw_id>/adw_state.json`: identity, correlation and the phase history.

One canonical form is written. The given form without `schema_version`, and another writer's form
(`issue_class: "/chore"`, `issue_number: "47"`, entries with `status: ok|failed`) are read too.
Content (plan text, logs, summaries) has no place here: unknown keys are refused and strings are
limited. Source: specs/0001-state-file.md.
"""

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, cast

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from adw.ids import ADW_ID
from adw.model.base import Document, parse_json

SCHEMA_VERSION: Final = 1
MAX_ENTRIES: Final = 10_000  # the entry with this number is `stuck`

Reason = Literal[
    "exit", "timeout", "idle", "signal", "oom", "disk", "missing_output", "contract", "result_invalid",
    "no_change", "agent_error", "rejected",
    "lost", "interrupted", "rate_limited",
    "auth", "spawn_failed", "workspace", "stuck", "tampered",
    "blocked", "budget", "effect_unknown", "cancelled",
    "invalidated", "skipped",
]  # fmt: skip

FAILURE: Final = frozenset(
    {
        "exit", "timeout", "idle", "signal", "oom", "disk", "missing_output", "contract",
        "result_invalid", "no_change", "agent_error", "rejected",
    }
)  # fmt: skip
FREE: Final = frozenset({"lost", "interrupted", "rate_limited"})
FINAL: Final = frozenset({"auth", "spawn_failed", "workspace", "stuck", "tampered"})
HELD: Final = frozenset({"blocked", "budget", "effect_unknown", "cancelled"})

IssueClass = Literal["chore", "bug", "feature"]
ModelSet = Literal["base", "heavy"]

Id = Annotated[str, StringConstraints(pattern=r"\A[a-z0-9][a-z0-9-]{5,63}\z")]
Name = Annotated[str, StringConstraints(min_length=1, max_length=64, pattern=r"\A[^\x00-\x1f/]+\z")]
Short = Annotated[
    str, StringConstraints(min_length=1, max_length=255, pattern=r"\A[^\x00-\x1f]+\z")
]
Instant = Annotated[
    str, StringConstraints(max_length=32, pattern=r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z\z")
]
Port = Annotated[int, Field(ge=1, le=65535)]


def _number(value: object) -> object:
    return int(value) if isinstance(value, str) and value.isascii() and value.isdigit() else value


def _version(value: object) -> object:
    # A Literal takes what is equal to it, so `true` and `1.0` would pass.
    if type(value) is not int:
        message = "a whole number is expected"
        raise ValueError(message)
    return value


def _class(value: object) -> object:
    return value[1:] if isinstance(value, str) and value.startswith("/") else value


class HistoryEntry(Document):
    """One line of `phase_history`: an attempt, a decision, a skip or a mark."""

    phase: Name
    """Name of the phase."""
    attempt: Annotated[int, Field(ge=0)] = 0
    """1 + the highest number before it; 0 where no attempt was made (skip, mark, decision)."""
    success: bool
    """Whether the phase is done by this entry."""
    reason: Reason | None = None
    """Failure kind, `skipped` or `invalidated`; null with an ordinary success."""
    started_at: Instant | None = None
    """Start of the attempt."""
    ended_at: Instant | None = None
    """End of the attempt, or the moment of the decision."""
    commit: Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{40}([0-9a-f]{24})?\z")] | None = (
        None
    )
    """HEAD of the worktree afterwards."""
    not_before: Instant | None = None
    """With `rate_limited`: when to try again."""
    signature: Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{16}\z")] | None = None
    """16 hex digits of the normalised failure; absent where it is transient or unknown."""
    repairs: Name | None = None
    """With an attempt of a repair phase: the owner that called it."""

    @model_validator(mode="before")
    @classmethod
    def _other_form(cls, value: object) -> object:
        """Read `status: ok|failed` of the other writer."""
        if not isinstance(value, dict) or "status" not in value:
            return value
        known = cast("dict[str, Any]", value)
        if "success" in known or known["status"] not in {"ok", "failed"}:
            return known
        rest = {k: v for k, v in known.items() if k != "status"}
        return {**rest, "success": known["status"] == "ok"}

    @model_validator(mode="after")
    def _consistent(self) -> "HistoryEntry":
        if self.success and self.reason not in {None, "skipped"}:
            message = f"a success cannot have the reason `{self.reason}`"
            raise ValueError(message)
        if not self.success and self.reason == "skipped":
            message = "a skip is a success"
            raise ValueError(message)
        return self

    def encode(self) -> bytes:
        """One line of JSON; fields that do not apply are left out."""
        found: dict[str, Any] = {
            "phase": self.phase,
            "attempt": self.attempt,
            "success": self.success,
            "reason": self.reason,
            "started_at": self.started_at,
            "ended_at": self.ended_at,
            "commit": self.commit,
        }
        for name in ("not_before", "signature", "repairs"):
            value = getattr(self, name)
            if value is not None:
                found[name] = value
        return json.dumps(found, ensure_ascii=False).encode()


class ADWStateData(Document):
    """Identity and correlation of one run, and what its phases did."""

    schema_version: Annotated[Literal[1], BeforeValidator(_version)] = 1
    """Version of this document; missing means the given form, read as 1."""
    adw_id: Id
    """The run's ID, and the name of its directory."""
    issue_number: Annotated[Annotated[int, Field(ge=1)] | None, BeforeValidator(_number)] = None
    """Number of the issue; null for a run of `--task`."""
    issue_class: Annotated[IssueClass | None, BeforeValidator(_class)] = None
    """Kind of the issue, which names the branch's prefix."""
    branch_name: Short | None = None
    """Branch of the run; recorded before it exists."""
    plan_file: Annotated[Short, StringConstraints(max_length=1024)] | None = None
    """Path of the plan, relative to the worktree."""
    worktree_path: Annotated[Short, StringConstraints(max_length=4096)] | None = None
    """Path of the worktree, relative to the main checkout."""
    backend_port: Port | None = None
    """Leased port for a back end."""
    frontend_port: Port | None = None
    """Leased port for a front end."""
    model_set: ModelSet = "base"
    """Which models the roles map to."""
    all_adws: Annotated[list[Id], Field(max_length=10_000)] = Field(default_factory=list)
    """Runs that belong together, without duplicates."""
    workflow: (
        Annotated[str, StringConstraints(pattern=r"\A[a-z][a-z0-9_-]{0,63}@[0-9a-f]{64}\z")] | None
    ) = None
    """`<name>@<definition id>`; null in a state written elsewhere."""
    updated_at: Instant | None = None
    """When this version was written."""
    phase_history: Annotated[list[HistoryEntry], Field(max_length=MAX_ENTRIES)] = Field(
        default_factory=list
    )
    """Append-only; order is position, never a time."""

    @model_validator(mode="after")
    def _unique(self) -> "ADWStateData":
        if len(set(self.all_adws)) != len(self.all_adws):
            message = "`all_adws` names an ID twice"
            raise ValueError(message)
        assert ADW_ID.match(self.adw_id)
        return self

    def changed(self, **fields: Any) -> "ADWStateData":
        """A validated copy with other field values.

        Raises:
            pydantic.ValidationError: A field or type that the schema does not know.
        """
        history = fields.pop("phase_history", self.phase_history)
        head = self.model_dump(exclude={"phase_history"})
        new = ADWStateData.model_validate({**head, **fields})
        return new.model_copy(update={"phase_history": history})

    def appended(self, entries: Sequence[HistoryEntry]) -> "ADWStateData":
        """A copy whose history goes on with `entries`."""
        return self.model_copy(update={"phase_history": [*self.phase_history, *entries]})


def parse_state(data: bytes) -> ADWStateData:
    """Read a state file's bytes, in any of the known forms.

    Raises:
        ValueError: What is wrong, in one line; pydantic's error is a ValueError too.
    """
    return ADWStateData.model_validate(parse_json(data))


def encode_head(state: ADWStateData) -> bytes:
    """The canonical bytes before the first history entry."""
    head = {name: getattr(state, name) for name in _ORDER}
    text = json.dumps(head, ensure_ascii=False, indent=2)
    return text[:-2].encode() + b',\n  "phase_history": ['


def encode_state(head: bytes, entries: Sequence[bytes]) -> bytes:
    """Join the head and encoded entries to the file's bytes, one entry a line."""
    if not entries:
        return head + b"]\n}\n"
    return head + b"\n    " + b",\n    ".join(entries) + b"\n  ]\n}\n"


_ORDER: Final = (
    "schema_version", "adw_id", "issue_number", "issue_class", "branch_name", "plan_file",
    "worktree_path", "backend_port", "frontend_port", "model_set", "all_adws", "workflow",
    "updated_at",
)  # fmt: skip
