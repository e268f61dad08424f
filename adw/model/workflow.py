"""The workflow file as people write it: strict, frozen, and the source of its JSON Schema.

Only shape is judged here. What needs more than one phase, or another language (`when`, templates),
is judged by adw.loader and adw.core.compile.
"""

import math
import re
from typing import Annotated, ClassVar, Final, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from adw.model.base import Document

MAX_PHASES: Final = 10_000
MAX_SECONDS: Final = 366 * 86400
MAX_OUTPUT_BYTES: Final = 1 << 30
PHASE_PATTERN: Final = "^[a-z][a-z0-9_]{0,63}$"
WORKFLOW_PATTERN: Final = "^[a-z][a-z0-9_-]{0,63}$"
LOGICAL_PATTERN: Final = "^[a-z][0-9a-z_]{0,63}$"
"""The same names as PHASE_PATTERN, written otherwise so that messages can tell which is meant."""
ENV_PATTERN: Final = "^[A-Za-z_][A-Za-z0-9_]{0,127}$"
TEXT_PATTERN: Final = "^[^\\x00]*$"

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d)\Z")
_DELAY_RANGE: Final = "0 to 366 days are expected"
_LIMIT_RANGE: Final = "more than 0 is expected; leave the key out, or write null, for no limit"
_SIZE: Final = re.compile(r"([0-9]{1,15})([KMGT])\Z")
_SIZES: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
MIN_MEMORY: Final = 4 << 20  # what a supervisor takes while it starts a body there fits well
MIN_DISK: Final = 1 << 20
MIN_LOG: Final = 64 << 10
MAX_SIZE: Final = 1 << 50
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def _seconds(value: object) -> object:
    """Read `250ms`, `5s`, `30m`, `2h`, `1d`, or a plain number of seconds."""
    if isinstance(value, str) and (found := _DURATION.match(value)):
        number = float(found[1]) * _UNITS[found[2]]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        number = float(min(value, 2 * MAX_SECONDS))
    else:
        raise PydanticCustomError("duration", "not a duration")  # noqa: EM101
    if not 0 <= number <= MAX_SECONDS or not math.isfinite(number):
        raise _beyond(_DELAY_RANGE)
    return number


def _limit(value: object) -> object:
    number = _seconds(value)
    if number == 0:
        raise _beyond(_LIMIT_RANGE)
    return number


def _size(least: int, expected: str) -> BeforeValidator:
    """What reads `512M`, `2G`, or a plain number of bytes; not below `least`."""

    def read(value: object) -> object:
        if isinstance(value, str) and (found := _SIZE.match(value)):
            value = int(found[1]) * _SIZES[found[2]]
        elif not isinstance(value, int) or isinstance(value, bool):
            raise PydanticCustomError("size", "not a size")  # noqa: EM101
        if not least <= value <= MAX_SIZE:
            raise _beyond(expected)
        return value

    return BeforeValidator(read)


def _beyond(expected: str) -> PydanticCustomError:
    return PydanticCustomError("range", "{expected}", {"expected": expected})


def _shape(value: object) -> str:
    return "text" if isinstance(value, str) else "argv"


_DURATION_SCHEMA: Final = WithJsonSchema(
    {
        "anyOf": [
            {"type": "number", "minimum": 0, "maximum": MAX_SECONDS},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?(ms|s|m|h|d)$"},
        ]
    }
)


def _size_schema(least: int) -> WithJsonSchema:
    number = {"type": "integer", "minimum": least, "maximum": MAX_SIZE}
    return WithJsonSchema(
        {"anyOf": [number, {"type": "string", "pattern": r"^[0-9]{1,15}(K|M|G|T)$"}]}
    )


