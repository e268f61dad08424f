"""Starting other adw processes: each run has an orchestrator of its own."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Final

# -P: a `click.py` in the working directory is the repository's, not ours.
_ADW: Final = (sys.executable, "-P", "-m", "adw")


def detached(words: Sequence[str]) -> int:
    """Start a run in a session of its own and wait until it exists.

    Args:
        words: Words after `adw`.

    Returns:
        0 once the run's directory is durable; else the exit code of the process that failed.
    """
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)  # noqa: FBT003
    argv = [*_ADW, *words, "--announce-fd", str(writer)]
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


def together(commands: Sequence[Sequence[str]]) -> int:
    """Run several at once and wait for all; signals are passed on. The largest exit code."""
    started = [subprocess.Popen([*_ADW, *words], stdin=subprocess.DEVNULL) for words in commands]

    def pass_on(number: int, _frame: object) -> None:
        for process in started:
            if process.poll() is None:
                process.send_signal(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    return max((_code(process.wait()) for process in started), default=0)


def piped(words: Sequence[str], cwd: str, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start one, with all that it prints in one pipe.

    Args:
        words: Words after `adw`.
        cwd: Where.
        env: Its whole environment.
    """
    return subprocess.Popen(
        [*_ADW, *words],
        cwd=cwd,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def _code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned
