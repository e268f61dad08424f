"""How a run is shown while it goes: plain lines, or a live display on a terminal.

The loop itself refreshes the display, since a library's thread must not live beside forks.
"""

import os
import sys
from collections.abc import Sequence
from typing import Any, Final

from adw import clock
from adw.app.publish import failure_words
from adw.cli.output import color_wanted, escaped, silence_stdout
from adw.core.view import PhaseBoard

REFRESH_S: Final = 0.25


class Silent:
    """Watches nothing (`--json`, `--detach`)."""

    def changed(self, board: PhaseBoard, news: Sequence[dict[str, Any]]) -> None:
        """Nothing to show."""

    def interval_s(self) -> float | None:
        """Never."""
        return None

    def tick(self, board: PhaseBoard) -> None:
        """Nothing to show."""


class PlainLines(Silent):
    """One line an event, for logs and pipes."""

    def __init__(self, agents_dir: str) -> None:
        self._agents_dir = agents_dir
        self._adw_id = ""
        self._gone = False

    def begin(self, adw_id: str, verb: str = "started") -> None:
        """The run exists."""
        self._adw_id = adw_id
        self._line("run", verb, os.path.join(self._agents_dir, adw_id))

    def changed(self, board: PhaseBoard, news: Sequence[dict[str, Any]]) -> None:
        """Print what happened."""
        for event in news:
            words = describe(event, board)
            if words:
                self._line(event["stage"] or "run", *words)
                if event["event"] == "child_completed" and not event["success"]:
                    self._show_tail(event["child_id"])

    def _line(self, subject: str, what: str, more: str = "") -> None:
        text = f"{self._adw_id}  {subject:<12}  {what}" + (f"  {more}" if more else "")
        self._write(escaped(text) + "\n")

    def _show_tail(self, child_id: str) -> None:
        folder = os.path.join(self._agents_dir, self._adw_id, "attempts", child_id)
        lines = [f"  | {line}\n" for line in tail_lines(folder, 10)]
        self._write("".join([*lines, f"  logs: {folder}\n"]))

    def _write(self, text: str) -> None:
        """A reader or a terminal that has gone does not end the run."""
        if self._gone:
            return
        try:
            sys.stdout.write(text)
            sys.stdout.flush()
        except OSError:
            self._gone = True
            silence_stdout()


class LiveTable(PlainLines):
    """A table at the bottom of the terminal: phase, attempt, elapsed, last output line."""

    def __init__(self, agents_dir: str) -> None:
        super().__init__(agents_dir)
        from rich.console import Console
        from rich.live import Live

        self._console = Console(no_color=not color_wanted(sys.stdout))
        self._live = Live(console=self._console, auto_refresh=False, transient=True)
        self._started: dict[str, float] = {}
        self._live.start()

    def interval_s(self) -> float | None:
        """While something is shown."""
        return REFRESH_S

    def changed(self, board: PhaseBoard, news: Sequence[dict[str, Any]]) -> None:
        """Print lines above the table, then draw it again."""
        for event in news:
            if event["event"] in {"child_launched", "child_adopted"}:
                self._started[event["child_id"]] = clock.monotonic()
        super().changed(board, news)
        self.tick(board)

    def tick(self, board: PhaseBoard) -> None:
        """Draw the table."""
        if self._gone:
            return
        from rich.table import Table

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for phase, child, attempt in running(board):
            elapsed = clock.monotonic() - self._started.get(child, clock.monotonic())
            folder = os.path.join(self._agents_dir, self._adw_id, "attempts", child)
            last = (tail_lines(folder, 1) or [""])[0]
            row = (phase, f"attempt {attempt}", f"{elapsed:.0f} s", last[:100])
            table.add_row(*(_plain(cell) for cell in row))
        try:
            self._live.update(table, refresh=True)
        except OSError:
            self._gone = True
            silence_stdout()

    def end(self) -> None:
        """Give the terminal back."""
        self._live.stop()


def _plain(text: str) -> Any:
    from rich.text import Text

    return Text(text, overflow="ellipsis", no_wrap=True)


def running(board: PhaseBoard) -> list[tuple[str, str, int]]:
    """Phases that run: name, child_id, attempt."""
    found = []
    for name in board.phases():
        if board.status(name) == "running" and board.attempts(name):
            last = board.attempts(name)[-1]
            if last["success"] is None:
                found.append((name, last["child_id"], last["attempt"]))
    return found


def describe(event: dict[str, Any], board: PhaseBoard) -> tuple[str, str] | tuple[str] | None:
    """What a person reads of an event: a verb, and perhaps more; None: nothing."""
    kind = event["event"]
    if kind == "child_launched":
        more = f"repairs {event['repairs']}" if event["repairs"] else ""
        return (f"started (attempt {event['attempt']})", more)
    if kind == "child_adopted":
        return (f"adopted (attempt {event['attempt']})",)
    if kind == "child_completed":
        return _completed(event, board)
    if kind == "phase_skipped":
        return ("skipped",)
    if kind == "phase_marked":
        return ("cancelled",) if event["reason"] == "cancelled" else ("starts again",)
    if kind == "run_paused":
        return ("pauses",)
    return None  # how the run ended is said once, in the closing words


def _completed(event: dict[str, Any], board: PhaseBoard) -> tuple[str, str]:
    tries = [a for a in board.attempts(event["stage"]) if a["attempt"] == event["attempt"]]
    took = _took(tries[0]) if tries else ""
    if event["success"]:
        return (f"done (attempt {event['attempt']}{took})", "")
    words = failure_words(event["reason"], event["detail"])
    if event["reason"] in {"lost", "interrupted"}:
        return (f"{words} (attempt {event['attempt']}{took})", "")
    return (f"failed: {words} (attempt {event['attempt']}{took})", "")


def _took(attempt: dict[str, Any]) -> str:
    from datetime import datetime

    if not attempt["started_at"] or not attempt["ended_at"]:
        return ""
    start, end = (datetime.fromisoformat(attempt[k]) for k in ("started_at", "ended_at"))
    return f", {max(0.0, (end - start).total_seconds()):.1f} s"


def tail_lines(attempt_dir: str, count: int) -> list[str]:
    """The last lines of what an attempt printed, escaped."""
    newest: tuple[float, bytes] = (0.0, b"")
    for name in ("stdout.log", "stderr.log"):
        path = os.path.join(attempt_dir, name)
        try:
            with open(path, "rb") as file:
                info = os.fstat(file.fileno())
                file.seek(max(0, info.st_size - 4096))
                data = file.read(4096)
        except OSError:
            continue
        if data.strip() and info.st_mtime >= newest[0]:
            newest = (info.st_mtime, data)
    lines = newest[1].decode("utf-8", "replace").rstrip().split("\n")
    return [escaped(line.rstrip("\r"), keep="\t") for line in lines[-count:]] if newest[1] else []
