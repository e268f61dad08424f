"""What a session is made of, and who watches it."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from adw.app.wishes import Wishes
from adw.core.graph import Graph
from adw.core.interfaces import Supervision, Workspace
from adw.core.view import PhaseBoard
from adw.model.state import ADWStateData
from adw.store.history import History
from adw.store.runs import RunLock
from adw.store.state import StateFile


class Reporter(Protocol):
    """Whoever watches a run: the terminal, plain lines, or nobody."""

    def changed(self, board: PhaseBoard, news: Sequence[dict[str, Any]]) -> None:
        """A boundary was reached; `news` are the events since the last one."""

    def interval_s(self) -> float | None:
        """How often `tick` is wanted; None: never."""

    def tick(self, board: PhaseBoard) -> None:
        """Time for a look at what runs."""


@dataclass(slots=True)
class Parts:
    """What a session is made of; app.opening puts it together."""

    lock: RunLock
    state: ADWStateData
    state_file: StateFile
    history: History
    graph: Graph
    """What the command runs: the workflow, or what `--only` and `--until` cut out of it."""
    full: Graph
    """The whole workflow."""
    run_info: Mapping[str, Any]
    """run.json."""
    config: Mapping[str, Any]
    """Resolved configuration, from the pin."""
    base_env: Mapping[str, str]
    worktree: Workspace
    supervision: Supervision
    reporter: Reporter
    holds: Callable[[str, Mapping[str, object]], bool]
    """Evaluates a `when` expression over names."""
    fill: Callable[[str, Mapping[str, object]], str]
    """Fills `{name}` templates."""
    program: Callable[[str], tuple[str, ...]]
    """Argv of a built-in phase program."""
    wishes: Wishes
    secrets: Mapping[str, str]
    """Values of all secrets that phases name, as far as they are set."""
    resource: Callable[[str], bytes]
    """Content of a file that the definition pins."""
