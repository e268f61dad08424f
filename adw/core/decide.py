"""What runs next: `decide(graph, fold, running, now, holds)`, and what persons may ask of a run.

Pure: no file, no clock, nothing is started. What only reads entries is in `adw.core.fold`, what
cuts a graph in `adw.core.cut`. Source: specs/0004-what-runs-next.md, the rule and its reasons.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge

from adw.core.cut import affected_by, cut_until, ends_first, only, required
from adw.core.fold import Fold, Live
from adw.core.graph import Graph
from adw.core.standing import PhaseView, Standing

__all__ = [
    "Decision",
    "Fold",
    "Holds",
    "Live",
    "PhaseView",
    "Start",
    "affected_by",
    "cancel_targets",
    "cut_until",
    "decide",
    "ends_first",
    "from_marks",
    "only",
    "only_marks",
    "resume_marks",
]

Holds = Callable[[str, str], bool]
"""Evaluates a phase's `when`: (phase, expression) to whether it holds now."""


@dataclass(frozen=True, slots=True)
class Start:
    """An attempt to start."""

    phase: str
    attempt: int
    """1 + the highest number of the phase in history and `running`; names directories and refs."""
    repairs: str | None = None
    """The owner that calls it; None for all but repair phases."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do now."""

    starts: tuple[Start, ...]
    """To be started now, in declared order."""
    skips: tuple[str, ...]
    """Phases whose `when` is false: a skip is to be recorded for each."""
    wake_at: float | None
    """The earliest instant that something waits for, in seconds since the epoch."""
    closing: str | None
    """How the run is over: succeeded, failed, held, cancelled; stuck is a bug in adw.
    None: something runs, starts, is skipped or waits."""
    phases: dict[str, PhaseView]
    """Every phase but repair phases, each after what it needs; a repair phase has no standing of
    its own, it is seen through its owners."""


def decide(graph: Graph, fold: Fold, running: Sequence[Live], now: float, holds: Holds) -> Decision:
    """Decide what starts, what is skipped, what is waited for, and whether the run is over.

    Args:
        graph: The graph of the fold.
        fold: The state's history so far.
        running: Every attempt that is alive and has no entry yet.
        now: Seconds since the epoch; only compared with instants in entries.
        holds: Evaluates `when`; called for phases that would start otherwise.

    Returns:
        The same decision for the same entries, whatever was decided before.
    """
    assert graph is fold.graph or graph == fold.graph, "a fold belongs to one graph"
    fold.settle(running)
    look = _Look(fold, running, now, holds)
    starts: tuple[Start, ...] = ()
    skips, wake_at = tuple(look.skips), min(look.wakes, default=None)
    if fold.cancelled:  # nothing starts before a person resumes
        skips, wake_at = (), None
    else:
        starts = look.starts()
    going = running or starts or skips
    closing = None if going else _closing(fold, look.views, wake_at)
    return Decision(starts, skips, wake_at, closing, look.views)


@dataclass(slots=True)
class _Look:
    """One look at the phases that may go on: whom time, `when`, gates and limits let start."""

    fold: Fold
    running: Sequence[Live]
    now: float
    holds: Holds
    views: dict[str, PhaseView] = field(init=False)
    under: set[str] = field(init=False)
    skips: list[str] = field(default_factory=list)
    wakes: list[float] = field(default_factory=list)
    wants: list[tuple[int, int, str, str | None]] = field(default_factory=list)
    """(declared position, that of the owner, phase, owner) of what may start."""

    def __post_init__(self) -> None:
        self.views = dict(self.fold.views)
        self.under = _under_running(self.fold, self.running)
        for name in self.under:
            if self.views[name].state == "ready":
                self.views[name] = PhaseView("pending")
        for name in sorted(self.fold.asked, key=self.fold.rank.__getitem__):
            self.views[name] = self._ask(name, self.fold.standing(name))
        self.wants.sort()

    def starts(self) -> tuple[Start, ...]:
        """What starts, in declared order, while running + starts < `max_parallel`."""
        room = self.fold.graph.max_parallel - len(self.running)
        found: dict[str, Start] = {}
        for _, _, name, owner in merge(self.wants, self._startable()):
            if len(found) >= room:
                break
            if name not in found:  # a shared repair phase has one attempt at a time
                found[name] = Start(name, self._next_attempt(name), owner)
        return tuple(found.values())

    def _ask(self, name: str, standing: Standing) -> PhaseView:
        if standing.kind == "called":
            return self._call(name, standing)
        if standing.wait and standing.waits(self.now):
            self.wakes.append(standing.wait[1])
            return PhaseView("wait", standing.wait[1])
        if name in self.under:
            return PhaseView("pending")
        phase = self.fold.graph.phases[name]
        if standing.kind == "fresh" and phase.when is not None and not self.holds(name, phase.when):
            self.skips.append(name)
            return PhaseView("ready")
        if phase.gate:
            return PhaseView("held", "gate")
        self.wants.append((self.fold.declared[name], 0, name, None))
        return PhaseView("ready")

    def _call(self, owner: str, standing: Standing) -> PhaseView:
        """An owner calls its repair phase, which may wait, or serve another owner just now."""
        repair = standing.repair
        assert repair is not None, owner
        if not self.fold.is_running(repair):
            if standing.wait and standing.waits(self.now):
                self.wakes.append(standing.wait[1])
            else:
                declared = self.fold.declared
                self.wants.append((declared[repair], declared[owner], repair, owner))
        return PhaseView("repairing", repair, repair)

    def _startable(self) -> Iterator[tuple[int, int, str, str | None]]:
        names = self.fold.names
        for at in self.fold.startable:
            if names[at] not in self.under:
                yield (at, 0, names[at], None)

    def _next_attempt(self, phase: str) -> int:
        alive = (live.attempt for live in self.running if live.phase == phase)
        return 1 + max([self.fold.attempt(phase), *alive])


