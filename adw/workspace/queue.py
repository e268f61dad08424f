"""Who may work now: at most so many runs of a repository at once, the others in the order they came.

One table in the host directory, `queue.json`, has a row for each run that works or waits where a
limit (`max_concurrent`) is set. A row counts for as long as its run lives, which kernel locks tell,
not its age: the place of a run that was killed is free at once, and a run whose phase outlived its
orchestrator keeps its place. Nobody is asked: each run that waits looks for itself.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from adw.store import files
from adw.workspace import locks, tables

Alive = Callable[[str], bool]
"""Tells of a run's directory whether its run lock or an attempt's lock is held."""

TABLE: Final = "queue.json"
_KEY: Final = "runs"
_LOCK_WAIT_S: Final = 20.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """One row: a run that works or waits."""

    adw_id: str
    run_dir: str
    """Absolute; two repositories may have runs of the same id."""
    repository: str
    """Absolute; the limit is for its runs together."""
    limit: int
    """How many runs of the repository may work at once, as this one knows it."""
    admitted: bool = False
    """It works; otherwise it waits."""


@dataclass(frozen=True, slots=True)
class Standing:
    """Where a run stands in the queue of its repository."""

    position: int
    """0: it works; 1: it is next."""
    waiting: int
    """How many wait, this one included."""
    working: int
    """How many work, this one included."""
    limit: int


def enter(host_dir: str, ticket: Ticket, alive: Alive, *, working: bool = False) -> Standing:
    """Go to the end of the queue, and out of it at once where a place is free.

    Args:
        host_dir: As `tables.host_dir()` says; made if missing.
        ticket: The run; an older row of it goes.
        alive: Of other runs.
        working: A phase of the run lives: it has its place already, whatever the limit says.

    Raises:
        HostLocked: The host's lock stayed taken.
        StoreError: The table cannot be written.
    """
    with locks.storing(host_dir):
        files.make_dirs(host_dir)

    def change(rows: list[Ticket]) -> list[Ticket]:
        others = [each for each in rows if each.run_dir != ticket.run_dir]
        return [*others, replace(ticket, admitted=working)]

    return _standing(_changed(host_dir, change, ticket, alive), ticket, alive)


def advance(host_dir: str, ticket: Ticket, alive: Alive) -> Standing:
    """Look whether it is this run's turn, and take the place if it is.

    The lock is taken only where the look says so; `enter` came before.
    """
    seen = tables.peek(os.path.join(host_dir, TABLE), _KEY, _row)
    found = _standing(seen, ticket, alive)
    known = any(each.run_dir == ticket.run_dir for each in seen)
    if known and (found.position == 0 or not _is_turn(seen, ticket, alive)):
        return found

    def change(rows: list[Ticket]) -> list[Ticket]:
        if any(each.run_dir == ticket.run_dir for each in rows):
            return rows
        return [*rows, ticket]  # the table was removed, or damaged and set aside

    return _standing(_changed(host_dir, change, ticket, alive), ticket, alive)


def leave(host_dir: str, ticket: Ticket, alive: Alive) -> list[str]:
    """Give the place back.

    Returns:
        Directories of the runs that may take a place now, to be woken.
    """

    def change(rows: list[Ticket]) -> list[Ticket]:
        return [each for each in rows if each.run_dir != ticket.run_dir]

    rows = _changed(host_dir, change, ticket, alive)
    waiting = [each for each in _of(rows, ticket) if not each.admitted and alive(each.run_dir)]
    return [each.run_dir for each in waiting if _is_turn(rows, each, alive)]


def waits(host_dir: str, run_dir: str) -> bool:
    """Whether a run that lives waits for a place; for readers."""
    return _find(host_dir, run_dir)[1] is not None


def standing(host_dir: str, run_dir: str, alive: Alive) -> Standing | None:
    """Where a run that lives waits; None where it does not wait. For readers."""
    rows, ticket = _find(host_dir, run_dir)
    return None if ticket is None else _standing(rows, ticket, alive)


def words(found: Standing) -> str:
    """Such as: position 2 of 3 in the queue, 2 runs work (`max_concurrent: 2`)."""
    runs_work = "1 run works" if found.working == 1 else f"{found.working} runs work"
    return (
        f"position {found.position} of {found.waiting} in the queue, {runs_work}"
        f" (`max_concurrent: {found.limit}`)"
    )


def _find(host_dir: str, run_dir: str) -> tuple[list[Ticket], Ticket | None]:
    rows = tables.peek(os.path.join(host_dir, TABLE), _KEY, _row)
    run_dir = os.path.realpath(run_dir) if rows else run_dir
    found = [each for each in rows if each.run_dir == run_dir and not each.admitted]
    return rows, found[0] if found else None


def _changed(
    host_dir: str,
    change: Callable[[list[Ticket]], list[Ticket]],
    ticket: Ticket,
    alive: Alive,
) -> list[Ticket]:
    """Change the table under its lock: rows of dead runs go, and `ticket` is let in if it can be."""
    table = os.path.join(host_dir, TABLE)
    with locks.held(os.path.join(host_dir, "queue.lock"), _LOCK_WAIT_S), locks.storing(table):
        before = tables.load(table, _KEY, _row)
        rows = [
            each
            for each in change(before)
            if each.run_dir == ticket.run_dir or _lives(each.run_dir, alive)
        ]
        if _is_turn(rows, ticket, alive):
            rows = [
                replace(each, admitted=True) if each.run_dir == ticket.run_dir else each
                for each in rows
            ]
        if rows != before:
            tables.save(table, _KEY, [asdict(each) for each in rows])
    return rows


def _of(rows: Sequence[Ticket], ticket: Ticket) -> list[Ticket]:
    return [each for each in rows if each.repository == ticket.repository]


def _living(rows: Sequence[Ticket], ticket: Ticket, alive: Alive) -> list[Ticket]:
    """The rows of its repository that count; its own does, whatever its locks say."""
    own = ticket.run_dir
    return [e for e in _of(rows, ticket) if e.run_dir == own or _lives(e.run_dir, alive)]


def _is_turn(rows: Sequence[Ticket], ticket: Ticket, alive: Alive) -> bool:
    """Whether it waits, and the places that are free reach as far as to it.

    The smallest limit of those before it counts too: one that was asked to wait longer is not
    passed by for ever.
    """
    living = _living(rows, ticket, alive)
    waiting = [each for each in living if not each.admitted]
    places = [each.run_dir for each in waiting]
    if ticket.run_dir not in places:
        return False
    ahead = places.index(ticket.run_dir)
    limit = min(each.limit for each in waiting[: ahead + 1])
    return len(living) - len(waiting) + ahead < limit


def _standing(rows: Sequence[Ticket], ticket: Ticket, alive: Alive) -> Standing:
    living = _living(rows, ticket, alive)
    places = [each.run_dir for each in living if not each.admitted]
    position = places.index(ticket.run_dir) + 1 if ticket.run_dir in places else 0
    return Standing(position, len(places), len(living) - len(places), ticket.limit)


def _lives(run_dir: str, alive: Alive) -> bool:
    return os.path.isdir(run_dir) and alive(run_dir)


def _row(found: dict[str, Any]) -> Ticket:
    limit = int(found["limit"])
    if limit < 1:
        message = "a limit below 1"
        raise ValueError(message)
    return Ticket(
        str(found["adw_id"]),
        str(found["run_dir"]),
        str(found["repository"]),
        limit,
        found["admitted"] is True,
    )
