"""The loop: decide, start all that may start, commit, let them go, wait for one thing, look again.

Starting, resuming and composing a run all end here. The order of writes is specs/0002: the packet
of the next attempt is written and handed over before the state is replaced, its body starts after.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from adw import failpoints
from adw.core.decide import Decision, Live, Start
from adw.core.graph import Graph
from adw.core.interfaces import Ended, LaunchSpec, RunRecord, Supervision, Ticker
from adw.ids import child_id


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sitting ended."""

    closing: str | None
    """succeeded, failed, held, cancelled, stuck; None: the run is not over."""
    wish: str | None
    """signal, cancel or pause, if one ended it."""
    wake_at: float | None = None
    """Something waits for this instant (epoch seconds)."""


def drive(run: RunRecord, supervision: Supervision, clock: Ticker, *, wait: bool = True) -> Outcome:
    """Run a workflow until it is over, held, or somebody wants it to stop.

    Args:
        run: The open run; attempts that live are adopted already.
        supervision: Where attempts run.
        clock: Wall time.
        wait: Sleep until a known instant; otherwise return with `wake_at`.
    """
    ended: Sequence[Ended] = ()
    asked: set[tuple[str, str]] = set()
    while True:
        for each in ended:
            run.record(each)
        wish = run.wish()
        decision, specs = _start(run, supervision, clock, wish, asked)
        over = [each.child_id for each in ended]
        run.commit(lambda over=over: supervision.await_durable(over))  # type: ignore[misc]
        for spec in specs:
            failpoints.hit("go.before")
            supervision.go(spec.child_id)
            run.launched(spec.child_id)
            failpoints.hit("go.after")
        run.publish(decision)
        over_now = decision.closing or wish or not (wait and decision.wake_at)
        if over_now and not run.running():
            return Outcome(decision.closing, wish, decision.wake_at)
        ended = _wait(run, supervision, clock, decision, wish)


def admit(graph: Graph, running: Sequence[Live], starts: Sequence[Start]) -> list[Start]:
    """Hold back starts that would share the worktree with a writing phase.

    A writing phase runs alone; nothing that comes after a waiting writer overtakes it.
    """
    admitted: list[Start] = []
    for start in starts:
        busy = [live.phase for live in running] + [each.phase for each in admitted]
        # What the graph has not is of the workflow before this one, and may write.
        if any(name not in graph.phases or graph.phases[name].writes for name in busy):
            break
        if graph.phases[start.phase].writes and busy:
            break
        admitted.append(start)
    return admitted


def _start(
    run: RunRecord,
    supervision: Supervision,
    clock: Ticker,
    wish: str | None,
    asked: set[tuple[str, str]],
) -> tuple[Decision, list[LaunchSpec]]:
    """Decide until nothing is left to record, and hand the starts over; `asked` as `_stop_all`."""
    specs: list[LaunchSpec] = []
    while True:
        if wish == "cancel" and not run.running():
            run.record_cancel(clock.now())
        decision = run.decide(clock.now())
        if wish is not None:
            _stop_all(run, supervision, wish, asked)
            return decision, specs
        for phase in decision.skips:
            run.record_skip(phase)
        again = bool(decision.skips)
        for start in () if again else admit(run.graph, run.running(), decision.starts):
            prepared = run.prepare(start)
            if prepared is None:
                again = True
                break
            supervision.hand_over(*prepared)
            failpoints.hit("packet.handed_over")
            specs.append(prepared[0])
        if not again:
            return decision, specs


def _stop_all(
    run: RunRecord, supervision: Supervision, wish: str, asked: set[tuple[str, str]]
) -> None:
    """Ask once for each wish: a second time would end the grace of an attempt."""
    if wish == "pause":
        return
    for live in run.running():
        child = child_id(live.phase, live.attempt)
        if (wish, child) not in asked:
            asked.add((wish, child))
            supervision.stop(child)


def _wait(
    run: RunRecord, supervision: Supervision, clock: Ticker, decision: Decision, wish: str | None
) -> Sequence[Ended]:
    """Sleep until there is something to record, to decide anew, or another wish than `wish`.

    A signal that comes after the decision has made its descriptor readable, so the sleep ends at
    once and the new wish is seen.
    """
    if run.wish() != wish:
        return ()
    while True:
        waits = [run.tick_s()]
        if decision.wake_at is not None and wish is None:
            waits.append(max(0.0, decision.wake_at - clock.now()))
        ended = supervision.wait(min((w for w in waits if w is not None), default=None))
        run.tick()
        due = decision.wake_at is not None and clock.now() >= decision.wake_at
        if ended or (due and wish is None) or run.wish() != wish or run.dirty():
            return ended
