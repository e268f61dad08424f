"""Random runs: a graph and everything that can happen to it, drawn from a tape of bytes.

A tape shrinks well and needs no generator; where it ends, the first choice is taken, which is the
harmless one. Each decision on the way is compared with a fold made anew and with the oracle.
"""

from collections.abc import Sequence
from dataclasses import replace

from adw.core.compile import compile_graph
from adw.core.decide import (
    Decision,
    Fold,
    Live,
    decide,
    ends_first,
    from_marks,
    resume_marks,
)  # fmt: skip
from adw.core.graph import Graph, Phase, Repair, Retry
from tests.support.oracle import Oracle
from tests.unit.core.histories import Entry, entry, iso

OUTCOMES = (
    "ok", "ok", "ok", "ok", "ok", "ok", "exit", "exit", "exit/a", "exit/a", "exit/a", "timeout", "missing_output", "lost", "lost",
    "interrupted", "rate_limited", "spawn_failed", "blocked",
)  # fmt: skip


class Tape:
    """Choices, one byte each."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def pick(self, count: int) -> int:
        """A number below `count`; 0 after the end."""
        return next(self._data, 0) % count

    def chance(self, one_in: int) -> bool:
        """Rarely true; false after the end."""
        return self.pick(one_in) == one_in - 1


def random_graph(tape: Tape, *, plain: bool = False) -> Graph:
    """One to six phases and up to two repair phases.

    Args:
        tape: Where choices come from.
        plain: Without gates and delays, one at a time.
    """
    names = [f"p{i}" for i in range(1 + tape.pick(6))]
    above: dict[str, list[str]] = {}
    phases = []
    for i, name in enumerate(names):
        needs = [n for n in names[:i] if tape.chance(2)]
        above[name] = [n for n in names[:i] if n in needs or any(n in above[m] for m in needs)]
        phases.append(_random_phase(tape, name, needs, above[name], plain=plain))
    used = {p.repair.phase for p in phases if p.repair}
    repairs = [Phase(r, retry=Retry(1 + tape.chance(3))) for r in ("r0", "r1") if r in used]
    parallel = 1 if plain else (99, 1, 2, 3)[tape.pick(4)]
    every = [*repairs, *phases] if tape.chance(2) else [*phases, *repairs]
    return compile_graph("w", every, parallel)


def _random_phase(
    tape: Tape, name: str, needs: list[str], above: list[str], *, plain: bool
) -> Phase:
    repair = None
    if tape.pick(3):
        back_to = above[tape.pick(len(above))] if above and tape.pick(4) else None
        repair = Repair(f"r{tape.pick(2)}", 1 + tape.pick(2), back_to)
    delay = 0 if plain or not tape.chance(4) else 5
    on = frozenset({"timeout", "exit"}) if tape.chance(3) else None
    return Phase(
        name,
        needs=tuple(needs),
        retry=Retry(1 + tape.pick(3), delay_s=delay, factor=2, on=on),
        repair=repair,
        allow_failure=tape.chance(5),
        gate=not plain and tape.chance(6),
        when="flag" if tape.chance(5) else None,
    )


class World:
    """One run: history, what is alive, what time it is."""

    def __init__(self, graph: Graph, tape: Tape) -> None:
        self.graph, self.tape = graph, tape
        self.history: list[Entry] = []
        self.fold = Fold(graph)
        self.running: list[Live] = []
        self.now = 0.0
        self.false: set[str] = set()

    def holds(self, phase: str, _when: str) -> bool:
        return phase not in self.false

    def add(self, found: Entry) -> None:
        self.history.append(found)
        self.fold.add(found)

    def note(self, phase: str, outcome: str) -> None:
        """An entry without an attempt: mark, skip, decision of a gate."""
        self.add(entry(f"{phase} {outcome}", ended=self.now))

    def decide(self) -> Decision:
        """Decide, and compare with a fold made anew and with the oracle."""
        found = decide(self.graph, self.fold, self.running, self.now, self.holds)
        again = decide(
            self.graph, Fold.of(self.graph, self.history), self.running, self.now, self.holds
        )
        assert found == again
        compare(found, self.graph, self.history, self.running, self.now, self.false)
        return found

    def start(self, decision: Decision) -> None:
        """Record skips and start what may start; a host limit may hold some back."""
        for name in decision.skips:
            self.note(name, "skipped")
        if decision.skips:
            return
        new = [Live(s.phase, s.attempt, s.repairs) for s in decision.starts]
        used = {(e.phase, e.attempt) for e in self.history}
        assert not used & {(each.phase, each.attempt) for each in new}
        assert len(self.running) + len(new) <= self.graph.max_parallel
        alive = [live.phase for live in [*self.running, *new]]
        assert len(alive) == len(set(alive))
        both = [*self.running, *new]
        assert not decide(self.graph, self.fold, both, self.now, self.holds).starts
        self.running += new[:1] if self.tape.chance(6) else new

    def end(self, live: Live, outcome: str) -> None:
        """An attempt is over."""
        self.running.remove(live)
        found = entry(f"{live.phase} {outcome}", live.attempt, self.now)
        if outcome == "rate_limited":
            found = replace(found, not_before=iso(self.now + 7))
        self.add(replace(found, repairs=live.repairs))

    def happen(self, decision: Decision) -> None:
        """Something happens: an attempt ends, a person acts, time passes, a crash."""
        event = self.tape.pick(12)
        if decision.closing in {"failed", "cancelled", "succeeded"} and event < 9:
            self._person(decision)
        elif event == 11:
            self._crash()
        elif event == 10:
            self._person(decision)
        elif event == 9:
            self.now += (1, 6, 30)[self.tape.pick(3)]
            if self.tape.chance(8):
                self.now = max(0.0, self.now - 50)
        elif event == 8:
            self.false ^= {list(self.graph.phases)[self.tape.pick(len(self.graph.phases))]}
        elif self.running:
            live = self.running[self.tape.pick(len(self.running))]
            self.end(live, OUTCOMES[self.tape.pick(len(OUTCOMES))])
        else:
            self.go_on(decision, always_ok=False)

    def go_on(self, decision: Decision, *, always_ok: bool) -> None:
        """Nothing runs: decide about a gate, else let the awaited instant come."""
        gates = [n for n, v in decision.phases.items() if v.detail == "gate"]
        if gates and decision.closing == "held":
            yes = always_ok or not self.tape.chance(2)
            self.note(gates[0], "ok" if yes else "rejected")
        elif decision.wake_at is not None:
            self.now = decision.wake_at

    def resume(self) -> None:
        """A person's plain resume."""
        for name in resume_marks(self.graph, self.fold, self.now, self.holds, self.running):
            self.note(name, "invalidated")

    def again_from(self, phase: str) -> None:
        """A person's `--from PHASE`."""
        for live in ends_first(self.graph, self.running, phase):
            self.end(live, "interrupted")
        for name in from_marks(self.graph, self.fold, phase):
            self.note(name, "invalidated")

    def finish(self) -> Decision:
        """One resume, then only successes and approvals."""
        for live in list(self.running):
            self.end(live, "ok")
        self.false.clear()
        resumed = False
        for _ in range(200):
            decision = self.decide()
            if decision.closing in {"failed", "cancelled", "held"} and not resumed:
                gates = [v for v in decision.phases.values() if v.detail == "gate"]
                if decision.closing != "held" or not gates:
                    resumed = True
                    self.resume()
                    continue
            if decision.closing == "succeeded":
                return decision
            self.start(decision)
            if self.running:
                self.end(self.running[0], "ok")
            elif not decision.skips:
                self.go_on(decision, always_ok=True)
        message = f"never succeeds: {self.decide()}"
        raise AssertionError(message)

    def _crash(self) -> None:
        """The orchestrator dies: each attempt lives on, ended meanwhile, or is lost."""
        for live in list(self.running):
            fate = self.tape.pick(4)
            if fate == 1:
                self.end(live, "ok")
            elif fate > 1:
                self.end(live, ("interrupted", "lost")[fate - 2])

    def _person(self, decision: Decision) -> None:
        ordinary = self.graph.order
        act = self.tape.pick(4)
        if act == 0:
            self.resume()
        elif act == 1:
            self.again_from(ordinary[self.tape.pick(len(ordinary))])
        elif act == 2:  # a mark that did not wait for the end of what works on the old result
            self.note(ordinary[self.tape.pick(len(ordinary))], "invalidated")
        elif self.running:
            for live in list(self.running):
                self.end(live, "cancelled")
        else:
            self.go_on(decision, always_ok=False)


def compare(
    found: Decision,
    graph: Graph,
    history: Sequence[Entry],
    running: Sequence[Live],
    now: float,
    false: set[str],
) -> None:
    """The decision is the oracle's."""
    oracle = Oracle(graph, history, running, now, lambda phase, _when: phase not in false)
    want = oracle.decide()
    assert {n: (v.state, v.detail) for n, v in found.phases.items()} == want.states
    assert [(s.phase, s.attempt, s.repairs) for s in found.starts] == want.starts
    assert sorted(found.skips) == sorted(want.skips)
    assert found.wake_at == want.wake_at
    assert found.closing == want.closing
    assert found.closing != "stuck"


def run_random(data: bytes, length: int = 40) -> World:
    """A random run; every decision of it is checked."""
    tape = Tape(data)
    world = World(random_graph(tape), tape)
    for _ in range(length):
        decision = world.decide()
        world.start(decision)
        world.happen(decision)
    return world
