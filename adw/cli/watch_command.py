"""`adw watch`: follow a run that another process drives."""

import os
import time
from typing import Any, Final

import click

from adw.cli.arguments import run_argument, run_dir_of
from adw.cli.layout import show
from adw.cli.progress import PlainLines
from adw.core.view import PhaseBoard

POLL_S: Final = 0.2


@click.command("watch")
@run_argument
def command(adw_id: str) -> int:
    """Follow a run that another process drives, until nobody does any more.

    Ends with 0 whatever became of the run; end it with Ctrl-C and the run goes on.
    """
    from adw.app import reading
    from adw.store.runs import held

    run_dir = run_dir_of(adw_id)
    sitting = LastSitting(run_dir)
    while held(run_dir):
        sitting.look()
        if sitting.reader_left:
            return 0
        time.sleep(POLL_S)
    sitting.look()
    view = reading.status(run_dir)
    reason = f": {view['reason']}" if view["reason"] else ""
    show([f"run {view['adw_id']} {view['status']}{reason}"])
    if view["next_action"]:
        show([f"  next: {view['next_action']}"])
    return 0


class LastSitting(PlainLines):
    """What happened since a run was opened last, each event printed once."""

    def __init__(self, run_dir: str) -> None:
        from adw.store.history import PATH, read_history

        super().__init__(os.path.dirname(run_dir))
        self._adw_id = os.path.basename(run_dir)
        self._run_dir = run_dir
        self._path = os.path.join(run_dir, PATH)
        self._size = -1
        opened = [e["seq"] for e in read_history(run_dir) if e["event"] == "run_opened"]
        self._seq = opened[-1] - 1 if opened else 0
        self._seen = Seen()

    @property
    def reader_left(self) -> bool:
        """Whether nobody reads the lines any more."""
        return self._gone

    def look(self) -> None:
        """Print what happened since the last look."""
        from adw.store.history import read_history

        try:
            size = os.path.getsize(self._path)
        except OSError:
            return
        if size == self._size:
            return
        self._size = size
        for event in read_history(self._run_dir):
            if event["event"] != "damaged" and event["seq"] > self._seq:
                self._seq = event["seq"]
                self._seen.take(event)
                self.changed(self._seen, [event])


class Seen(PhaseBoard):
    """Attempts as events tell of them: enough to say how long each took."""

    def __init__(self) -> None:
        self._latest_of: dict[str, dict[str, Any]] = {}

    def take(self, event: dict[str, Any]) -> None:
        """Take an event over."""
        phase = event["stage"]
        if event["event"] in {"child_launched", "child_adopted"}:
            attempt = {"attempt": event["attempt"], "started_at": event["ts"], "ended_at": None}
            self._latest_of[phase] = attempt
        elif event["event"] == "child_completed" and phase in self._latest_of:
            self._latest_of[phase]["ended_at"] = event["ts"]

    def attempts(self, phase: str) -> list[dict[str, Any]]:
        """The latest attempt alone."""
        return [self._latest_of[phase]] if phase in self._latest_of else []