def _under_running(fold: Fold, running: Sequence[Live]) -> set[str]:
    """Phases that must wait for what runs.

    Nothing is started, skipped or asked of a person while anything that transitively needs it, or
    a repair for it or for such a phase, is running: that one ends first. Settled phases need no
    look: all that they need is settled too.
    """
    phases, found = fold.graph.phases, set[str]()
    stack = []
    for live in running:
        subject = live.repairs or live.phase
        if subject in fold.rank:
            stack.append(subject)
            if live.repairs:
                found.add(subject)
    while stack:
        for need in phases[stack.pop()].needs:
            if need not in found and fold.standing(need).settled_at is None:
                found.add(need)
                stack.append(need)
    return found


def _closing(fold: Fold, views: dict[str, PhaseView], wake_at: float | None) -> str | None:
    """How the run is over, when nothing runs, starts or is skipped: the first that fits."""
    if fold.cancelled:
        return "cancelled"
    if wake_at is not None:
        return None
    if fold.settled == len(fold.graph.order):
        return "succeeded"
    if fold.failed:
        return "failed"
    if fold.held or any(views[name].state == "held" for name in fold.asked):
        return "held"
    return "stuck"


# --- what persons ask -------------------------------------------------------------------------


def resume_marks(
    graph: Graph, fold: Fold, now: float, holds: Holds, running: Sequence[Live] = ()
) -> list[str]:
    """Phases that a person's plain resume marks, in declared order.

    Where `closing` is failed, cancelled or held: every phase that failed for good and is not
    excused, is held (not at a gate) or cancelled; where the repair phase is what failed or is
    held, that one and not its owner. Otherwise none: a crash never gives fresh counts.
    """
    decision = decide(graph, fold, running, now, holds)
    if decision.closing not in {"failed", "cancelled", "held"}:
        return []
    found = set(fold.cancelled)
    found.update(
        view.repair or name
        for name, view in decision.phases.items()
        if view.state == "failed" or (view.state == "held" and not _at_gate(view))
    )
    return [name for name in graph.phases if name in found]


def from_marks(graph: Graph, fold: Fold, phase: str) -> list[str]:
    """Phases that `--from PHASE` marks: it and what is cancelled, in declared order.

    Attempts that `ends_first` names end before; then exactly the phase and what transitively
    needs it run again, others keep their result, a failure too. Of the graph's `first` nothing
    becomes stale, so what directly needs it is marked too.

    Raises:
        GraphFault: `unknown_phase`; `not_a_start` for a repair phase, `names` are its owners.
    """
    required(graph, phase)
    named = {phase, *(graph.dependents[phase] if phase == graph.first else ())}
    return [name for name in graph.phases if name in named or name in fold.cancelled]


def only_marks(graph: Graph, fold: Fold, now: float, holds: Holds) -> list[str]:
    """The mark that `--only` puts on its one phase: where it is settled, or needs a resume.

    Args:
        graph: From `only`.
        fold: The same history, folded over that graph.
        now: Seconds since the epoch.
        holds: Not called, as that graph has no `when`.
    """
    fold.settle()
    target = graph.order[-1]
    settled = fold.standing(target).settled_at is not None
    return [target] if settled else resume_marks(graph, fold, now, holds)


def cancel_targets(
    graph: Graph, fold: Fold, running: Sequence[Live], now: float, holds: Holds
) -> list[str]:
    """Phases that get a `cancelled` entry, in declared order.

    All that runs, once it has ended; when nothing runs, all that is startable, to be skipped,
    waiting, held or called (the repair phase, not its owner). None where the run is cancelled
    already, or over.
    """
    if running:
        alive = {live.phase for live in running}
        return [name for name in graph.phases if name in alive]
    if fold.cancelled:
        return []
    decision = decide(graph, fold, running, now, holds)
    found = {
        view.repair or name
        for name, view in decision.phases.items()
        if view.state in {"ready", "wait", "held", "repairing"}
    }
    return [name for name in graph.phases if name in found]


def _at_gate(view: PhaseView) -> bool:
    return view.detail == "gate" and view.repair is None
