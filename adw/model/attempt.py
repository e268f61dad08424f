"""`attempts/<child_id>/attempt.jsonl`: the facts of one attempt, one line each, in order of writing.

A reader passes over kinds of line, and keys, that it does not know. Source:
specs/0002-run-directory.md.
"""

from typing import Annotated, Literal

from pydantic import Discriminator, Field, RootModel

from adw.model.artifact import ChildId, LogicalName, Path, Root, Sha256, Size
from adw.model.base import Document
from adw.model.state import Instant, Reason

Pid = Annotated[int, Field(ge=1)]
StartTime = Annotated[int, Field(ge=0)]
TreeEnd = Literal["cgroup", "tag"]


class Owed(Document):
    """A file that the attempt owes, as the workflow had it when it was launched."""

    name: LogicalName
    """Logical name."""
    path: str
    """Path pattern with its templates filled."""
    description: str
    """What it is."""
    root: Root
    """What the pattern is relative to."""
    state: Literal["plan_file"] | None
    """State field that the found path is set as."""
    format: Literal["json"] | None
    """What it must parse as."""
    optional: bool
    """Missing or wrong, it fails nothing."""
    max_bytes: Size
    """A larger file is refused."""


class Launch(Document):
    """Written by the orchestrator with the packet; without it there was no attempt."""

    line: Literal["launch"]
    """Kind of line."""
    phase: str
    """Name of the phase."""
    attempt: Annotated[int, Field(ge=1)]
    """Its number."""
    repairs: str | None
    """With a repair phase: the owner that called it."""
    round: Annotated[int, Field(ge=1)] | None = None
    """Which round of the phase it belongs to; absent in attempts of versions before rounds."""
    at: Instant
    """When."""
    argv: list[str]
    """The command, templates filled."""
    before: str | None
    """Fingerprint of the tree, where `ensure: [changed]` asks for it."""
    head: str | None = None
    """Commit that HEAD of the worktree named."""
    kept: str | None = None
    """Commit that keeps the tree as it was; null: it was clean, or the phase does not write."""
    outputs: list[Owed] = Field(default_factory=list)
    """What it owes; absent where it owes nothing."""


class Nursery(Document):
    """The process that made the supervisor."""

    pid: Annotated[int, Field(ge=0)]
    """Its process id."""
    start_time: StartTime
    """In clock ticks since boot."""


class Supervisor(Document):
    """Written by the supervisor before the body may start."""

    line: Literal["supervisor"]
    """Kind of line."""
    pid: Pid
    """Its process id."""
    start_time: StartTime
    """In clock ticks since boot; tells it from a later process of the same id."""
    boot_id: str
    """Process ids mean nothing in another boot."""
    session: Annotated[int, Field(ge=0)]
    """Its session id."""
    cgroup: str | None
    """Control group of the attempt, where there is one."""
    tree_end: TreeEnd
    """How its process tree is ended."""
    nursery: Nursery
    """Who made it."""
    adw_id: str
    """The run."""
    child_id: ChildId
    """The attempt."""
    attempt_dir: str
    """Absolute path at that time."""


class Body(Document):
    """Written when the command has been started; for display."""

    line: Literal["body"]
    """Kind of line."""
    pid: Pid
    """Its process id."""
    start_time: StartTime
    """In clock ticks since boot; 0 where it was gone already."""


class Adopt(Document):
    """Written by an orchestrator that took the attempt over; for display."""

    line: Literal["adopt"]
    """Kind of line."""
    pid: Pid
    """The orchestrator's process id."""
    at: Instant
    """When."""


class Exit(Document):
    """What the supervisor saw; the attempt is over."""

    line: Literal["exit"]
    """Kind of line."""
    reason: (
        Literal[
            "exit", "timeout", "idle", "signal", "oom", "disk", "contract", "spawn_failed", "interrupted",
            "stopped",
        ]
        | None
    )  # fmt: skip
    """Null: the command and its `ensure` exited with 0; `stopped`: somebody asked for the end."""
    started_at: Instant | None
    """When the command was started; null where it was not."""
    ended_at: Instant
    """When it was over."""
    exit_code: int | None
    """Of the command."""
    signal: int | None
    """That ended the command."""
    error: str | None
    """For people."""
    survivors: list[Pid]
    """Processes that could not be ended."""


class Promoted(Document):
    """An output that was found, checked and copied."""

    path: Path | None
    """The copy, relative to the run's directory; null where it was too large to copy."""
    source: Path
    """Where it lay, relative to `root`."""
    root: Root
    """Worktree, or the attempt's own folder `artifacts`."""
    description: str
    """What it is."""
    size_bytes: Size
    """Its size."""
    sha256: Sha256
    """SHA-256 of its bytes, hex."""
    copied: bool
    """Whether there is a copy."""


class Fault(Document):
    """An output that was missing or wrong."""

    name: LogicalName
    """Logical name."""
    path: str
    """Path pattern, templates filled."""
    root: Root
    """What the pattern is relative to."""
    kind: Literal["missing_output", "contract"]
    """Missing or empty; or there, and not what it must be."""
    detail: str
    """One line for people."""
    optional: bool
    """It fails nothing."""


class Verdict(Document):
    """What the orchestrator judged, durable before the commit; where `exit` alone does not tell."""

    line: Literal["verdict"]
    """Kind of line."""
    at: Instant
    """When."""
    success: bool
    """Whether the phase is done by this attempt."""
    reason: Reason | None
    """Failure kind."""
    detail: str | None
    """One line for people."""
    outputs: dict[LogicalName, Promoted]
    """What was promoted."""
    faults: list[Fault]
    """What was missing or wrong."""


class Tree(Document):
    """Written by the nursery after it ended what a killed supervisor left."""

    line: Literal["tree"]
    """Kind of line."""
    proved: bool
    """Whether nothing of the tree can live on."""
    survivors: list[Pid]
    """Processes that could not be ended."""


class AttemptLine(
    RootModel[
        Annotated[Launch | Supervisor | Body | Adopt | Exit | Verdict | Tree, Discriminator("line")]
    ]
):
    """One line of attempt.jsonl."""