PhaseName = Annotated[str, StringConstraints(pattern=PHASE_PATTERN)]
WorkflowName = Annotated[str, StringConstraints(pattern=WORKFLOW_PATTERN)]
LogicalName = Annotated[str, StringConstraints(pattern=LOGICAL_PATTERN)]
EnvName = Annotated[str, StringConstraints(pattern=ENV_PATTERN)]
Text = Annotated[str, StringConstraints(max_length=100_000, pattern=TEXT_PATTERN)]
Script = Annotated[Text, StringConstraints(min_length=1)]
Argv = Annotated[list[Text], Field(min_length=1, max_length=10_000)]
Delay = Annotated[float, BeforeValidator(_seconds), _DURATION_SCHEMA]
Limit = Annotated[float, BeforeValidator(_limit), _DURATION_SCHEMA]
Memory = Annotated[
    int,
    _size(MIN_MEMORY, "4M to 1024T are expected; leave the key out, or write null, for no limit"),
    _size_schema(MIN_MEMORY),
]
Disk = Annotated[
    int,
    _size(MIN_DISK, "1M to 1024T are expected; leave the key out, or write null, for no limit"),
    _size_schema(MIN_DISK),
]
Reserve = Annotated[int, _size(0, "0 to 1024T are expected"), _size_schema(0)]
Log = Annotated[
    int,
    _size(MIN_LOG, "64K to 1024T are expected; leave the key out, or write null, for 5M"),
    _size_schema(MIN_LOG),
]
Processes = Annotated[int, Field(ge=1, le=4_000_000)]
Command = Annotated[
    Annotated[Script, Tag("text")] | Annotated[Argv, Tag("argv")], Discriminator(_shape)
]

Retried = Literal[
    "exit", "timeout", "idle", "signal", "oom", "disk", "missing_output", "contract", "result_invalid",
    "no_change", "agent_error",
]  # fmt: skip


class RetrySpec(Document):
    """When a failed attempt is tried again, without a repair."""

    attempts: Annotated[int, Field(ge=1, le=100)]
    """Tries in all, the first included."""
    delay: Delay = 0.0
    """Wait before the second try."""
    factor: Annotated[float, Field(ge=1, le=100)] = 1.0
    """Each further wait is this much longer."""
    max_delay: Delay = 60.0
    """Longest wait."""
    on: Annotated[list[Retried], Field(min_length=1)] | None = None
    """Failure kinds that are tried again; absent: all of them."""


class RepairSpec(Document):
    """Which phase mends a failure, how often, and where it leads back to."""

    why_missing: ClassVar[dict[str, str]] = {
        "rounds": "a repair without a bound could go on for ever"
    }

    phase: PhaseName
    """A phase without `needs`; it runs only when called."""
    rounds: Annotated[int, Field(ge=1, le=100)]
    """Most repairs; the phase itself is tried once more than that."""
    back_to: PhaseName | None = None
    """A phase that this one needs, from where to go on; absent: this phase."""


class OutputSpec(Document):
    """A file that a phase owes: looked for after exit code 0, and kept."""

    why_missing: ClassVar[dict[str, str]] = {"path": "it says where the file will be"}

    path: Annotated[Script, StringConstraints(max_length=1000)]
    """Where it will be, relative to `root`; `*`, `?` and `[...]` stand inside one folder's name."""
    description: Annotated[Text, StringConstraints(max_length=1000)] = ""
    """One line for people."""
    root: Literal["worktree", "artifacts"] = "worktree"
    """The run's worktree, or the attempt's own folder (`ADW_ARTIFACTS`)."""
    state: Literal["plan_file"] | None = None
    """Field of the run's state that the found path is set as."""
    format: Literal["json"] | None = None
    """What it must be: strict JSON; absent: anything."""
    optional: bool = False
    """Whether a missing or wrong file is only warned of."""
    max_bytes: Annotated[int, Field(ge=1, le=MAX_OUTPUT_BYTES)] = MAX_OUTPUT_BYTES
    """Largest size."""


