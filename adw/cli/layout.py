"""How reading commands lay out what they found: columns, instants, durations, all of it escaped."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from adw.cli.output import escaped, put, table

NONE: Final = "-"


def show(lines: Iterable[str]) -> None:
    """Print lines; a control character in one of them is shown, so it cannot begin another."""
    put("".join(f"{escaped(line)}\n" for line in lines))


def columns(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """Lines of a table whose cells are escaped; None is shown as `-`."""
    cells = [[NONE if cell is None else escaped(str(cell)) for cell in row] for row in rows]
    return table([list(head), *cells]).split("\n")


def instant(text: str | None) -> str | None:
    """An instant to the second."""
    return f"{text[:19]}Z" if text else None


def standing(view: Mapping[str, Any]) -> str:
    """Status of a run; of an interrupted one, also what ended its sitting."""
    status = str(view["status"])
    left = view["reason"] or "orchestrator dead"
    return f"{status} ({left})" if status == "interrupted" else status


def took(attempt: Mapping[str, Any], *, running: bool = False) -> str | None:
    """How long an attempt took, or has been `running`; None where it cannot be told."""
    if not attempt.get("started_at"):
        return None
    start = datetime.fromisoformat(attempt["started_at"])
    if attempt["ended_at"]:
        seconds = (datetime.fromisoformat(attempt["ended_at"]) - start).total_seconds()
    elif running:
        from adw.clock import Clock

        seconds = Clock().now() - start.timestamp()
    else:
        return None
    return f"{max(0.0, seconds):.1f} s"
