"""A run's place among those that may work at once (`max_concurrent`), and its wait for one.

A run that waits exists, holds its lock and has neither ports nor a worktree yet. It takes up what
people ask of it, and leaves the queue for a signal, a cancel or a pause. A run that only waits for
an instant far away lets others have its place meanwhile.
"""

import math
import os
import select
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from adw import clock, engine, log
from adw.core.decide import Decision
from adw.core.interfaces import Supervision
from adw.engine import Outcome
from adw.errors import AdwError, StoreError
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.store import attempts, requests, runs
from adw.workspace import queue, tables

if TYPE_CHECKING:
    from adw.app.session import Session
    from adw.app.wishes import Wishes

QUEUED: Final = "queued"
"""How the sitting stands while it waits (`left` in latest.json)."""
NO_PLACE: Final = "no_place"
"""How a sitting ended that was not to wait."""
_POLL_S: Final = 1.0  # a place that was given back wakes the next; a killed run wakes nobody
_FAR_S: Final = 30.0  # a shorter wait is not worth another turn
_LONGEST_S: Final = 3600.0  # poll(2) counts milliseconds in an int
_FIX: Final = "ADW_HOST_DIR names a folder that can be written, or no `max_concurrent` in adw.yaml"


class Place:
    """A run's place, from the taking of its lock to the end of the sitting."""

    def __init__(self, ticket: queue.Ticket | None) -> None:
        """Take nothing yet.

        Args:
            ticket: The run's; None: it needs no place, and may work at once.
        """
        self._ticket = ticket
        self._host_dir = tables.host_dir()
        self._entered = False
        self.admitted = ticket is None
        """Whether it may work."""

    @property
    def limited(self) -> bool:
        """Whether only so many may work at once."""
        return self._ticket is not None

    @classmethod
    def of(cls, root: str, run_dir: str, state: ADWStateData, config: Mapping[str, Any]) -> Self:
        """The place of a run.

        It needs none where no limit is set, and where adw was called from inside a phase: the run
        above has a place already, and would wait for ever for one that waits for it.
        """
        limit = config.get("max_concurrent")
        if not limit or os.environ.get("ADW_CHILD"):
            return cls(None)
        where = os.path.realpath(run_dir), os.path.realpath(root)
        return cls(queue.Ticket(state.adw_id, *where, limit))

    def __enter__(self) -> Self:
        """Nothing is taken yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Give it back."""
        self.give_back()

    def give_back(self) -> None:
        """Leave the queue and wake who is next; where that fails, the death of this process does."""
        if self._ticket is None or not self._entered:
            return
        self._entered = self.admitted = False
        try:
            for run_dir in queue.leave(self._host_dir, self._ticket, runs.alive):
                requests.wake(run_dir)
        except (AdwError, OSError) as failed:
            log.event("queue.not_left", reason=str(failed))

    def look(self, *, working: bool = False) -> queue.Standing | None:
        """Where the run stands now; the place is taken if it is its turn. None: it needs none.

        Args:
            working: A phase of the run lives, so that it takes its place at once.
        """
        if self._ticket is None:
            return None
        try:
            if self._entered:
                found = queue.advance(self._host_dir, self._ticket, runs.alive)
            else:
                found = queue.enter(self._host_dir, self._ticket, runs.alive, working=working)
        except StoreError as error:
            raise error.with_fields(fix=_FIX) from error
        self._entered = True
        self.admitted = found.position == 0
        return found


def all_recorded(run_dir: str, state: ADWStateData) -> bool:
    """Whether no attempt's end is still to be recorded, for which the worktree must be there."""
    known = {child_id(entry.phase, entry.attempt) for entry in state.phase_history}
    return known.issuperset(attempts.child_ids(run_dir))


def await_place(
    place: Place,
    session: "Session | None",
    wishes: "Wishes",
    say: Callable[[str], None],
    *,
    wait: bool,
) -> bool:
    """Wait until it is the run's turn.

    Args:
        place: The run's.
        session: The open run, for what is asked of it and told meanwhile; None: what is asked is
            left for later, except that a cancel or a pause ends the wait.
        wishes: Its signals and requests.
        say: Takes one line for people, each time that the position changes.
        wait: False: only look.

    Returns:
        Whether it has its place; False: somebody wants something else, or `wait` is False.
    """
    run_dir = wishes.run_dir
    begun = clock.monotonic()
    told = None
    while not _wished(session, wishes):
        found = place.look()
        if found is None or place.admitted:
            if session is not None and told is not None:
                _tell_end(session, clock.monotonic() - begun)
            return True
        if found.position != told:
            say(f"run {os.path.basename(run_dir)} is queued: {queue.words(found)}")
            if session is not None and told is None:
                _tell_begin(session, found)
            told = found.position
        if not wait:
            break
        _sleep(wishes)
        if session is not None:
            session.tick()
            if session.dirty():
                _settle(session)
    if session is not None:
        session.left = None
    return False


def drive(
    place: Place,
    session: "Session",
    supervision: Supervision,
    say: Callable[[str], None],
    *,
    wait: bool,
) -> Outcome:
    """Drive a run that has its place, as `engine.drive`.

    While it only waits for an instant that is far away, others may have its place; then it queues
    again.
    """
    ticker = clock.Clock()
    if not (place.limited and wait):
        return engine.drive(session, supervision, ticker, wait=wait)
    while True:
        outcome = engine.drive(session, supervision, ticker, wait=False)
        if outcome.closing or outcome.wish or outcome.wake_at is None:
            return outcome
        if outcome.wake_at - ticker.now() > _FAR_S:
            place.give_back()
        _rest(session, ticker, outcome.wake_at)
        if not place.admitted:
            await_place(place, session, session.parts.wishes, say, wait=True)


def _rest(session: "Session", ticker: clock.Clock, until: float | None) -> None:
    """Sleep until an instant (epoch seconds), or until there is something to start or a wish."""
    while until is not None and session.wish() is None:
        left_s = until - ticker.now()
        if left_s <= 0:
            return
        _sleep(session.parts.wishes, min(left_s, session.tick_s() or left_s))
        session.tick()
        if session.dirty():
            decision = _settle(session)
            now = decision.starts or decision.skips or decision.closing
            until = None if now else decision.wake_at


def _wished(session: "Session | None", wishes: "Wishes") -> bool:
    if session is not None:
        return session.wish() is not None
    if wishes.signal is not None:
        return True
    new = [each for each in requests.pending(wishes.run_dir) if each.name not in wishes.left_over]
    return any(each.kind in {"cancel", "pause"} for each in new)


def _sleep(wishes: "Wishes", longest_s: float = _POLL_S) -> None:
    poll = select.poll()
    for fd in wishes.fds:
        poll.register(fd, select.POLLIN)
    poll.poll(math.ceil(min(longest_s, _LONGEST_S) * 1000))
    wishes.drain()


def _tell_begin(session: "Session", found: queue.Standing) -> None:
    session.left = QUEUED
    session.event("run_queued", {"position": found.position, "limit": found.limit})
    _settle(session)


def _tell_end(session: "Session", waited_s: float) -> None:
    session.left = None
    session.event("run_admitted", {"waited_s": round(waited_s)})


def _settle(session: "Session") -> Decision:
    """Put what was asked into the state, and what is told where readers find it."""
    decision = session.decide(clock.Clock().now())
    session.commit()
    session.publish(decision)
    return decision