class PhaseSpec(Document):
    """One phase: a command or a built-in program, and the rules around it."""

    model_config = ConfigDict(
        json_schema_extra={"oneOf": [{"required": ["run"]}, {"required": ["use"]}]}
    )

    not_yet: ClassVar[frozenset[str]] = frozenset(
        {"agent", "approve", "workflow", "include", "foreach"}
    )

    run: Command | None = None
    """The command as a list of words, or as text for `sh -euc`."""
    use: Script | None = None
    """A built-in phase program: `commit`, `push`, `tag` or `notify`."""
    options: Annotated[
        dict[LogicalName, Text], Field(default_factory=dict, max_length=20, alias="with")
    ]
    """What the built-in program is told."""
    needs: Annotated[list[PhaseName], Field(default_factory=list, max_length=1000)]
    """Phases that must be done first."""
    when: Annotated[Script, StringConstraints(max_length=500)] | None = None
    """The phase is skipped where this expression is false."""
    inputs: Annotated[list[LogicalName], Field(default_factory=list, max_length=100)]
    """Outputs that it reads, of phases that it needs, directly or by others."""
    outputs: Annotated[dict[LogicalName, OutputSpec], Field(default_factory=dict, max_length=100)]
    """Files that it owes, by logical name."""
    ensure: Annotated[list[Command], Field(default_factory=list, max_length=100)]
    """Post-conditions: `changed`, `committed`, `clean`, or a command that must exit 0."""
    writes: bool = True
    """Whether it may write in the worktree; such a phase runs alone."""
    env: Annotated[dict[EnvName, Text], Field(default_factory=dict, max_length=1000)]
    """More environment variables."""
    secrets: Annotated[list[EnvName], Field(default_factory=list, max_length=100)]
    """Variables of adw's own environment that it gets; their values are blotted out of its logs."""
    skill: Annotated[Script, StringConstraints(max_length=1000)] | None = None
    """File with role instructions, relative to the workflow file's folder; its SKILL.md."""
    cwd: Script | None = None
    """Directory to run in, relative to the worktree."""
    timeout: Limit | None = None
    """Longest run time; null: none, even where `defaults` has one."""
    idle_timeout: Limit | None = None
    """Longest silence; null: none, even where `defaults` has one."""
    memory: Memory | None = None
    """Most memory of its processes together; null: no limit, even where `defaults` has one."""
    processes: Processes | None = None
    """Most processes and threads at a time; null: no limit, even where `defaults` has one."""
    disk: Disk | None = None
    """Most that the run may keep on disk; null: no limit, even where `defaults` has one."""
    log: Log | None = None
    """How much of each of its logs is kept; null: 5M, whatever `defaults` says."""
    retry: RetrySpec | None = None
    """Further tries after a failure."""
    repair: RepairSpec | None = None
    """The phase that mends a failure."""
    allow_failure: bool = False
    """Whether the run goes on without it once it has failed for good."""
    on_retry: Literal["keep", "reset"] = "keep"
    """What becomes of the worktree's changes before another try."""

    @model_validator(mode="after")
    def _one_kind(self) -> "PhaseSpec":
        if (self.run is None) == (self.use is None):
            none = self.run is None
            found = "neither `run` nor `use` is" if none else "both `run` and `use` are"
            raise PydanticCustomError("kind", "{found}", {"found": found})  # noqa: EM101
        return self


class Defaults(Document):
    """What holds for every phase that does not say otherwise."""

    timeout: Limit | None = None
    """Longest run time of a phase."""
    idle_timeout: Limit | None = None
    """Longest silence of a phase."""
    memory: Memory | None = None
    """Most memory of a phase's processes together."""
    processes: Processes | None = None
    """Most processes and threads of a phase at a time."""
    disk: Disk | None = None
    """Most that the run may keep on disk while a phase runs, and when it has ended."""
    log: Log | None = None
    """How much of each log of a phase is kept; absent: 5M."""


class WorkflowSpec(Document):
    """A workflow: phases by name, in declared order."""

    not_yet: ClassVar[frozenset[str]] = frozenset({"include"})

    schema_version: Literal[1] = 1
    """Version of this format."""
    name: WorkflowName
    """Name of the workflow; the file is called `<name>.yaml`."""
    description: Text = ""
    """One line for people."""
    max_parallel: Annotated[int, Field(ge=1, le=64)] = 4
    """Most phases at a time; phases that write run alone in any case."""
    defaults: Annotated[Defaults, Field(default_factory=Defaults)]
    """Limits for phases that have none of their own."""
    phases: Annotated[dict[PhaseName, PhaseSpec], Field(min_length=1, max_length=MAX_PHASES)]
    """The phases by name."""
