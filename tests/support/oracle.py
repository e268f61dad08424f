"""The rule of what runs next, word by word: slow, recursive, nothing kept between questions.

Written to be compared with `adw.core.decide`, so it shares no code with it: every question scans
the whole history again. An entry's position is its place in the list; "later" means position.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adw.core.fold import Live
from adw.core.graph import Graph
from adw.core.standing import Entry, instant

FAILURE = [
    "exit",
    "timeout",
    "idle",
    "signal",
    "oom",
    "disk",
    "missing_output",
    "contract",
    "result_invalid",
    "no_change",
    "agent_error",
    "rejected",
]
FINAL = ["auth", "spawn_failed", "workspace", "stuck", "tampered"]
HELD = ["blocked", "budget", "effect_unknown", "cancelled"]
FREE = ["interrupted", "lost", "rate_limited"]


@dataclass
class Answer:
    """What the oracle says; `states` is comparable with `Decision.phases`."""

    starts: list[tuple[str, int, str | None]] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    wake_at: float | None = None
    closing: str | None = None
    states: dict[str, tuple[str, object]] = field(default_factory=dict)


class Oracle:
    """One history, one set of running attempts, one moment."""

    def __init__(
        self,
        graph: Graph,
        history: Sequence[Entry],
        running: Sequence[Live] = (),
        now: float = 0.0,
        holds: Callable[[str, str], bool] = lambda _phase, _when: True,
    ) -> None:
        self.graph, self.running, self.now, self.holds = graph, running, now, holds
        self.all = list(enumerate(history))
        self.history = [(k, e) for k, e in self.all if e.phase in graph.phases]
        self.known: dict[tuple[str, str], object] = {}

    # --- the graph ---

    def needs(self, name: str) -> set[str]:
        """All that a phase transitively needs."""
        direct = self.graph.phases[name].needs
        return set(direct).union(*(self.needs(need) for need in direct))

    def owners(self, repair: str) -> list[str]:
        """Phases that name it as their repair."""
        phases = self.graph.phases.values()
        return [p.name for p in phases if p.repair and p.repair.phase == repair]

    def ordinary(self) -> list[str]:
        """All but repair phases."""
        return [name for name in self.graph.phases if not self.owners(name)]

    def target(self, owner: str) -> str:
        """Where its repair leads back to."""
        repair = self.graph.phases[owner].repair
        assert repair
        return repair.back_to or owner

    def enclosing(self, name: str) -> list[str]:
        """Owners of loops around it: the owner needs it, the target is it or what it needs."""
        return [
            owner
            for owner in self.ordinary()
            if self.graph.phases[owner].repair
            and name in self.needs(owner)
            and self.target(owner) in {name} | self.needs(name)
        ]

    # --- positions in the history ---

    def mark(self, name: str) -> int:
        """Its own last mark; -1 for none."""
        return max((k for k, e in self.history if e.phase == name and is_mark(e)), default=-1)

    def own(self, name: str, owner: str | None = None) -> list[tuple[int, Entry]]:
        """Its entries but marks; of a repair phase those for one owner."""
        return [
            (k, e)
            for k, e in self.history
            if e.phase == name and not is_mark(e) and (owner is None or e.repairs == owner)
        ]

    def round_ends(self, owner: str) -> list[int]:
        """Where repair rounds of an owner ended."""
        repair = self.graph.phases[owner].repair
        return [k for k, e in self.own(repair.phase, owner) if e.success] if repair else []

    def base(self, name: str) -> int:
        """The last of: its needs' settled positions, its own mark, rounds leading back to it."""
        settled = [self.settled(need) for need in self.graph.phases[name].needs]
        assert None not in settled
        rounds = [
            k
            for owner in self.ordinary()
            if self.graph.phases[owner].repair and self.target(owner) == name
            for k in self.round_ends(owner)
        ]
        return max([self.mark(name), *rounds, *(k for k in settled if k is not None)])

    def count_start(self, name: str) -> int:
        """The last of: a mark on it or what it needs; for an owner, an enclosing loop's round."""
        marks = [self.mark(each) for each in {name} | self.needs(name)]
        outer = self.enclosing(name) if self.graph.phases[name].repair else []
        rounds = [k for owner in outer for k in self.round_ends(owner)]
        return max(marks + rounds)

    # --- what a phase is ---

    def runs(self, name: str) -> bool:
        return any(live.phase == name for live in self.running)

    def needs_settled(self, name: str) -> bool:
        return all(self.settled(need) is not None for need in self.graph.phases[name].needs)

    def settled(self, name: str) -> int | None:
        """The position at which it is settled."""
        if ("settled", name) not in self.known:
            self.known["settled", name] = self._settled(name)
        found = self.known["settled", name]
        assert found is None or isinstance(found, int)
        return found

    def _settled(self, name: str) -> int | None:
        if self.runs(name) or not self.needs_settled(name):
            return None
        entries = [(k, e) for k, e in self.history if e.phase == name]
        if entries and entries[-1][1].success and entries[-1][0] > self.base(name):
            return entries[-1][0]
        if self.graph.phases[name].allow_failure and self.verdict(name)[0] == "failed":
            return entries[-1][0]
        return None

    def judged(
        self, name: str, owner: str | None, base: int, count_start: int
    ) -> tuple[str, object]:
        """Rules 1 to 6: fresh, due, wait, failed, held or spent."""
        entries = self.own(name, owner)
        after = [e for k, e in entries if k > base]
        latest = entries[-1][1] if entries else None
        if latest and latest.reason == "rate_limited" and entries[-1][0] > self.mark(name):
            row = 0
            while row < len(entries) and entries[-1 - row][1].reason in FREE:
                if entries[-1 - row][0] < self.mark(name):
                    break
                row += 1
            if row >= 50:
                return "held", "rate_limited"
            if self.waited_for(latest, instant(latest.not_before)):
                return "wait", instant(latest.not_before)
        if not after:
            return "fresh", None
        latest = after[-1]
        if latest.reason in FREE:
            if [e.reason for e in after[-3:]] == ["lost", "lost", "lost"]:
                return "failed", "lost"
            return "due", None
        if latest.reason in FINAL:
            return "failed", latest.reason
        if latest.reason in HELD:
            return "held", latest.reason
        same = [e for k, e in entries if k > count_start and e.signature and failed(e)]
        if latest.signature and [e.signature for e in same].count(latest.signature) >= 3:
            return "failed", "no_progress"
        failures = [e for e in after if failed(e)]
        missing = [e for e in after if e.reason == "missing_output"]
        if latest.reason == "missing_output" and len(missing) == 1:
            return "due", None
        retry, n = self.graph.phases[name].retry, len(failures)
        reason = latest.reason or "exit"
        if n < retry.attempts and reason != "rejected" and (not retry.on or reason in retry.on):
            ended = instant(latest.ended_at)
            pause = min(retry.delay_s * retry.factor ** (n - 1), retry.max_delay_s)
            due = None if ended is None else ended + pause
            return ("wait", due) if self.waited_for(latest, due) else ("due", None)
        return "spent", reason

    def waited_for(self, entry: Entry, until: float | None) -> bool:
        ended = instant(entry.ended_at)
        return ended is not None and until is not None and ended <= self.now < until

    def verdict(self, name: str) -> tuple[str, object]:
        """Rules 1 to 7 for a phase whose needs are settled."""
        found = self.judged(name, None, self.base(name), self.count_start(name))
        if found[0] != "spent":
            return found
        repair = self.graph.phases[name].repair
        if not repair:
            return "failed", found[1]
        if any(live.phase == repair.phase and live.repairs == name for live in self.running):
            return "called", None
        rounds = [k for k in self.round_ends(name) if k > self.count_start(name)]
        if len(rounds) >= repair.rounds:
            return "failed", "rounds"
        failures = [k for k, e in self.own(name) if failed(e)]
        base = max(failures[-1], self.mark(repair.phase))
        state, detail = self.judged(repair.phase, name, base, base)
        if state in {"failed", "spent"}:
            return "failed", repair.phase
        if state == "held":
            return "held", repair.phase
        return "called", detail if state == "wait" else None

    def under_running(self, name: str) -> bool:
        """Whether what transitively needs it, or a repair for it or for such, is running."""
        for live in self.running:
            subject = live.repairs or live.phase
            if subject in self.graph.phases and name in self.needs(subject):
                return True
            if live.repairs == name:
                return True
        return False

    # --- the decision ---

    def decide(self) -> Answer:
        """The whole decision."""
        answer, wakes = Answer(), list[float]()
        wants: list[tuple[str, str | None]] = []
        for name in self.ordinary():
            answer.states[name] = self._state(name, answer, wants, wakes)
        if self.cancelled():
            answer.skips = []
        else:
            self._choose(answer, wants)
            answer.wake_at = min(wakes, default=None)
        answer.closing = self._closing(answer)
        return answer

    def cancelled(self) -> list[str]:
        """Phases whose latest entry is `cancelled`."""
        latest = {e.phase: e for _, e in self.history}
        return [name for name, e in latest.items() if e.reason == "cancelled"]

    def _state(
        self,
        name: str,
        answer: Answer,
        wants: list[tuple[str, str | None]],
        wakes: list[float],
    ) -> tuple[str, object]:
        phase = self.graph.phases[name]
        if self.runs(name):
            return "running", None
        if not self.needs_settled(name):
            return "pending", None
        at = self.settled(name)
        if at is not None:
            entry = dict(self.all)[at]
            kind = "excused" if not entry.success else "skipped" if entry.reason else "done"
            return kind, at
        state, detail = self.verdict(name)
        if state == "called":
            assert phase.repair
            if isinstance(detail, float) and not self.runs(phase.repair.phase):
                wakes.append(detail)
            elif not self.runs(phase.repair.phase):
                wants.append((phase.repair.phase, name))
            return "repairing", phase.repair.phase
        if state == "wait":
            assert isinstance(detail, float)
            wakes.append(detail)
        if state not in {"fresh", "due"}:
            return state, detail
        if self.under_running(name):
            return "pending", None
        if state == "fresh" and phase.when and not self.holds(name, phase.when):
            answer.skips.append(name)
            return "ready", None
        if phase.gate:
            return "held", "gate"
        wants.append((name, None))
        return "ready", None

    def _choose(self, answer: Answer, wants: list[tuple[str, str | None]]) -> None:
        declared = list(self.graph.phases)
        wants.sort(key=lambda want: (declared.index(want[0]), declared.index(want[1] or want[0])))
        for name, owner in wants:
            if len(self.running) + len(answer.starts) >= self.graph.max_parallel:
                return
            if name not in [start[0] for start in answer.starts]:
                numbers = [e.attempt for _, e in self.all if e.phase == name]
                numbers += [live.attempt for live in self.running if live.phase == name]
                answer.starts.append((name, 1 + max(numbers, default=0), owner))

    def _closing(self, answer: Answer) -> str | None:
        if self.running or answer.starts or answer.skips:
            return None
        if self.cancelled():
            return "cancelled"
        if answer.wake_at is not None:
            return None
        states = [state for state, _ in answer.states.values()]
        if all(state in {"done", "skipped", "excused"} for state in states):
            return "succeeded"
        return next((each for each in ("failed", "held") if each in states), "stuck")


def is_mark(entry: Entry) -> bool:
    """A person wants the phase started again."""
    return entry.reason == "invalidated"


def failed(entry: Entry) -> bool:
    """A counted failure; null reads as exit."""
    return not entry.success and (entry.reason or "exit") in FAILURE
