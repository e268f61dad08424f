"""What one phase is by its own entries: rules 1 to 6 of what runs next, without a clock.

Words: a *base* is the position after which a phase's entries count; a *count start* the one after
which equal failures and repair rounds are counted; a *mark* an entry `invalidated`.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final, Protocol

from adw.core.graph import Phase

# The same sets as in adw.model.state, which would bring pydantic along; a test compares them.
FAILURE: Final = frozenset(
    {
        "exit", "timeout", "idle", "signal", "oom", "disk", "missing_output", "contract",
        "result_invalid", "no_change", "agent_error", "rejected",
    }
)  # fmt: skip
FREE: Final = frozenset({"lost", "interrupted", "rate_limited"})
FINAL: Final = frozenset({"auth", "spawn_failed", "workspace", "stuck", "tampered"})
HELD: Final = frozenset({"blocked", "budget", "effect_unknown", "cancelled"})

LOST_IN_A_ROW: Final = 3  # a phase that brings the host down is not started for ever
FREE_IN_A_ROW: Final = 50  # a program that says "try later" for ever needs a person
SAME_FAILURE: Final = 3  # the third equal signature: repairing does not help
NEVER: Final = -1  # a position before all entries


class Entry(Protocol):
    """What deciding reads of a history entry; `adw.model.state.HistoryEntry` is one."""

    @property
    def phase(self) -> str:
        """Name of the phase."""

    @property
    def attempt(self) -> int:
        """Number of the attempt; 0 where none was made."""

    @property
    def success(self) -> bool:
        """Whether the phase is done by it."""

    @property
    def reason(self) -> str | None:
        """Failure kind, `skipped`, `invalidated`, or None."""

    @property
    def ended_at(self) -> str | None:
        """ISO 8601 with `Z`."""

    @property
    def not_before(self) -> str | None:
        """ISO 8601 with `Z`: when to try again."""

    @property
    def signature(self) -> str | None:
        """Digest of the normalised failure."""

    @property
    def repairs(self) -> str | None:
        """With a repair phase: the owner that called it."""


@dataclass(frozen=True, slots=True)
class PhaseView:
    """What one phase is, for people and for `closing`.

    `state` and what `detail` then is:
        pending    None: something it needs is not settled, or what works on its old result runs
        ready      None: may start (or be skipped) now
        running    None
        wait       float: the instant it waits for, in seconds since the epoch
        repairing  str: its repair phase, which is called, waits or runs
        done, skipped, excused    int: the position where it is settled
        failed     str: the failure kind, `no_progress`, `rounds`, or the repair phase that failed
        held       str: the reason, `gate`, or the repair phase that is held
    """

    state: str
    detail: str | float | int | None = None
    repair: str | None = None
    """The repair phase that is called, failed or held; tells it apart from a reason's word."""


@dataclass(frozen=True, slots=True)
class Standing:
    """What entries and running attempts alone say of a phase, before `now`, `when` and gates."""

    kind: str
    """pending, running, done, skipped, excused, failed, held; fresh (no entry since its base),
    due (to be tried again), called (its repair phase is to run); spent (inside this file)."""
    detail: str | None = None
    repair: str | None = None
    settled_at: int | None = None
    wait: tuple[float, float] | None = None
    """From and until when it is waited for, in seconds since the epoch."""

    def waits(self, now: float) -> bool:
        """Whether `now` lies between the entry and its instant: the future is not waited for."""
        return self.wait is not None and self.wait[0] <= now < self.wait[1]


@dataclass(slots=True)
class Record:
    """Entries of one phase, or of one repair phase for one owner; marks are kept apart."""

    positions: list[int] = field(default_factory=list)
    entries: list[Entry] = field(default_factory=list)

    def add(self, at: int, entry: Entry) -> None:
        """Append an entry with its position in the history."""
        self.positions.append(at)
        self.entries.append(entry)

    def after(self, position: int) -> list[Entry]:
        """Entries later than a position."""
        return self.entries[bisect_right(self.positions, position) :]


