"""Starting one command of an attempt, reading it, limiting it, and ending all that it started."""

import errno
import os
import signal
import stat
import time
from collections.abc import Callable
from typing import Any, Final

from adw.supervise import cgroups, pump, tree
from adw.supervise.cgroups import name_of
from adw.supervise.disk import Gauge
from adw.supervise.ears import IGNORED, Ears
from adw.supervise.fence import CannotFence, Fence

_RETRIED: Final = frozenset({errno.EAGAIN, errno.ENOMEM, errno.ETXTBSY})
_RETRY_FOR_S: Final = 5.0
_RETRY_EVERY_S: Final = 0.05
_LOOK_EVERY_S: Final = 0.25
_LOOK_AGAIN_S: Final = 0.001
_KILL_EVERY_S: Final = 0.01
_DRAIN_READS: Final = 64  # of 64 KiB; a pipe holds 64 KiB, 1 MiB at most
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SHOWN_ARGV: Final = 200  # characters


class CannotStart(Exception):
    """The program could not be started.

    Args:
        name: The program or directory.
        why: What the system said.
        act: What could not be done: `start` or `enter`.
    """

    def __init__(self, name: str, why: object, act: str = "start") -> None:
        super().__init__(f"cannot {act} `{_shown(name)}`: {why}")


class Outcome:
    """How one command ended."""

    __slots__ = ("cause", "error", "exit_code", "oom", "signal")

    def __init__(self, cause: str | None, error: str | None = None) -> None:
        self.cause = cause
        """Why the supervisor ended it or did not start it; None: it ended by itself."""
        self.error = error
        self.exit_code: int | None = None
        self.signal: int | None = None
        self.oom = False

    def reason(self) -> str | None:
        """One of the reasons of an exit record; None: exit 0."""
        if self.cause is not None:
            return self.cause
        if self.signal is None and not self.exit_code:
            return None
        if self.oom:
            return "oom"
        return "exit" if self.signal is None else "signal"


