"""Runs whose power is cut: what had been told by then, and what must be left of it on the disk."""

import contextlib
import os
import signal
import subprocess
from typing import Final

from tests.faults.crash_states import Recorded, Told, violations
from tests.faults.recording import Op
from tests.faults.three_phases import ORDER
from tests.support.ground import ADW, Ground, Process
from tests.support.wait import until

HISTORY: Final = [
    (name, sum(n == name for n, _ in ORDER[: at + 1]), success)
    for at, (name, success) in enumerate(ORDER)
]
"""Phase, attempt and success of each entry of an undisturbed run."""


def started(ground: Ground, *words: str) -> Process:
    """`adw` with its output in a file that the disk does not take away."""
    out = (ground.base / "counts" / "stdout").open("ab")
    with out:
        process = subprocess.Popen(
            [*ADW, *words],
            cwd=ground.repo.path,
            env={**os.environ, **ground.env},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.DEVNULL,
        )
    ground.started.append(process)
    return process


def told(ground: Ground) -> Told:
    """What others know by now."""
    found = Told()
    for path in sorted((ground.base / "counts").iterdir()):
        if data := path.read_bytes():
            found.take(Op("write", str(path), data=data))
    return found


def await_bodies(ground: Ground, run: Process, count: int) -> None:
    """Wait until so many bodies have begun, or the run is over."""
    until(
        lambda: len(told(ground).bodies) >= count or run.poll() is not None,
        what=f"{count} bodies",
    )


def end_all(ground: Ground) -> None:
    """End everybody, as a power cut does."""
    for pid in ground.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for process in ground.started:
        process.communicate()
    ground.all_gone()


def found_wrong(ground: Ground, known: Told) -> list[str]:
    """What is wrong with what the disk has."""
    if not ground.ids():
        return ["the run is gone, and was told of"] if known.exists else []
    run = Recorded((), str(ground.agents), str(ground.base / "counts"), ground.adw_id, HISTORY)
    return violations(run, str(ground.agents), known)