NOTHING: Final = Record()


def instant(text: str | None) -> float | None:
    """Seconds since the epoch; None for none, and for a text that names no moment."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


def judge(phase: Phase, record: Record, mark: int, base: int, count_start: int) -> Standing:
    """Judge a phase whose needs are settled by its own entries: rules 1 to 6.

    Args:
        phase: Its definition.
        record: Its entries; for a repair phase those for one owner.
        mark: Position of its own last mark.
        base: Only entries after this position count.
        count_start: Equal signatures are counted from here.

    Returns:
        done, skipped, fresh, due, failed, held, or `spent`: no try is left, a repair may be.
    """
    parked = _parked(record, mark)
    if parked and parked.kind == "held":
        return parked
    wait = parked.wait if parked else None
    recent = record.after(base)
    if not recent:
        return Standing("fresh", wait=wait)
    last = recent[-1]
    reason = last.reason or "exit"
    if last.success:
        kind = "skipped" if last.reason == "skipped" else "done"
        return Standing(kind, settled_at=record.positions[-1])
    if reason in FREE:
        row = recent[-LOST_IN_A_ROW:]
        if len(row) == LOST_IN_A_ROW and all(e.reason == "lost" for e in row):
            return Standing("failed", "lost")
        return Standing("due", wait=wait)
    if reason in FINAL:
        return Standing("failed", reason)
    if reason in HELD:
        return Standing("held", reason)
    if last.signature:
        seen = [e.signature for e in record.after(count_start) if is_failure(e)]
        if seen.count(last.signature) >= SAME_FAILURE:
            return Standing("failed", "no_progress")
    return _after_failure(phase, last, reason, [e for e in recent if is_failure(e)])


def _parked(record: Record, mark: int) -> Standing | None:
    """Rule 1: the latest entry is `rate_limited`, even before the base; the quota did not move.

    Returns:
        None where it is not, or where a mark followed; else due with the interval to wait, or
        held at the 50th free entry in a row.
    """
    row = record.after(mark)[-FREE_IN_A_ROW:]
    if not row or row[-1].reason != "rate_limited":
        return None
    if len(row) == FREE_IN_A_ROW and all(e.reason in FREE for e in row):
        return Standing("held", "rate_limited")
    return Standing("due", wait=_interval(instant(row[-1].ended_at), instant(row[-1].not_before)))


def is_failure(entry: Entry) -> bool:
    """Whether an entry is a counted failure; a failure without a reason reads as `exit`."""
    return not entry.success and (entry.reason or "exit") in FAILURE


def _after_failure(phase: Phase, last: Entry, reason: str, failures: list[Entry]) -> Standing:
    """Rule 6: the narrowed retry after the first `missing_output`, else the phase's `retry`."""
    if reason == "missing_output" and [e.reason for e in failures].count(reason) == 1:
        return Standing("due")
    retry, tries = phase.retry, len(failures)
    wanted = retry.on is None or reason in retry.on
    if tries >= retry.attempts or not wanted or reason == "rejected":
        return Standing("spent", reason)
    ended = instant(last.ended_at) if retry.delay_s else None
    if ended is None:
        return Standing("due")
    try:
        pause = min(retry.delay_s * retry.factor ** (tries - 1), retry.max_delay_s)
    except OverflowError:
        pause = retry.max_delay_s
    return Standing("due", wait=_interval(ended, ended + pause))


def _interval(ended: float | None, until: float | None) -> tuple[float, float] | None:
    return (ended, until) if ended is not None and until is not None else None


def view_of(standing: Standing) -> PhaseView:
    """What a phase shows by its standing alone; a wait is shown by whoever knows the time."""
    kind = standing.kind
    if kind in {"fresh", "due"}:
        return PhaseView("ready")
    if kind == "called":
        return PhaseView("repairing", standing.detail, standing.repair)
    detail = standing.detail if standing.settled_at is None else standing.settled_at
    return PhaseView(kind, detail, standing.repair)
