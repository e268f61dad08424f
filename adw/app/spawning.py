"""Starting other adw processes: each run has an orchestrator of its own."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Self

from adw import clock

# -P: a `click.py` in the working directory is the repository's, not ours.
ADW: Final = (sys.executable, "-P", "-m", "adw")
_POLL_S: Final = 0.02


def detached(words: Sequence[str]) -> int:
    """Start a run in a session of its own and wait until it exists.

    Args:
        words: Words after `adw`.

    Returns:
        0 once the run's directory is durable; else the exit code of the process that failed.
    """
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003
    argv = [*ADW, *words, "--announce-fd", str(writer)]
    process = subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, pass_fds=(writer,), start_new_session=True
    )
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        adw_id = said.readline().decode().strip()
    if not adw_id:
        return process.wait()
    sys.stdout.write(f"{adw_id}\n")
    sys.stdout.flush()
    process.returncode = 0  # it lives on by itself; nothing here waits for it
    return 0


class Line:
    """Several processes that start at once and come one after another.

    Each waits for the one before it, with `step_up`, and lets the next one come, with `step_on`,
    when it has its place in the queue; its death lets the next one come too.
    """

    def __init__(self, words: str | None) -> None:
        """Take the place that the hidden option `--line` names; None: there is no line."""
        self._before, self._after = map(int, words.split(",")) if words else (-1, -1)
        for fd in (self._before, self._after):
            if fd >= 0:
                os.set_inheritable(fd, False)  # noqa: FBT003

    def step_up(self) -> Self:
        """Wait for the one before; returns itself."""
        if self._before >= 0:
            os.read(self._before, 1)
            os.close(self._before)
            self._before = -1
        return self

    def step_on(self) -> None:
        """Let the next one come."""
        if self._after >= 0:
            os.close(self._after)
            self._after = -1


def together(commands: Sequence[Sequence[str]]) -> int:
    """Run several at once and wait for all; signals are passed on. The largest exit code.

    They come in the given order: each exists, and has its place in the queue, before the next.
    """
    started: list[subprocess.Popen[bytes]] = []
    caught: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        caught.append(number)
        for process in started:
            if process.poll() is None:
                process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    before = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    for words in commands:
        after, its_end = os.pipe2(os.O_CLOEXEC)
        # In a group of its own: the terminal signals its whole foreground group, and a second
        # signal, passed on from here, would make a run leave at once.
        argv = [*ADW, *words, "--line", f"{before},{its_end}"]
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, process_group=0, pass_fds=(before, its_end)
        )
        os.close(before)
        os.close(its_end)
        before = after
        started.append(process)
        if caught:  # while it was started
            process.send_signal(caught[-1])
            break
    os.close(before)
    codes = [_code(process.wait()) for process in started]
    return max([*codes, *(128 + number for number in caught)], default=0)


class Piped:
    """A program whose both outputs are read line by line while it runs."""

    def __init__(self, argv: Sequence[str], cwd: str, env: Mapping[str, str]) -> None:
        """Start it.

        Args:
            argv: The program; adw itself is `[*ADW, ...]`.
            cwd: Where.
            env: Its whole environment.
        """
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env=dict(env),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        self._rest = b""
        self.lines: list[str] = []
        """What it printed so far."""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """As subprocess has it: negative for a signal, None before its end was seen."""
        return self._process.returncode

    def kill(self) -> None:
        """Send SIGKILL."""
        self._process.kill()

    def follow(
        self, show: Callable[[str], None], until: Callable[[], bool], timeout_s: float
    ) -> bool:
        """Read what it prints until it ends, or until something is the case.

        Args:
            show: Given each line.
            until: Asked again and again.
            timeout_s: Longest wait.

        Returns:
            False: time is up.
        """
        deadline = clock.monotonic() + timeout_s
        pipe = self._process.stdout
        assert pipe is not None, "started with a pipe"
        while clock.monotonic() < deadline:
            if until():
                return True
            if not select.select([pipe], [], [], _POLL_S)[0]:
                continue
            data = os.read(pipe.fileno(), 1 << 16)
            self._rest += data or b"\n" * bool(self._rest)
            *whole, self._rest = self._rest.split(b"\n")
            for line in whole:
                self.lines.append(line.decode("utf-8", "replace"))
                show(self.lines[-1])
            if not data:
                pipe.close()
                self._process.wait()
                return True
        return False


def _code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned
