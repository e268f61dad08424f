"""What a supervisor hears and says, in one poll.

Its socket (launch, go, stop; end of file when the orchestrator is gone), signals (SIGCHLD,
SIGTERM) through a pipe, and what an attempt adds: the body's output. It never waits for its
orchestrator: without one the attempt goes on to its end.
"""

import contextlib
import os
import select
import signal
from typing import Any, Final

from adw.supervise import cgroups, frames, procs
from adw.supervise.tree import Inside

IGNORED: Final = (signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)
_BODY_OOM_EXTRA: Final = 200  # the kernel shall choose a body before its supervisor
_PIPE_BYTES: Final = 4096


class Ears:
    """All that reaches a supervisor from outside, and what it knows of itself."""

    def __init__(
        self, channel: frames.Channel, tree: Inside, note_fd: int, nursery: tuple[int, int]
    ) -> None:
        self.channel = channel
        self.tree = tree
        self.nursery = nursery
        seen = procs.look("self")
        self.start_time = seen.start_time if seen else 0
        self._settled = False
        self.stops = 0
        """How often the end of the running attempt was asked for."""
        self.told_to_leave = False
        """Somebody sent SIGTERM: no further attempt."""
        self.child_id: str | None = None
        self.gone_ahead = False
        """The gate of the attempt `child_id` is open."""
        self.body_pid = 0
        self.body_status: int | None = None
        self.childless = True
        self.launches: list[tuple[frames.Frame, int]] = []
        self.oom_counter = -1
        self._early: list[tuple[str, str]] = []
        self._note_fd = note_fd
        self._poll = select.poll()
        self._poll.register(channel.fileno(), select.POLLIN)
        self._wake, self._oom_fd, self._oom_adj = self._listen(), *_oom_handle()

    @property
    def orphaned(self) -> bool:
        """Whether the orchestrator is gone."""
        return self.channel.eof

    def turn_to(self, child_id: str) -> None:
        """Belong to an attempt from now on."""
        if not self._settled:
            # Only now: the nursery moves a supervisor to its group before it gives it away.
            self._settled = True
            group = self.tree.cgroup
            if group and not cgroups.holds(group, os.getpid()):
                self.tree.cgroup = None
            self.oom_counter = cgroups.oom_counter()
        self.child_id = child_id
        early = [op for op, child in self._early if child == child_id]
        waiting = {frame["spec"]["child_id"] for frame, _ in self.launches}
        self._early = [each for each in self._early if each[1] in waiting]
        self.gone_ahead = "go" in early
        self.stops = early.count("stop") + self.told_to_leave

    def turn(self, timeout_s: float | None) -> list[int]:
        """Sleep until something happens, and take in what belongs to the supervisor itself.

        Args:
            timeout_s: Longest sleep; None: none.

        Returns:
            Descriptors that were added with `hear` and have something to say.
        """
        ready = []
        timeout_ms = (
            None if timeout_s is None else min(max(0, int(timeout_s * 1000) + 1), frames.LONGEST_MS)
        )
        for fd, _ in self._poll.poll(timeout_ms):
            if fd == self._wake:
                with contextlib.suppress(BlockingIOError):
                    os.read(fd, _PIPE_BYTES)
                self.reap()
            elif fd == self.channel.fileno():
                self._listen_to_orchestrator()
            else:
                ready.append(fd)
        return ready

    def hear(self, fd: int) -> None:
        """Let `turn` tell of this descriptor."""
        self._poll.register(fd, select.POLLIN)

    def forget(self, fd: int) -> None:
        """Let `turn` be silent about it again, and close it."""
        self._poll.unregister(fd)
        os.close(fd)

    def expect_body(self) -> None:
        """Forget the last body."""
        self.body_pid, self.body_status = 0, None

    def reap(self) -> None:
        """Collect all children that died; the body's status is kept."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self.childless = True
                return
            if pid == 0:
                self.childless = False
                return
            if pid == self.body_pid:
                self.body_status = status

    def tell(self, message: frames.Frame) -> None:
        """Say something to the orchestrator, if it is there."""
        if not self.orphaned and not self.channel.send(message):
            self._deafen()

    def note(self, text: bytes) -> None:
        """Leave in shared memory what the nursery must know should this process be killed."""
        if self._note_fd >= 0:
            os.pwrite(self._note_fd, len(text).to_bytes(4, "big") + text, 0)

    def expose(self, *, bodies: bool) -> None:
        """Rank what is forked now as a better victim of a lack of memory, or stop doing so."""
        if self._oom_fd >= 0:
            adj = min(1000, self._oom_adj + _BODY_OOM_EXTRA) if bodies else self._oom_adj
            with contextlib.suppress(OSError):
                os.pwrite(self._oom_fd, str(adj).encode(), 0)

    def _listen(self) -> int:
        wake, waker = os.pipe()
        os.set_blocking(wake, False)
        os.set_blocking(waker, False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        self._poll.register(wake, select.POLLIN)
        return wake

    def _stop(self, number: int, frame: Any) -> None:
        del number, frame
        self.stops += 1
        self.told_to_leave = True

    def _listen_to_orchestrator(self) -> None:
        self.channel.fill()
        while (frame := self.channel.take()) is not None:
            if frame["op"] == "launch":
                fd = self.channel.take_fd()
                assert fd is not None, frame["spec"]["child_id"]
                self.launches.append((frame, fd))
            elif frame["child_id"] != self.child_id:
                # It came together with its launch, which has not begun yet.
                self._early.append((frame["op"], frame["child_id"]))
            elif frame["op"] == "go":
                self.gone_ahead = True
            else:
                self.stops += 1
        if self.channel.eof:
            self._deafen()

    def _deafen(self) -> None:
        self.channel.eof = True
        with contextlib.suppress(KeyError):
            self._poll.unregister(self.channel.fileno())


def hush() -> None:
    """Set the signals of nursery and supervisors, which inherit them: each would pay memory."""
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, _nothing)


def _nothing(number: int, frame: Any) -> None:
    """Be a handler, so that the signal wakes the poll."""


def _oom_handle() -> tuple[int, int]:
    """The file that ranks this process for the kernel's killer, and its value; -1: no such file."""
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        return fd, int(os.pread(fd, 16, 0))
    except OSError:
        return -1, 0
