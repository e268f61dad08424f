"""adw.yaml, by which a repository is set up: all keys may be left out."""

from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import Discriminator, Field, StringConstraints, Tag

from adw.model.base import Document
from adw.model.workflow import Argv, Command, EnvName, Reserve, Text

MAX_SLOTS: Final = 100

Ending = Literal["failed", "held", "succeeded", "cancelled"]
DEFAULT_ENDINGS: Final[tuple[Ending, ...]] = ("failed", "held", "succeeded")

# No large counts of large classes: compiling such patterns costs milliseconds at each start.
BRANCH_PATTERN: Final = r"^[A-Za-z0-9_][^\s~^:?*\[\\\x00-\x1f\x7f]*$"
GLOB_PATTERN: Final = r"^[A-Za-z0-9_*?\[\]!-]{1,128}$"
ROLE_PATTERN: Final = "^[a-z][a-z0-9_-]{0,63}$"
WEBHOOK_PATTERN: Final = r"^(https?://[^\s@]+|\$[A-Za-z_][A-Za-z0-9_]*)$"
REMOTE_PATTERN: Final = "^[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}$"

Branch = Annotated[str, StringConstraints(max_length=200, pattern=BRANCH_PATTERN)]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern="^[^\\x00]*$")]
Glob = Annotated[str, StringConstraints(pattern=GLOB_PATTERN)]
Remote = Annotated[str, StringConstraints(pattern=REMOTE_PATTERN)]
Role = Annotated[str, StringConstraints(pattern=ROLE_PATTERN)]
Webhook = Annotated[str, StringConstraints(max_length=2000, pattern=WEBHOOK_PATTERN)]


def _shape(value: object) -> str:
    return "none" if isinstance(value, str) else "pairs"


class PortsSpec(Document):
    """Pairs of ports, one for each run: 9100 + slot and 9200 + slot."""

    slots: Annotated[int, Field(ge=1, le=MAX_SLOTS)] = MAX_SLOTS
    """How many runs can have a pair at once."""


class NotifySpec(Document):
    """Who is told of the end of a run, and by which ways."""

    webhook: Webhook | None = None
    """URL that gets a POST with JSON; `$NAME`: the one in that environment variable."""
    command: Argv | None = None
    """Command that gets the same JSON on stdin."""
    desktop: bool = False
    """Whether `notify-send` shows it, where there is a desktop."""
    on: Annotated[list[Ending], Field(default_factory=lambda: list(DEFAULT_ENDINGS), min_length=1)]
    """Ends that are told."""


class Config(Document):
    """The settings of a repository."""

    not_yet: ClassVar[frozenset[str]] = frozenset({"agents", "budgets", "ledger"})

    issues: Literal["local", "github", "gitlab"] = "local"
    """Where issues come from: `issues/<number>.md`, or a forge."""
    base_branch: Branch | None = None
    """Branch that runs start from; absent: the one of `origin/HEAD`, else the one checked out."""
    agents_dir: Folder | None = None
    """Folder that holds runs, relative to the main checkout; ADW_AGENTS_DIR overrides it."""
    copied: Annotated[list[Folder], Field(default_factory=list, max_length=1000, alias="copy")]
    """Ignored files and folders of the main checkout that each new worktree gets a copy of."""
    setup: Command | None = None
    """Command of the phase `setup`, which comes before all others: words, or text for `sh -euc`."""
    env: Annotated[dict[EnvName, Text], Field(default_factory=dict, max_length=1000)]
    """Environment variables of every phase."""
    env_pass: Annotated[list[Glob], Field(default_factory=list, max_length=1000)]
    """Globs of variables that phases inherit beyond the short list."""
    ports: Annotated[
        Annotated[Literal["none"], Tag("none")] | Annotated[PortsSpec, Tag("pairs")],
        Discriminator(_shape),
        Field(default_factory=PortsSpec),
    ]
    """`none`, or how many pairs may be leased."""
    max_concurrent: Annotated[int, Field(ge=1, le=1000)] | None = None
    """How many runs of this repository may work at once on this host; absent: any number."""
    disk_reserve: Reserve | None = None
    """No phase is started where less is free on the disk; absent: 100M, or 2 % of a smaller disk."""
    remote: Remote = "origin"
    """Remote that `use: push` and `use: tag` push to."""
    notify: NotifySpec | None = None
    """Who is told of the end of a run."""
    model_sets: Annotated[
        dict[Literal["base", "heavy"], dict[Role, Text]], Field(default_factory=dict)
    ]
    """For each model set, the model of each role."""

    def to_json(self) -> dict[str, Any]:
        """The settings as JSON-ready data, every key with its value, for a run's pin."""
        return self.model_dump(mode="json", by_alias=True)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """The settings of `to_json`; equal to those it was given."""
        return cls.model_validate(data)
