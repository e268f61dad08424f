"""How the orchestrator comes by supervisors: its nursery asked, and replaced when it is lost."""

import contextlib
import os
import time
from typing import Final

from adw.supervise import frames, nursery

_SILENCE_S: Final = 20.0  # a nursery that says nothing for so long is given up
_PAUSE_S: Final = 0.001


class NoSupervisor(Exception):
    """None can be had."""

    def __init__(self, reason: str | None) -> None:
        super().__init__(reason)
        self.reason = reason or "unknown"


class Supervisor:
    """One of ours; idle while it owes nothing."""

    def __init__(self, channel: frames.Channel, frame: frames.Frame) -> None:
        self.channel = channel
        self.pid: int = frame["pid"]
        self.start_time: int = frame["start_time"]
        self.tree_end: str = frame["tree_end"]
        self.owes: list[str] = []
        """Attempts handed over whose "durable" has not come yet, oldest first."""


class Pool:
    """The nursery, as the orchestrator sees it.

    Args:
        start: The one forked before the heavy imports; None: one is started when needed.
    """

    def __init__(self, start: nursery.Nursery | None) -> None:
        self._channel: frames.Channel | None = None
        self._pid = 0
        self._owed_first = False
        if start is not None:
            self._meet(start)

    def born(self) -> Supervisor:
        """Get a new supervisor; a lost nursery is replaced once.

        Raises:
            NoSupervisor: Two nurseries did not answer, or this one cannot fork.
        """
        for _ in range(2):
            if self._channel is None:
                try:
                    self._meet(nursery.spawn())
                except OSError as error:
                    raise NoSupervisor(error.strerror) from error
            if self._owed_first:
                self._owed_first = False
                frame = self._answer()
            else:
                frame = self.ask({"op": "fork"})
            if frame is not None:
                return self._introduce(frame)
        reason = "the nursery ends at once"
        raise NoSupervisor(reason)

    def ask(self, message: frames.Frame) -> frames.Frame | None:
        """Ask the nursery; None where it is lost."""
        if self._channel is None:
            return None
        if not self._channel.send(message):
            self._lose()
            return None
        return self._answer()

    def close(self, wait_s: float) -> None:
        """Let the nursery go, and reap it if it leaves within `wait_s` seconds."""
        if self._channel is None:
            return
        self._channel.close()
        self._channel = None
        deadline = time.monotonic() + wait_s
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(self._pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
                time.sleep(_PAUSE_S)

    def _meet(self, start: nursery.Nursery) -> None:
        self._channel = frames.Channel(start.fd)
        self._channel.socket.settimeout(_SILENCE_S)
        self._pid = start.pid
        self._owed_first = True

    def _introduce(self, frame: frames.Frame) -> Supervisor:
        if frame["op"] == "failed":
            raise NoSupervisor(frame["reason"])
        fd = self._channel.take_fd() if self._channel else None
        if fd is None:
            reason = "the nursery sent no socket"
            raise NoSupervisor(reason)
        return Supervisor(frames.Channel(fd), frame)

    def _answer(self) -> frames.Frame | None:
        assert self._channel is not None
        try:
            frame = self._channel.receive()
        except TimeoutError:
            frame = None
        if frame is None:
            self._lose()
        return frame

    def _lose(self) -> None:
        assert self._channel is not None
        self._channel.close()
        self._channel = None
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, os.WNOHANG)
