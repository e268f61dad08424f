"""What readers are shown: `state/latest.json`, and what `adw status --json` prints. Derived."""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from adw.model.artifact import ChildId
from adw.model.base import Document
from adw.model.state import ADWStateData, Instant, Reason

RunStatus = Literal["queued", "running", "held", "interrupted", "failed", "succeeded", "cancelled"]
PhaseStatus = Literal[
    "pending", "running", "held", "done", "skipped", "excused", "failed", "stale"
]  # fmt: skip


class AttemptView(Document):
    """One attempt."""

    attempt: Annotated[int, Field(ge=1)]
    """Its number."""
    child_id: ChildId
    """`<phase>-<attempt>`; names its directories."""
    success: bool | None
    """Null while it runs, or where its end has not been recorded."""
    reason: Reason | None
    """Failure kind."""
    exit_code: int | None
    """Exit code of its command; null where it had none."""
    started_at: Instant | None
    """Start, UTC."""
    ended_at: Instant | None
    """End, UTC."""
    adopted: bool
    """Whether an orchestrator took it over from another."""
    detail: str | None
    """Its failure in few words."""


class PhaseShown(Document):
    """One phase."""

    phase: str
    """Its name."""
    status: PhaseStatus
    """Where it stands."""
    attempts: list[AttemptView]
    """Oldest first."""


class Living(Document):
    """An attempt that lives now."""

    child_id: ChildId
    """Which."""
    pid: int | None
    """Process id of its body; null before it runs."""


class Stopped(Document):
    """A process of adw that was stopped (SIGSTOP): it does nothing until it is continued."""

    process: Literal["adw", "nursery", "supervisor"]
    """Which of its processes."""
    child_id: ChildId | None
    """The attempt of a supervisor; null for the others."""
    pid: int
    """Its process id."""


class _Head(Document):
    schema_version: Literal[1]
    """Version of this document."""
    adw_id: str
    """The run's ID."""
    workflow: str | None
    """Name of the workflow; null where the state was written by another program."""
    definition: str | None
    """ID of the pinned definition."""
    issue_number: Annotated[int, Field(ge=1)] | None
    """Number of the issue; null with `--task`."""
    status: RunStatus
    """Where the run stands."""
    reason: str | None
    """Why it failed, is held or was cancelled, in one line."""
    until: Instant | None
    """The instant that a held run waits for."""
    next_action: str
    """The one command to give now."""
    tree_end: Literal["cgroup", "tag"] | None
    """How process trees are ended; null where nothing has run yet."""
    isolation: Literal["none"]
    """Phases are not fenced in."""
    phases: list[PhaseShown]
    """All phases, in the order of the workflow file."""


class Latest(_Head):
    """`state/latest.json`: counts only while `state_sha256` fits the state file."""

    state_sha256: Annotated[str, Field(pattern=r"\A[0-9a-f]{64}\z")]
    """SHA-256 of the state file that it was made from."""
    closing: str | None
    """How the run ended; null while it is not over."""
    left: Literal["pause", "SIGINT", "SIGTERM", "no_place", "disk", "queued"] | None
    """How the last sitting ended, or stands, before the run was over."""
    updated_at: Instant
    """When it was written."""


class RunView(_Head):
    """One run, as `adw status ID --json` prints it."""

    paused: bool
    """Whether a person paused it; `adw resume --all` leaves it alone."""
    living: list[Living]
    """Attempts that live now."""
    stopped: list[Stopped]
    """Processes of adw that stand still; `kill -CONT` lets each go on."""
    state: ADWStateData
    """The state file, whole."""


class ErrorView(Document):
    """Why a run is broken."""

    code: str
    """Stable, dotted."""
    message: str
    """One line."""
    hint: str | None
    """What to do."""
    fields: dict[str, Any]
    """What the message is made of."""


class ShortView(Document):
    """One line of the list of all runs."""

    adw_id: str
    """The run's ID."""
    workflow: str | None
    """Name of the workflow."""
    issue_number: int | None
    """Number of the issue."""
    status: RunStatus | Literal["broken"]
    """Where it stands; `broken`: its files are damaged."""
    paused: bool
    """Whether a person paused it."""
    updated_at: Instant | None
    """When its state was written last."""
    error: ErrorView | None = None
    """Only with `broken`."""


class RunList(Document):
    """All runs, as `adw status --json` prints them."""

    schema_version: Literal[1]
    """Version of this document."""
    runs: list[ShortView]
    """Sorted by ID."""


class StatusView(RootModel[RunView | RunList]):
    """One run, or all of them."""
