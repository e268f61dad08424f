"""What people and signals ask of a running orchestrator, taken up between two looks at the world.

SIGINT and SIGTERM: end the phases, record `interrupted`; a second one leaves at once, and what
runs lives on. SIGHUP: go on without terminal. Requests are files (adw.store.requests).
"""

import contextlib
import os
import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from adw.store import files, requests

if TYPE_CHECKING:
    from adw.app.session import Session

SETTABLE: Final = ("plan_file", "issue_class", "model_set")
"""Fields that a person may set: those that name nothing which exists already."""


@dataclass(slots=True)
class Wishes:
    """Signals and requests of one sitting."""

    run_dir: str
    wish: str | None = None
    signal: int | None = None
    cancelled: bool = False
    unmoved: list[requests.Request] = field(default_factory=list)
    """Requests whose act is in memory, to be moved after the commit."""
    fds: list[int] = field(default_factory=list)
    """What wakes the loop: the FIFO, and the signal pipe."""

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
        self.wish = self.wish or "signal"

    def look(self, session: "Session") -> None:
        """Take up what was asked since the last look."""
        for fd in self.fds:
            with contextlib.suppress(BlockingIOError):
                while os.read(fd, 4096):
                    pass
        known = {request.name for request in self.unmoved}
        for request in requests.pending(self.run_dir):
            if request.name not in known:
                self._take(session, request)

    def _take(self, session: "Session", request: requests.Request) -> None:
        self.unmoved.append(request)
        if request.kind == "cancel":
            if shows_cancel(session, request):
                return
            self.wish = "cancel"
        elif request.kind == "pause":
            self.wish = self.wish or "pause"
            session.event("run_paused", {})
        elif request.kind == "state_set":
            fields = {k: v for k, v in request.fields.items() if k in SETTABLE}
            if all(getattr(session.state, k) == v for k, v in fields.items()):
                return
            session.set_fields(fields)
            session.event("state_set", {"fields": fields})
        session.event("request_applied", {"request": request.name, "kind": request.kind})

    def move_applied(self) -> None:
        """Move handled requests; a cancel waits until its entries are written."""
        rest = []
        for request in self.unmoved:
            if request.kind == "cancel" and self.wish == "cancel" and not self.cancelled:
                rest.append(request)
            else:
                requests.applied(self.run_dir, request)
        self.unmoved[:] = rest


def shows_cancel(session: "Session", request: requests.Request) -> bool:
    """Whether the history shows a cancellation made after the request was asked."""
    later: list[Any] = list(session.state.phase_history[request.entries :])
    return any(entry.reason == "cancelled" for entry in later)
