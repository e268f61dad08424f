"""Histories and graphs in a few words, for tests of deciding.

`history("build ok, test exit/a@100, fix ok>test")` reads: phase, outcome, then in any order
`/` a signature, `@` seconds (end of the attempt; for rate_limited: not_before), `>` the owner.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from adw.core.compile import compile_graph
from adw.core.decide import Decision, Fold, Holds, Live, decide
from adw.core.graph import Graph, Phase, Repair, Retry

NO_ATTEMPT = {"invalidated", "skipped"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A history entry without pydantic's price."""

    phase: str
    attempt: int
    success: bool
    reason: str | None = None
    ended_at: str | None = None
    not_before: str | None = None
    signature: str | None = None
    repairs: str | None = None


def iso(seconds: float) -> str:
    """The instant as the state file has it."""
    text = datetime.fromtimestamp(seconds, UTC).isoformat()
    return text.replace("+00:00", "Z")


def entry(text: str, attempt: int = 0, ended: float = 0.0) -> Entry:
    """One entry of the notation above."""
    phase, rest = text.split()
    outcome, *_ = re.split(r"[/@>]", rest)
    marks = dict(re.findall(r"([/@>])(\w+)", rest))
    at = float(marks.get("@", ended))
    found = Entry(
        phase=phase,
        attempt=0 if outcome in NO_ATTEMPT else attempt,
        success=outcome in {"ok", "skipped"},
        reason=None if outcome == "ok" else outcome,
        ended_at=iso(at),
        signature=marks.get("/"),
        repairs=marks.get(">"),
    )
    if outcome == "rate_limited":
        return replace(found, ended_at=iso(ended), not_before=iso(at))
    return found


def history(text: str) -> list[Entry]:
    """A history of the notation above, attempts numbered as they come."""
    found: list[Entry] = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        phase = each.split()[0]
        number = 1 + max((e.attempt for e in found if e.phase == phase), default=0)
        found.append(entry(each, number))
    return found


def live(text: str, attempt: int = 1) -> list[Live]:
    """Running attempts: `review`, `fix>test`."""
    parts = [part.strip().partition(">") for part in text.split(",") if part.strip()]
    return [Live(name, attempt, owner or None) for name, _, owner in parts]


def graph(*phases: Phase, max_parallel: int = 99) -> Graph:
    """A compiled graph."""
    return compile_graph("w", phases, max_parallel)


def always(_phase: str, _when: str) -> bool:
    """Every `when` holds."""
    return True


def never(_phase: str, _when: str) -> bool:
    """No `when` holds."""
    return False


def decided(
    shape: Graph,
    past: str | Sequence[Entry],
    *,
    running: str = "",
    now: float = 0.0,
    holds: Holds = always,
) -> Decision:
    """The decision after a history."""
    entries = history(past) if isinstance(past, str) else past
    return decide(shape, Fold.of(shape, entries), live(running), now, holds)


def starts(decision: Decision) -> list[str]:
    """What starts, as `fix>test`."""
    return [s.phase + (f">{s.repairs}" if s.repairs else "") for s in decision.starts]


# --- the graphs of the worked table ---


def sd(test_rounds: int = 2, review_rounds: int = 1, attempts: int = 2) -> Graph:
    """Plan, build, test with fix, review with patch leading back to test, commit."""
    retry = Retry(attempts, delay_s=5, factor=2, on=frozenset({"timeout"}))
    return graph(
        Phase("plan"),
        Phase("build", needs=("plan",)),
        Phase("test", needs=("build",), retry=retry, repair=Repair("fix", test_rounds)),
        Phase("fix"),
        Phase("review", needs=("test",), repair=Repair("patch", review_rounds, "test")),
        Phase("patch"),
        Phase("commit", needs=("review",)),
    )


def lt(max_parallel: int = 99) -> Graph:
    """Lint and test share a repair phase; docs may fail."""
    return graph(
        Phase("build"),
        Phase("fix"),
        Phase("lint", needs=("build",), repair=Repair("fix", 2)),
        Phase("test", needs=("build",), repair=Repair("fix", 2)),
        Phase("docs", needs=("build",), allow_failure=True, retry=Retry(2)),
        Phase("ship", needs=("lint", "test", "docs")),
        max_parallel=max_parallel,
    )


def lp() -> Graph:
    """Two loops side by side, both leading back to build."""
    return graph(
        Phase("build"),
        Phase("lint", needs=("build",), repair=Repair("fmt", 2, "build")),
        Phase("test", needs=("build",), repair=Repair("fix", 2, "build")),
        Phase("ship", needs=("lint", "test")),
        Phase("fmt"),
        Phase("fix"),
        max_parallel=1,
    )


def ga() -> Graph:
    """A gate whose rejection is reworked."""
    return graph(
        Phase("build"),
        Phase("test", needs=("build",)),
        Phase("gate", needs=("test",), gate=True, repair=Repair("rework", 2, "build")),
        Phase("rework"),
        Phase("ship", needs=("gate",)),
    )


def wh() -> Graph:
    """The second phase has a `when`."""
    return graph(
        Phase("a"),
        Phase("b", needs=("a",), when="issue_class == 'bug'"),
        Phase("c", needs=("b",)),
    )


def w2() -> Graph:
    """Another workflow that shares one phase name with SD."""
    return graph(
        Phase("prepare"), Phase("test", needs=("prepare",)), Phase("report", needs=("test",))
    )
