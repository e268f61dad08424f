"""Running contestants side by side: interleaved in random order, in new directories, ratios by round.

A removed directory is harmless only much later: on an ext4 without a journal every new inode
passes over those deleted in the last minute, so nothing is removed before all is measured.
"""

import ctypes
import math
import os
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

_PR_SET_CHILD_SUBREAPER: Final = 36
_LEAVE_S: Final = 5.0
_PAUSE_S: Final = 0.002


@dataclass(frozen=True, slots=True)
class Run:
    """One command, measured."""

    wall_s: float
    """Until the command itself ended."""
    cpu_s: float
    """Of the command and all its descendants, those too that outlived it."""
    peak_mb: float
    """Largest resident set of any one of these processes; never below that of this one, which
    the kernel counts in since the command was started from it."""
    exit_code: int
    started_ns: int
    """Wall clock."""


@dataclass(frozen=True, slots=True)
class Case:
    """One contestant."""

    name: str
    prepare: Callable[[Path], Sequence[str]]
    """Fills a new, empty directory and returns the command that is measured in it."""
    read: Callable[[Path, Run], float] = lambda _, run: run.wall_s
    """What is compared: seconds."""
    exit_code: int = 0


@dataclass(slots=True)
class Bench:
    """Where and how often; makes a new directory for each run, below `root`."""

    root: Path
    rounds: int
    env: Mapping[str, str]
    quick: bool = False
    _count: int = field(default=0)

    def place(self) -> Path:
        """A new directory."""
        self._count += 1
        path = self.root / f"{self._count:05d}"
        path.mkdir()
        return path

    def rounds_of(self, cases: Sequence[Case], rounds: int | None = None) -> "Rounds":
        """Run all cases once a round, each round in a new random order."""
        found = Rounds()
        for number in range(rounds or self.rounds):
            for case in random.sample(cases, len(cases)):
                place = self.place()
                command = case.prepare(place)
                os.sync()
                run = measure(command, place, self.env)
                if run.exit_code != case.exit_code:
                    refuse(case.name, run, place)
                found.add(number, case.name, run, case.read(place, run))
        return found


class Rounds:
    """Runs and values by case and round."""

    def __init__(self) -> None:
        self._runs: dict[str, dict[int, Run]] = {}
        self._values: dict[str, dict[int, float]] = {}

    def add(self, number: int, name: str, run: Run, value: float) -> None:
        """Keep one."""
        self._runs.setdefault(name, {})[number] = run
        self._values.setdefault(name, {})[number] = value

    def __contains__(self, name: str) -> bool:
        """Whether a case was run."""
        return name in self._values

    def values(self, name: str) -> dict[int, float]:
        """Seconds by round."""
        return self._values[name]

    def cpus(self, name: str) -> dict[int, float]:
        """CPU seconds by round."""
        return {number: run.cpu_s for number, run in self._runs[name].items()}

    def peak_mb(self, name: str) -> float:
        """Median of the largest process."""
        return statistics.median(run.peak_mb for run in self._runs[name].values())

    def slope(self, few: str, many: str, phases: int) -> dict[int, float]:
        """Seconds for one more phase by round, where `many` has `phases` more than `few`."""
        return slope(self.values(few), self.values(many), phases)

    def cpu_slope(self, few: str, many: str, phases: int) -> dict[int, float]:
        """CPU seconds for one more phase by round."""
        return slope(self.cpus(few), self.cpus(many), phases)


def slope(few: Mapping[int, float], many: Mapping[int, float], more: int) -> dict[int, float]:
    """What one more costs, by round; a round in which noise ate it all is left out."""
    found = {n: (many[n] - few[n]) / more for n in few.keys() & many.keys()}
    return {n: each for n, each in found.items() if each > 0}


def median(values: Mapping[int, float]) -> float:
    """Over the rounds; not a number where there is none."""
    return statistics.median(values.values() or [math.nan])


def ratio(values: Mapping[int, float], others: Mapping[int, float]) -> float:
    """Median of the ratios within a round."""
    return median({n: values[n] / others[n] for n in values.keys() & others.keys()})


def output_of(place: Path) -> Path:
    """Where a command's output goes: beside its directory, which may be a repository."""
    return place.with_suffix(".output")


def refuse(name: str, run: Run, place: Path) -> NoReturn:
    """Give up: a command did not end as it must."""
    told = output_of(place).read_text(errors="replace")[-800:]
    sys.exit(f"{name}: exit {run.exit_code}\n{told}")


def adopt_orphans() -> None:
    """Let descendants that outlive their command become children of this process."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def measure(command: Sequence[str], place: Path, env: Mapping[str, str]) -> Run:
    """Run one command in a directory, its output in `output_of` that; needs `adopt_orphans`."""
    with output_of(place).open("wb") as output:
        before = _children_cpu_s()
        started_ns = time.time_ns()
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=place, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    _reap()
    cpu_s = _children_cpu_s() - before
    return Run(wall_s, cpu_s, usage.ru_maxrss / 1024, process.returncode, started_ns)


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _reap() -> None:
    deadline = time.monotonic() + _LEAVE_S
    while time.monotonic() < deadline:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                time.sleep(_PAUSE_S)
        except ChildProcessError:
            return


# --- tables -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Goal:
    """A measured number and the most that it may be."""

    what: str
    value: float
    limit: float
    unit: str = "x"

    @property
    def met(self) -> bool:
        """Whether it is reached."""
        return self.value <= self.limit

    def row(self) -> list[str]:
        """One line of the table of goals."""
        space = "" if self.unit == "x" else " "
        verdict = "pass" if self.met else "**FAIL**"
        return [
            self.what,
            f"{self.value:.2f}{space}{self.unit}",
            f"<= {self.limit:g}{space}{self.unit}",
            verdict,
        ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table with columns of equal width."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    return "\n".join(
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    )


def ms(seconds: float) -> str:
    """Seconds as milliseconds."""
    return f"{seconds * 1000:.2f}" if seconds < 1 else f"{seconds * 1000:.0f}"


def times(value: float) -> str:
    """A ratio."""
    return f"{value:.2f}"
