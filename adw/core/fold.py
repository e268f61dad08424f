"""What the history says of each phase: entries are added one by one, and asked about at any time.

`Fold` keeps what an entry changes and judges again only what can have changed, so that a decision
after one more entry costs about the same for ten phases and for ten thousand. Nothing here knows
what time it is; "later" is a position in the history, never a time. Source: specs/0004.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Final

from adw.core.graph import Graph, Phase
from adw.core.standing import NEVER, NOTHING, Entry, PhaseView, Record, Standing, judge, view_of

PENDING: Final = Standing("pending")
RUNNING: Final = Standing("running")


@dataclass(frozen=True, slots=True)
class Live:
    """An attempt that is alive and has no entry yet."""

    phase: str
    attempt: int
    repairs: str | None = None
    """The owner it was called by; None for all but repair phases."""


class Fold:
    """A history, read once, and what follows from it for every phase of a graph.

    `add` is cheap and computes nothing; `settle` brings standings up to date and looks only at
    phases that new entries, new marks or a changed set of running attempts can have changed.
    Equal entries and running attempts give equal standings, however they came.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.length = 0
        """Entries so far, those of unknown phases too."""
        self.cancelled: set[str] = set()
        """Phases whose latest entry is `cancelled`."""
        self.rank: Mapping[str, int] = {name: i for i, name in enumerate(graph.order)}
        self.declared: Mapping[str, int] = {name: i for i, name in enumerate(graph.phases)}
        self.names = tuple(graph.phases)
        """In declared order."""
        self._highest: dict[str, int] = {}
        self._records: dict[tuple[str, str | None], Record] = {}
        self._marks: dict[str, int] = {}
        self._lead: dict[str, int] = {}
        self._rounds: dict[str, list[int]] = {}
        self._enclosed: dict[str, list[str]] = {}
        for inner, outers in graph.enclosing.items():
            for outer in outers:
                self._enclosed.setdefault(outer, []).append(inner)
        self._marks_above = dict.fromkeys(graph.order, NEVER)
        self._unsettled = {name: len(set(graph.phases[name].needs)) for name in graph.order}
        self._running: dict[str, str | None] = {}
        self._standings: dict[str, Standing] = dict.fromkeys(graph.order, PENDING)
        self._dirty: set[str] = set(graph.order)
        self._newly_marked: set[str] = set()
        self.views: dict[str, PhaseView] = dict.fromkeys(graph.order, PhaseView("pending"))
        """View of each phase by its standing alone; read after `settle`."""
        self.settled = 0
        """How many phases are settled."""
        self.failed: set[str] = set()
        self.held: set[str] = set()
        self.startable: list[int] = []
        """Declared positions of phases that may start whatever the time, in order."""
        self.asked: set[str] = set()
        """Phases for which time, a `when`, a gate or a repair phase must be looked at."""

    @classmethod
    def of(cls, graph: Graph, entries: Iterable[Entry]) -> "Fold":
        """The fold of a whole history."""
        fold = cls(graph)
        for entry in entries:
            fold.add(entry)
        return fold

    def add(self, entry: Entry) -> None:
        """Append one entry; one of a phase that the graph does not have only takes its place."""
        at, name = self.length, entry.phase
        self.length += 1
        self._highest[name] = max(self.attempt(name), entry.attempt)
        if name not in self.graph.phases:
            return
        if entry.reason == "cancelled":
            self.cancelled.add(name)
        else:
            self.cancelled.discard(name)
        if entry.reason == "invalidated":
            self._add_mark(name, at)
        elif name in self.graph.owners:
            self._add_repair(entry, at)
        else:
            self._records.setdefault((name, None), Record()).add(at, entry)
            self._dirty.add(name)

    def attempt(self, phase: str) -> int:
        """Highest attempt number of a phase in the whole history; 0 where there is none."""
        return self._highest.get(phase, 0)

    def record(self, phase: str, owner: str | None = None) -> Record:
        """Entries of a phase; of a repair phase those for `owner`."""
        return self._records.get((phase, owner), NOTHING)

    def mark(self, phase: str) -> int:
        """Position of the last mark on a phase."""
        return self._marks.get(phase, NEVER)

    def settle(self, running: Iterable[Live] = ()) -> None:
        """Bring all standings up to date with the entries so far and what runs."""
        now_running = {live.phase: live.repairs for live in running}
        for name, owner in now_running.items() ^ self._running.items():
            self._dirty.update(n for n in (name, owner) if n is not None and n in self.rank)
        self._running = now_running
        self._spread_marks()
        heap = [self.rank[name] for name in self._dirty]
        heapify(heap)
        waiting, self._dirty = self._dirty, set()
        while heap:
            name = self.graph.order[heappop(heap)]
            waiting.discard(name)
            for later in self._refresh(name):
                if later not in waiting:
                    waiting.add(later)
                    heappush(heap, self.rank[later])

    def standing(self, phase: str) -> Standing:
        """What a phase is; call `settle` first."""
        return self._standings[phase]

    def is_running(self, phase: str) -> bool:
        """Whether an attempt of it was running at the last `settle`."""
        return phase in self._running

    def serves(self, phase: str) -> str | None:
        """The owner for which a repair phase was running at the last `settle`; None for none."""
        return self._running.get(phase)

    def needs_settled(self, phase: str) -> bool:
        """Whether all that a phase needs is settled, so that it has a base."""
        return not self._unsettled[phase]

    def base(self, phase: str) -> int:
        """Only entries after this position count.

        The last of: where its needs are settled, its own last mark, and the last end of a repair
        round that leads back to it. Where the graph's `first` is settled counts for no other: that
        it prepared the worktree again makes no result stale.
        """
        found = max(self.mark(phase), self._lead.get(phase, NEVER))
        for need in self.graph.phases[phase].needs:
            if need == self.graph.first:
                continue
            at = self._standings[need].settled_at
            if at is not None and at > found:
                found = at
        return found

    def count_start(self, phase: str) -> int:
        """Rounds and equal failures are counted from here.

        The last of: any mark on the phase or on what it transitively needs, and the last round of
        an enclosing loop. Its own success is not in that list: two loops side by side would
        restart each other for ever.
        """
        outer = (self._rounds.get(o) for o in self.graph.enclosing.get(phase, ()))
        return max([self._marks_above[phase], *(r[-1] for r in outer if r)])

    def rounds(self, owner: str) -> int:
        """Repair rounds that have ended since the owner's count start."""
        found = self._rounds.get(owner, [])
        return len(found) - bisect_right(found, self.count_start(owner))

    def _add_mark(self, name: str, at: int) -> None:
        self._marks[name] = at
        if name in self.graph.owners:
            self._dirty.update(self.graph.owners[name])
        else:
            self._marks_above[name] = at
            self._newly_marked.add(name)

    def _add_repair(self, entry: Entry, at: int) -> None:
        """Add an attempt of a repair phase; a success ends a round and leads back to the target.

        Without an owner of this graph it belongs to no loop (another workflow's, or `--only`).
        """
        owner = entry.repairs
        if owner is None or owner not in self.graph.owners[entry.phase]:
            return
        self._records.setdefault((entry.phase, owner), Record()).add(at, entry)
        self._dirty.add(owner)
        if entry.success:
            target = self.graph.target(owner)
            self._rounds.setdefault(owner, []).append(at)
            self._lead[target] = at
            self._dirty.add(target)
            self._dirty.update(self._enclosed.get(owner, ()))

    def _spread_marks(self) -> None:
        """Tell each phase of the marks on what it transitively needs, in one pass."""
        heap = [self.rank[name] for name in self._newly_marked]
        heapify(heap)
        seen, self._newly_marked = self._newly_marked, set()
        while heap:
            name = self.graph.order[heappop(heap)]
            self._dirty.add(name)
            at = self._marks_above[name]
            for later in self.graph.dependents[name]:
                if self._marks_above[later] < at:
                    self._marks_above[later] = at
                    if later not in seen:
                        seen.add(later)
                        heappush(heap, self.rank[later])

    def _refresh(self, name: str) -> tuple[str, ...]:
        """Judge one phase again; returns who must be judged again because of it."""
        old, new = self._standings[name], self._stand(self.graph.phases[name])
        if new == old:
            return ()
        self._standings[name] = new
        self._place(name, old, remove=True)
        self._place(name, new, remove=False)
        self.views[name] = view_of(new)
        if new.settled_at == old.settled_at:
            return ()
        dependents = self.graph.dependents[name]
        change = (old.settled_at is None) - (new.settled_at is None)
        self.settled += change
        for later in dependents:
            self._unsettled[later] -= change
        return dependents

    def _stand(self, phase: Phase) -> Standing:
        name = phase.name
        if name in self._running:
            return RUNNING
        if self._unsettled[name]:
            return PENDING
        record, count_start = self.record(name), self.count_start(name)
        found = judge(phase, record, self.mark(name), self.base(name), count_start)
        if found.kind == "spent":
            found = self._repaired(phase, found, record.positions[-1])
        if found.kind == "failed" and phase.allow_failure:
            return Standing("excused", found.detail, found.repair, record.positions[-1])
        return found

    def _repaired(self, owner: Phase, spent: Standing, failed_at: int) -> Standing:
        """Rule 7: an owner without a try calls its repair phase, or has failed for good."""
        repair = owner.repair
        if repair is None:
            return Standing("failed", spent.detail)
        called = Standing("called", repair.phase, repair.phase)
        if self._running.get(repair.phase) == owner.name:
            return called
        if self.rounds(owner.name) >= repair.rounds:
            return Standing("failed", "rounds")
        mark = self.mark(repair.phase)
        base = max(mark, failed_at)
        record = self.record(repair.phase, owner.name)
        found = judge(self.graph.phases[repair.phase], record, mark, base, base)
        if found.kind == "held":
            return Standing("held", repair.phase, repair.phase)
        if found.kind in {"failed", "spent"}:
            return Standing("failed", repair.phase, repair.phase)
        return Standing("called", repair.phase, repair.phase, wait=found.wait)

    def _place(self, name: str, standing: Standing, *, remove: bool) -> None:
        """Put a phase into, or take it out of, the group that deciding looks at."""
        phase, kind = self.graph.phases[name], standing.kind
        groups = {"failed": self.failed, "held": self.held, "called": self.asked}
        group = groups.get(kind)
        if kind in {"fresh", "due"}:
            asks_when = phase.when is not None and kind == "fresh"
            if not (standing.wait or phase.gate or asks_when):
                at = self.declared[name]
                if remove:
                    del self.startable[bisect_left(self.startable, at)]
                else:
                    insort(self.startable, at)
                return
            group = self.asked
        if group is not None:
            (group.discard if remove else group.add)(name)
