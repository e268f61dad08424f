"""What people and signals ask of a running orchestrator, taken up between two looks at the world.

SIGINT and SIGTERM: end the phases, record `interrupted`; a second one leaves at once, and what
runs lives on. SIGHUP: go on without terminal. Requests are files (adw.store.requests).
"""

import contextlib
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adw.app.effecting import settle
from adw.store import files, requests
from adw.store.history import read_history

if TYPE_CHECKING:
    from adw.app.session import Session

SETTABLE: Final = ("plan_file", "issue_class", "model_set")
"""Fields that a person may set: those that name nothing which exists already."""


@dataclass(slots=True)
class Wishes:
    """Signals and requests of one sitting."""

    run_dir: str
    left_over: frozenset[str] = frozenset()
    """Names of requests that were there when the lock was taken: asked of a holder that is dead."""
    wish: str | None = None
    signal: int | None = None
    cancelled: bool = False
    unmoved: list[requests.Request] = field(default_factory=list)
    """Requests whose act is in memory or in the state, to be moved once it is told."""
    fds: list[int] = field(default_factory=list)
    """What wakes the loop: the FIFO, and the signal pipe."""
    _told: set[str] = field(default_factory=set)
    """Requests whose `request_applied` is written or waits for the next flush."""

    def open(self) -> None:
        """Make the FIFO and catch signals."""
        path = os.path.join(self.run_dir, requests.WAKE)
        files.make_fifo(path)
        # Opened for both directions, so that it never reads as end-of-file between two writers.
        self.fds.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.fds.append(reader)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._caught)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def close(self) -> None:
        """Remove the FIFO: from here on a request is applied by whoever asks it."""
        with contextlib.suppress(OSError):
            files.unlink(os.path.join(self.run_dir, requests.WAKE))

    def _caught(self, number: int, _frame: object) -> None:
        if self.signal is not None:
            os._exit(128 + number)
        self.signal = number
        if self.wish != "cancel":
            self.wish = "signal"

    def drain(self) -> None:
        """Take what woke the sleeper out of the descriptors."""
        for fd in self.fds:
            with contextlib.suppress(BlockingIOError):
                while os.read(fd, 4096):
                    pass

    def look(self, session: "Session") -> None:
        """Take up what was asked since the last look."""
        self.drain()
        known = {request.name for request in self.unmoved}
        new = [each for each in requests.pending(self.run_dir) if each.name not in known]
        if any(request.name in self.left_over for request in new):
            # A crash may have come between the telling and the move.
            self._told |= told(self.run_dir)
        for request in new:
            self.unmoved.append(request)
            self._take(session, request)

    def _take(self, session: "Session", request: requests.Request) -> None:
        if request.kind == "cancel":
            if not shows_cancel(session, request):
                self.wish = "cancel"
        elif request.kind == "pause":
            # One that a dead holder was asked has come true with its death.
            if request.name not in self.left_over:
                self.wish = self.wish or "pause"
                session.event("run_paused", {})
        elif request.kind == "state_set":
            fields = _accepted(session, request.fields)
            session.set_fields({k: v for k, v in fields.items() if session.field(k) != v})
            if request.name not in self._told:
                session.event("state_set", {"fields": fields})
        elif request.kind == "settle":
            settle(session, request, told=request.name in self._told)
        elif request.kind == "task_add":
            phase, text = request.fields.get("phase"), request.fields.get("text")
            if phase in session.graph.phases and isinstance(text, str):
                from adw.app.handing import add_to_task

                told = request.name in self._told
                add_to_task(session, request.name, str(phase), text, told=told)

    def tell_applied(self, session: "Session") -> None:
        """Add the events of requests whose act the state shows now; called after a commit."""
        for request in self._over():
            if request.name not in self._told:
                self._told.add(request.name)
                slots = {"request": request.name, "kind": request.kind}
                session.event("request_applied", slots)

    def move_applied(self) -> None:
        """Move what was told; called when the events are written."""
        over = self._over()
        for request in over:
            requests.applied(self.run_dir, request)
        self.unmoved[:] = [each for each in self.unmoved if each not in over]

    def _over(self) -> list[requests.Request]:
        """A cancel waits until its entries are written."""
        waits = self.wish == "cancel" and not self.cancelled
        return [each for each in self.unmoved if not (waits and each.kind == "cancel")]


def _accepted(session: "Session", fields: dict[str, Any]) -> dict[str, Any]:
    """What of a request's fields the state takes: a newer adw may have asked for more."""
    found = {}
    for name in SETTABLE:
        with contextlib.suppress(KeyError, ValueError):
            session.state.changed(**{name: fields[name]})
            found[name] = fields[name]
    return found


def told(run_dir: str) -> set[str]:
    """Names of the requests that the history calls applied."""
    events = read_history(run_dir)
    return {event["request"] for event in events if event["event"] == "request_applied"}


def shows_cancel(session: "Session", request: requests.Request) -> bool:
    """Whether the history shows a cancellation made after the request was asked."""
    later: list[Any] = list(session.state.phase_history[request.entries :])
    return any(entry.reason == "cancelled" for entry in later)
