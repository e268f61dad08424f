"""Running adw in the copy, killing parts of it, and leaving no process behind.

This process is the one that orphans of a round come to, so whatever lives below it is of the
round. Signals go by `procs.send`, which looks at who it is first.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from adw import clock
from adw.app.chaos.report import Point
from adw.app.spawning import ADW, Piped
from adw.store import attempts, files
from adw.supervise import cgroups, procs

_TICK_S: Final = 0.001
_TICKS: Final = 400  # looks before output is looked for: a phase may be over in 10 ms
_GRACE_S: Final = 2.0  # for processes that are on their way out

FAILPOINT: Final = "ADW_FAILPOINT"


@dataclass(frozen=True, slots=True)
class Command:
    """How a command of the round ended."""

    words: Sequence[str]
    exit_code: int | None
    """None: it did not end in time, and was killed."""
    lines: Sequence[str]

    @property
    def told(self) -> str:
        """For people."""
        end = "did not end in time" if self.exit_code is None else f"ended with {self.exit_code}"
        return f"adw {' '.join(self.words)}: {end}"


@dataclass(slots=True)
class Killer:
    """Kills once, at an instant of one attempt."""

    point: Point
    run_dir: str
    body_s: float
    """How long the attempt took in the undisturbed run, seconds."""
    fired: bool = False
    killed: tuple[str, ...] = ()
    _due: float | None = None

    def look(self, orchestrator: int) -> bool:
        """Kill when the time has come; False, so that output is read on."""
        for _ in range(_TICKS):
            if self.fired or _is_dead(orchestrator):
                break
            if self._due is None:
                if _line(self.run_dir, self.point.name, "body") is None:
                    time.sleep(_TICK_S)
                    continue
                self._due = clock.monotonic() + self.point.share * self.body_s
            left_s = self._due - clock.monotonic()
            if left_s > 0:
                time.sleep(min(left_s, _TICK_S))
                continue
            self._fire(orchestrator)
        return False

    def _fire(self, orchestrator: int) -> None:
        self.fired = True
        self.killed = living(self.run_dir)
        if self.point.target == "all":
            end_all()
            return
        seen = procs.look(self._target(orchestrator))
        if seen is None or seen.dead:
            end_all()  # it was too short: as when the power fails now
            return
        procs.send(self._target(orchestrator), seen.start_time, signal.SIGKILL)

    def _target(self, orchestrator: int) -> int:
        if self.point.target == "orchestrator":
            return orchestrator
        if self.point.target == "nursery":
            line = _line(self.run_dir, self.point.name, "supervisor") or {}
            return int((line.get("nursery") or {}).get("pid", 0))
        return int((_line(self.run_dir, self.point.name, self.point.target) or {}).get("pid", 0))


@dataclass(slots=True)
class Hands:
    """Starts adw in the copy."""

    cwd: str
    env: dict[str, str]
    limit_s: float
    """For one command."""
    own: set[int] = field(default_factory=set)
    """Process ids that Piped waits for."""

    def adw(
        self,
        *words: str,
        failpoint: str | None = None,
        watch: Callable[[int], bool] | None = None,
    ) -> Command:
        """Run one command to its end, or to the time limit.

        Args:
            words: After `adw`.
            failpoint: Value of ADW_FAILPOINT.
            watch: Called again and again with its process id.
        """
        env = {**self.env, **({FAILPOINT: failpoint} if failpoint else {})}
        process = Piped([*ADW, *words], self.cwd, env)
        self.own.add(process.pid)

        def until() -> bool:
            reap(self.own)
            return watch(process.pid) if watch is not None else False

        try:
            if not process.follow(_nothing, until, self.limit_s):
                process.kill()
                process.follow(_nothing, bool, _GRACE_S)
                return Command(words, None, process.lines)
        except BaseException:
            process.kill()
            raise
        finally:
            self.own.discard(process.pid)
        return Command(words, process.exit_code, process.lines)


def living(run_dir: str) -> tuple[str, ...]:
    """Child ids of attempts that have begun and not ended."""
    folder = os.path.join(run_dir, "attempts")
    children = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    return tuple(
        child
        for child in children
        if _line(run_dir, child, "body") and not _line(run_dir, child, "exit")
    )


def below() -> dict[int, int]:
    """Living processes below this one: id to start time."""
    seen = procs.everyone()
    found = procs.below({os.getpid()}, seen)
    return {pid: seen[pid].start_time for pid in found if not seen[pid].dead}


def end_all() -> None:
    """Kill all that lives below this process at one stroke: stopped first, so that none sees."""
    deadline = clock.monotonic() + _GRACE_S
    found = below()
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid, start_time in found.items():
            procs.send(pid, start_time, number)
    while found and clock.monotonic() < deadline:
        for pid, start_time in found.items():
            procs.send(pid, start_time, signal.SIGKILL)
        time.sleep(_TICK_S)
        found = below()


def clear_up() -> None:
    """End all that lives below this process, and remove the control groups that are empty then."""
    end_all()
    reap(set())
    parent = cgroups.base()
    if parent is not None:
        cgroups.sweep(parent)


def left_behind(own: set[int]) -> list[str]:
    """What still lives a moment after the end of a run; ended now."""
    deadline = clock.monotonic() + _GRACE_S
    while below() and clock.monotonic() < deadline:
        reap(own)
        time.sleep(_TICK_S * 10)
    names = [_name(pid) for pid in below()]
    end_all()
    reap(own)
    return sorted(names)


def reap(own: set[int]) -> None:
    """Take orphans that have died out of the process table."""
    me = os.getpid()
    for pid, seen in procs.everyone().items():
        if seen.ppid == me and seen.dead and pid not in own:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def _is_dead(pid: int) -> bool:
    seen = procs.look(pid)
    return seen is None or seen.dead


def _name(pid: int) -> str:
    try:
        words = files.read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return "a process"
    return words.strip()[:120] or "a process"


def _line(run_dir: str, child: str, kind: str) -> dict[str, Any] | None:
    try:
        lines = attempts.read_lines(os.path.join(run_dir, "attempts", child))
    except OSError:
        return None
    return attempts.find(lines, kind)


def _nothing(_line: str) -> None:
    """The output is kept by Piped."""
