"""Why a phase is where it is, in plain English: what `adw why` prints."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from adw.core.compile import reach
from adw.core.decide import Decision
from adw.core.fold import Fold
from adw.core.graph import Graph, Phase
from adw.core.standing import FINAL, FREE, Entry, PhaseView, is_failure

SHOWN_ATTEMPTS: Final = 8  # the latest; a long run has hundreds

_HELD: Final[Mapping[str, str]] = {
    "blocked": "the attempt said that it needs a person",
    "budget": "a budget is used up",
    "effect_unknown": "nobody knows whether an outside effect took place: settle it first",
    "cancelled": "it was cancelled",
    "rate_limited": "the 50th attempt in a row had no outcome, and the last was rate limited",
    "gate": "approve or reject it",
}
_FAILED: Final[Mapping[str, str]] = {
    "lost": "its last three attempts were lost: it may bring the host down",
    "no_progress": "the same failure came the third time: repairing it again would not help",
    "rejected": "a person rejected it",
    "auth": "the program has no valid credentials",
    "spawn_failed": "the program could not be started",
    "workspace": "the worktree was not what it should be",
    "stuck": "it was started ten times in a row without an end, or the run's history is full",
    "tampered": "the state file was changed while it ran",
}
_OWED: Final = frozenset({"missing_output", "contract"})
_SETTLED: Final = frozenset({"done", "skipped", "excused"})


def why(graph: Graph, fold: Fold, decision: Decision, phase: str) -> list[str]:
    """Say why a phase is in its state, what it has left, and what a resume would do.

    Args:
        graph: The graph of the fold.
        fold: The history that was decided on; the decision is the last that was made on it.
        decision: The decision to explain.
        phase: Any phase of the graph, a repair phase too.

    Returns:
        Lines without indent, the reason first; at least one.
    """
    case = _Case(graph, fold, decision)
    if phase in graph.owners:
        return list(case.repair_phase(phase))
    view = decision.phases[phase]
    lines = list(case.by_state[view.state](graph.phases[phase], view))
    if view.state not in {"pending", "skipped"}:
        lines.extend(case.attempts(phase))
    return lines


class _Case:
    """One decision, and a method for each state of a phase."""

    def __init__(self, graph: Graph, fold: Fold, decision: Decision) -> None:
        self.graph, self.fold, self.decision = graph, fold, decision
        self.by_state: Mapping[str, Callable[[Phase, PhaseView], Iterator[str]]] = {
            "pending": self.pending,
            "ready": self.ready,
            "running": self.running,
            "wait": self.wait,
            "repairing": self.repairing,
            "done": self.done,
            "skipped": self.skipped,
            "excused": self.excused,
            "failed": self.failed,
            "held": self.held,
        }

    def pending(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """Name what is not settled, or what still works on the old result."""
        unsettled = self._unsettled(phase.needs)
        for name in unsettled:
            yield f"it needs `{name}`, which is {self._words(name)}"
        root = self._roots(phase.name) - set(unsettled)
        if root:
            yield "behind that: " + ", ".join(
                f"`{name}` is {self._words(name)}" for name in self.graph.order if name in root
            )
        if not unsettled:
            yield "it starts again once what works on its old result has ended"
        entries = self.fold.record(phase.name).entries
        if entries and entries[-1].success:
            yield "its last result is stale: something that it needs is to run again"

    def ready(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """It is next, unless a cancel or `max_parallel` stands before it."""
        if self.fold.cancelled:
            yield "the run is cancelled: nothing starts before a resume"
        elif phase.name in self.decision.skips:
            yield f"its `when` is false, so it is skipped: {phase.when}"
        elif any(start.phase == phase.name for start in self.decision.starts):
            yield "all that it needs is settled: it starts next"
        else:
            yield f"it may start; {self.graph.max_parallel} at a time is the limit (`max_parallel`)"

    def running(self, _phase: Phase, _view: PhaseView) -> Iterator[str]:
        """Nothing more is known without a clock."""
        yield "an attempt of it is running"

    def wait(self, phase: Phase, view: PhaseView) -> Iterator[str]:
        """Say for which instant, and why."""
        assert isinstance(view.detail, float | int)
        until = _instant(view.detail)
        last = self.fold.record(phase.name).entries[-1]
        if last.reason == "rate_limited":
            yield f"it was rate limited and waits until {until}; no attempt is used up"
        else:
            yield f"it failed ({last.reason or 'exit'}) and is tried again at {until}"

    def repairing(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """Say who repairs, in which round, or whom that one serves just now."""
        repair = phase.repair
        assert repair is not None, phase.name
        this = self.fold.rounds(phase.name) + 1
        yield f"it failed and `{repair.phase}` repairs it: round {this} of {repair.rounds}"
        serves = self.fold.serves(repair.phase)
        if serves not in {None, phase.name}:
            yield f"`{repair.phase}` works for `{serves}` at the moment"
        wait, wake_at = self.fold.standing(phase.name).wait, self.decision.wake_at
        if wait and wake_at is not None and wait[1] >= wake_at:
            yield f"`{repair.phase}` waits until {_instant(wait[1])}"
        yield f"a successful repair leads back to `{self.graph.target(phase.name)}`"

    def done(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """Say by which attempt."""
        last = self.fold.record(phase.name).entries[-1]
        by = f"in attempt {last.attempt}" if last.attempt else "by a person's approval"
        yield f"it succeeded {by}, and nothing that it needs has run again since"

    def skipped(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """Say by which expression."""
        yield f"its `when` was false: {phase.when}" if phase.when else "it was skipped"

    def excused(self, phase: Phase, _view: PhaseView) -> Iterator[str]:
        """It failed, and that does not matter."""
        standing = self.fold.standing(phase.name)
        yield from self._failure(phase, PhaseView("failed", standing.detail, standing.repair))
        yield "it has `allow_failure`, so the run goes on without it"

    def failed(self, phase: Phase, view: PhaseView) -> Iterator[str]:
        """Say why it failed for good, and what a resume does."""
        yield from self._failure(phase, view)
        yield from self._after_resume(view.repair or phase.name)

    def held(self, phase: Phase, view: PhaseView) -> Iterator[str]:
        """Say what a person is to do."""
        if view.repair:
            standing = self.fold.record(view.repair, phase.name).entries
            reason = standing[-1].reason if standing else None
            yield f"its repair phase `{view.repair}` is held: {_HELD.get(reason or '', reason)}"
        else:
            yield f"a person is needed: {_HELD.get(str(view.detail), view.detail)}"
        if view.detail != "gate" or view.repair:
            yield from self._after_resume(view.repair or phase.name)

    def repair_phase(self, name: str) -> Iterator[str]:
        """A repair phase is seen through its owners."""
        owners = self.graph.owners[name]
        listed = ", ".join(f"`{owner}`" for owner in owners)
        yield f"it is a repair phase: it runs only when it is called, by {listed}"
        if self.fold.is_running(name):
            yield f"it is running for `{self.fold.serves(name)}`"
        for owner in owners:
            view = self.decision.phases[owner]
            repair = self.graph.phases[owner].repair
            assert repair is not None, owner
            if view.repair == name:
                word = {"repairing": "calls it", "failed": "failed because it failed"}
                yield f"`{owner}` {word.get(view.state, f'is {view.state} because of it')}"
            used = self.fold.rounds(owner)
            yield f"rounds for `{owner}`: {used} of {repair.rounds} used"
            yield from _listing(self.fold.record(name, owner).entries, f"for `{owner}`, ")

    def attempts(self, name: str) -> Iterator[str]:
        """The attempts that count, the tries and the rounds left."""
        if not self.fold.needs_settled(name):
            return
        recent = self.fold.record(name).after(self.fold.base(name))
        yield from _listing(recent, "")
        phase = self.graph.phases[name]
        if recent and recent[-1].reason in _OWED:
            owed = ", ".join(f"`{each.name}` ({each.root}: {each.path})" for each in phase.outputs)
            yield f"it owes {owed or 'nothing any more'}"
        tries = sum(1 for entry in recent if is_failure(entry))
        if tries and phase.retry.attempts > 1:
            yield f"tries: {min(tries, phase.retry.attempts)} of {phase.retry.attempts} used"
        if phase.repair and (tries or self.fold.rounds(name)):
            yield f"repair rounds: {self.fold.rounds(name)} of {phase.repair.rounds} used"

    def _failure(self, phase: Phase, view: PhaseView) -> Iterator[str]:
        if view.repair:
            last = self.fold.record(view.repair, phase.name).entries[-1]
            yield f"its repair phase `{view.repair}` failed ({last.reason or 'exit'})"
        elif view.detail == "rounds":
            assert phase.repair is not None, phase.name
            times = f"{phase.repair.rounds} repair{'' if phase.repair.rounds == 1 else 's'}"
            yield f"it still fails after {times} by `{phase.repair.phase}`, the limit"
        elif view.detail in _FAILED:
            yield f"it failed for good: {_FAILED[str(view.detail)]}"
        else:
            yield f"it failed for good ({view.detail}): no try and no repair is left"
        if view.detail in FINAL:
            yield "such a failure is neither retried nor repaired"

    def _after_resume(self, name: str) -> Iterator[str]:
        if self.decision.closing in {"failed", "held", "cancelled"}:
            yield f"a resume starts `{name}` again with fresh counts and keeps what is settled"
        else:
            yield "other phases go on first; then a resume can start it again"

    def _unsettled(self, names: Sequence[str]) -> list[str]:
        return [n for n in dict.fromkeys(names) if self.decision.phases[n].state not in _SETTLED]

    def _roots(self, name: str) -> set[str]:
        """Unsettled phases upstream whose own needs are all settled."""
        upstream = reach([name], lambda n: self._unsettled(self.graph.phases[n].needs))
        return {n for n in upstream if not self._unsettled(self.graph.phases[n].needs)}

    def _words(self, name: str) -> str:
        view = self.decision.phases[name]
        if view.state == "wait":
            assert isinstance(view.detail, float | int)
            return f"waiting until {_instant(view.detail)}"
        if view.state in {"failed", "held"}:
            return f"{view.state} ({view.detail})"
        return {"repairing": "being repaired", "ready": "about to start"}.get(
            view.state, view.state
        )


def _listing(entries: Sequence[Entry], whose: str) -> Iterator[str]:
    """One line an attempt, the latest few."""
    left = len(entries) - SHOWN_ATTEMPTS
    if left > 0:
        yield f"{whose}{left} earlier attempt{'' if left == 1 else 's'} not shown"
    for entry in entries[-SHOWN_ATTEMPTS:]:
        if not entry.attempt:
            continue
        outcome = "succeeded" if entry.success else entry.reason or "exit"
        note = ", which uses up nothing" if outcome in FREE else ""
        at = f" at {entry.ended_at}" if entry.ended_at else ""
        yield f"{whose}attempt {entry.attempt}: {outcome}{at}{note}"


def _instant(seconds: float) -> str:
    text = datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    return text.replace("+00:00", "Z")