class Body:
    """The commands of an attempt, one after another, under common limits."""

    def __init__(
        self,
        ears: Ears,
        spec: dict[str, Any],
        logs: list[pump.CappedLog],
        deadline: float | None,
    ) -> None:
        self.survivors: tuple[int, ...] = ()
        self._ears = ears
        self._spec = spec
        self._logs = logs
        self._deadline = deadline
        self._heard_at = 0.0
        self._pipes: dict[int, pump.CappedLog] = {}
        self._fence: Fence
        limit = spec["disk_bytes"]
        self._gauge = None
        if limit is not None:
            self._gauge = Gauge(limit, spec["disk_reserve"], spec["disk_roots"])

    def run(self, argv: list[str], started: Callable[[int], None] | None) -> Outcome:
        """Run a command to the end of its whole tree.

        Args:
            argv: The program and its arguments.
            started: Called with the pid as soon as there is one.
        """
        limits = self._spec["memory_bytes"], self._spec["processes"]
        try:
            self._fence = Fence(*limits, name_of(*self._ears.nursery, os.getpid()))
        except CannotFence as error:
            return Outcome("spawn_failed", str(error))
        try:
            return self._run(argv, started)
        finally:
            self._fence.remove()

    def _run(self, argv: list[str], started: Callable[[int], None] | None) -> Outcome:
        ears, alone = self._ears, self._fence.oom_counter >= 0
        counter = self._fence.oom_counter if alone else ears.oom_counter
        kills = cgroups.oom_kills(counter)
        ears.expect_body()
        try:
            ears.body_pid = self._start(argv)
        except CannotStart as error:
            self._close()
            cause = "stopped" if ears.stops else "spawn_failed"
            return Outcome(cause, None if ears.stops else str(error))
        ears.childless = False
        if started is not None:
            started(ears.body_pid)
        outcome = Outcome(*self._watch())
        self._end_tree()
        self._drain()
        if ears.body_status is not None:
            code = os.waitstatus_to_exitcode(ears.body_status)
            outcome.exit_code, outcome.signal = (code, None) if code >= 0 else (None, -code)
        # A counter that others share tells nothing about a body that was not killed itself.
        if outcome.cause is None and (alone or outcome.signal == signal.SIGKILL):
            outcome.oom = cgroups.oom_kills(counter) > kills
        if outcome.cause is None and self._gauge and (over := self._gauge.measure(self._unwanted)):
            outcome.cause, outcome.error = "disk", over
        return outcome

    # --- start -------------------------------------------------------------------------------

    def _start(self, argv: list[str]) -> int:
        ends = []
        for log in self._logs:
            reader, writer = os.pipe()
            os.set_blocking(reader, False)
            self._pipes[reader] = log
            self._ears.hear(reader)
            ends.append(writer)
        self._heard_at = time.monotonic()
        try:
            return self._spawn_patiently(argv, ends)
        finally:
            for writer in ends:
                os.close(writer)

    def _spawn_patiently(self, argv: list[str], ends: list[int]) -> int:
        give_up_at = time.monotonic() + _RETRY_FOR_S
        while True:
            try:
                return self._spawn(argv, ends)
            except OSError as error:
                if error.errno not in _RETRIED or time.monotonic() > give_up_at:
                    raise CannotStart(argv[0], error.strerror) from error
            except ValueError as error:  # a NUL byte
                raise CannotStart(argv[0], error) from error
            self._ears.turn(_RETRY_EVERY_S)
            if self._ears.stops:
                raise CannotStart(argv[0], "stopped")

    def _spawn(self, argv: list[str], ends: list[int]) -> int:
        env: dict[str, str] = self._spec["env"]
        self._enter(self._spec["cwd"])
        self._ears.expose(bodies=True)
        try:
            self._fence.go_in()
            return os.posix_spawn(
                _find(argv[0], env.get("PATH", _DEFAULT_PATH)),
                argv,
                env,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, end, to) for end, to in zip(ends, (1, 2), strict=True)
                ],
                setpgroup=0,
                setsigmask=(),
                setsigdef=IGNORED,
            )
        finally:
            self._fence.go_out()
            self._ears.expose(bodies=False)
            os.chdir("/")

    def _enter(self, cwd: str) -> None:
        try:
            os.chdir(cwd)
        except (OSError, ValueError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            raise CannotStart(cwd, why, "enter") from error

    # --- while it runs -----------------------------------------------------------------------

    def _watch(self) -> tuple[str | None, str | None]:
        """Read output until the command ended or must end; returns why it must, for people too."""
        ears, gauge = self._ears, self._gauge
        while ears.body_status is None:
            if ears.stops:
                return "stopped", None
            if gauge and time.monotonic() >= gauge.next_at and (over := gauge.look()):
                return "disk", over
            now = time.monotonic()
            ends_at, cause = self._next_limit()
            if cause not in {None, "disk"} and now >= ends_at:
                return cause, None
            self._read(ears.turn(None if cause is None else max(0.0, ends_at - now)))
        return None, None

    def _next_limit(self) -> tuple[float, str | None]:
        limits: list[tuple[float, str | None]] = []
        if self._gauge:
            limits.append((self._gauge.next_at, "disk"))
        if self._deadline is not None:
            limits.append((self._deadline, "timeout"))
        if self._spec["idle_timeout_s"] is not None:
            limits.append((self._heard_at + self._spec["idle_timeout_s"], "idle"))
        return min(limits, default=(0.0, None))

    def _read(self, ready: list[int]) -> None:
        for fd in ready:
            data = os.read(fd, pump.CHUNK)
            if data:
                self._heard_at = time.monotonic()
                self._pipes[fd].write(data)
            else:
                self._ears.forget(fd)
                del self._pipes[fd]

    def _unwanted(self) -> bool:
        """Whether the end was asked for while the disk is measured."""
        self._ears.turn(0.0)
        return bool(self._ears.stops)

    # --- the end -----------------------------------------------------------------------------

    def _end_tree(self) -> None:
        """TERM, grace, KILL; until nothing of the tree lives, or what lives cannot be ended."""
        ears = self._ears
        found = self._living()
        asked = ears.stops
        kill_at = time.monotonic() + self._spec["grace_s"]
        give_up_at = float("inf")
        if found:
            tree.ask_to_end(found, self._living)
        while found and time.monotonic() < give_up_at:
            look_at = min(kill_at, time.monotonic() + _LOOK_EVERY_S)
            if time.monotonic() >= kill_at or ears.stops > max(asked, 1):
                kill_at = 0.0
                give_up_at = min(give_up_at, time.monotonic() + tree.PATIENCE_S)
                tree.signal_all(found, signal.SIGKILL)
                look_at = time.monotonic() + _KILL_EVERY_S
            self._rest(look_at)
            found = self._living()
        self.survivors = tuple(sorted(found))

    def _living(self) -> dict[int, int]:
        """What lives of the tree; empty only when waitpid(2) says so too.

        One look at /proc misses who is born after the listing while its parents die during it: a
        body that was killed as it forked a daemon. A subreaper's last child is no such guess.
        """
        ears = self._ears
        give_up_at = time.monotonic() + tree.PATIENCE_S
        while True:
            ears.reap()
            found = ears.tree.others(childless=ears.childless)
            certain = ears.childless or not ears.tree.subreaper
            if found or certain or time.monotonic() > give_up_at:
                return found
            time.sleep(_LOOK_AGAIN_S)

    def _rest(self, until: float) -> None:
        """Sleep, reading, until an instant or until the last child is gone."""
        ears = self._ears
        had_children = not ears.childless
        while (left_s := until - time.monotonic()) > 0:
            self._read(ears.turn(left_s))
            if had_children and ears.childless:
                break
        ears.reap()

    def _drain(self) -> None:
        """Take what is in the pipes; whoever else holds them is not waited for."""
        for fd in list(self._pipes):
            try:
                for _ in range(_DRAIN_READS):
                    data = os.read(fd, pump.CHUNK)
                    if not data:
                        break
                    self._pipes[fd].write(data)
            except BlockingIOError:
                pass
        self._close()

    def _close(self) -> None:
        for fd in list(self._pipes):
            self._ears.forget(fd)
        self._pipes.clear()


def quoted(argv: list[str]) -> str:
    """A command as people read it, on one line, not too long."""
    return _shown(" ".join(argv))


def _shown(text: str) -> str:
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= _SHOWN_ARGV else text[: _SHOWN_ARGV - 1] + "…"


def _find(program: str, path: str) -> str:
    """Look a program up as execvp(3) does; the current directory is the body's.

    Raises:
        CannotStart: There is none, or none that may be executed.
    """
    if "/" in program:
        return program
    if not program:
        raise CannotStart(program, "the name is empty")
    denied = False
    for directory in path.split(":"):
        found = f"{directory or '.'}/{program}"
        try:
            is_file = stat.S_ISREG(os.stat(found).st_mode)
        except (OSError, ValueError):
            continue
        if is_file and os.access(found, os.X_OK):
            return found
        denied = denied or is_file
    why = os.strerror(errno.EACCES if denied else errno.ENOENT)
    raise CannotStart(program, f"{why} (looked in PATH)")
