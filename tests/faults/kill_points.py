"""SIGKILL, or an error, for one process of `adw run` at each of its calls that change something.

A point is (process, call, k): before the k-th call of that name of that process. strace counts a
process's calls from its birth, whether they change something or not, so k does too. The process
is `orchestrator`, `nursery`, `supervisor` (the first one), or `git-<n>`, the n-th git command.

Source: strace(1), `-e inject`; ptrace(2): a process that is killed at the entry of a system call
does not execute it.
"""

import os
import random
import re
import select
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.support.ground import Done, Ground, Process
from tests.support.wait import until

CHANGING: Final = (
    "openat", "write", "pwrite64", "pwritev", "rename", "renameat", "renameat2", "unlink",
    "unlinkat", "mkdir", "mkdirat", "rmdir", "link", "linkat", "symlink", "symlinkat", "mknod",
    "mknodat", "fsync", "fdatasync", "ftruncate", "chmod", "fchmod", "fcntl", "sendmsg", "sendto",
    "clone", "clone3", "fork", "vfork", "execve", "kill", "pidfd_send_signal",
)  # fmt: skip
"""Calls that change files, locks, or other processes."""

_LINE: Final = re.compile(r"^(?:(\d+) +)?(\w+)\((.*)$")
_ONLY_IF: Final = {"openat": "O_CREAT", "fcntl": "_SETLK"}
_SHOWN: Final = 400  # characters of a call
LAUNCHER: Final = str(Path(__file__).with_name("traced_adw.py"))


class Point(NamedTuple):
    """Where to kill."""

    process: str
    call: str
    k: int
    text: str = ""
    """The call as strace showed it, shortened."""


SEED: Final = int(os.environ.get("SWEEP_SEED", "20261130"))
"""Of every sample of points."""


WHOLE: Final = os.environ.get("SWEEPS") == "whole"
"""No name of adw: conftest.py takes those away before anything is loaded."""


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """All points with SWEEPS=whole, else a sample of so many of them, in their order.

    A whole sweep of a longer run takes tens of minutes; the checks of each change try a sample.
    """
    if WHOLE or len(points) <= most:
        return list(points)
    print(f"seed {SEED}: {most} of {len(points)} points; SWEEPS=whole tries all")
    chosen = random.Random(SEED).sample(range(len(points)), most)
    return [points[number] for number in sorted(chosen)]


def needs_strace() -> None:
    """Skip where there is none."""
    if shutil.which("strace") is None:
        pytest.skip("apt-get install strace: kills at system calls were NOT tested")


@dataclass
class Killing:
    """One `adw run` under strace, in a ground of its own."""

    ground: Ground
    process: str
    point: Point | None = None
    error: str | None = None
    """Name of an errno that the call ends with; None: the process is killed before it."""
    calls: Sequence[str] = CHANGING
    """Names of the calls that are looked at for points."""

    def run(self, *words: str) -> Done:
        """Run `adw …`; what became of it."""
        os.mkdir(self._folder)
        if self.process == "orchestrator":
            return self.ground.adw(*words, wrap=["strace", *self._options()])
        if self.process.startswith("git"):
            return self._with_git(words)
        return self._attached(words)

    def fired(self) -> bool:
        """Whether it killed."""
        path = self._trace
        return path.exists() and "+++ killed by SIGKILL +++" in path.read_text("utf-8", "replace")

    def injected(self) -> str:
        """The call that ended with the error, as strace showed it; empty: it did not come."""
        text = self._trace.read_text("utf-8", "replace")
        return next((line for line in text.splitlines() if "(INJECTED)" in line), "")

    def points(self) -> list[Point]:
        """Of a run without a point: all that there are."""
        if self.process != "git":
            return points_of(self.process, self._trace)
        traces = sorted(self._folder.glob("trace.*"), key=lambda path: int(path.suffix[1:]))
        return [p for path in traces for p in points_of(f"git-{path.suffix[1:]}", path)]

    # --- how each process is reached --------------------------------------------------------

    @property
    def _folder(self) -> Path:
        return self.ground.base / "tracing"

    @property
    def _trace(self) -> Path:
        return self._folder / "trace"

    def _options(self) -> list[str]:
        return ["-q", "-o", str(self._trace), *self._what()]

    def _what(self) -> list[str]:
        if self.point is None:
            return ["-e", f"trace={','.join(self.calls)}"]
        call, k = self.point.call, self.point.k
        what = f"error={self.error}" if self.error else "signal=KILL"
        return ["-e", f"trace={call}", "-e", f"inject={call}:{what}:when={k}"]

    def _with_git(self, words: Sequence[str]) -> Done:
        """Put a shell script before git in PATH: it counts commands, and traces one or all."""
        real = shutil.which("git")
        strace = f'exec strace -f -q {" ".join(self._what())} -o "{self._trace}'
        wanted = self.process.partition("-")[2]
        test = (
            f'[ "$n" = {wanted} ] && {strace}" "$git" "$@"'
            if wanted
            else f'{strace}.$n" "$git" "$@"'
        )
        script = (
            f'#!/bin/sh\ngit={real}\nn=$(($(cat "{self._folder}/n" 2>/dev/null) + 1))\n'
            f'echo $n > "{self._folder}/n"\n{test}\nexec "$git" "$@"\n'
        )
        shim = self._folder / "bin" / "git"
        shim.parent.mkdir()
        shim.write_text(script)
        shim.chmod(0o755)
        return self.ground.adw(*words, PATH=f"{shim.parent}:{os.environ['PATH']}")

    def _attached(self, words: Sequence[str]) -> Done:
        os.mkfifo(self._folder / "gate")
        ask = self._folder / "ask"
        launcher = [sys.executable, LAUNCHER, self.process, str(self._folder)]
        run = self.ground.start(*words, argv=launcher)
        pid = until(lambda: ask.exists() and ask.read_text(), what=f"birth of the {self.process}")
        tracer = subprocess.Popen(
            ["strace", "-o", str(self._trace), *self._what(), "-p", str(pid)],
            stderr=subprocess.PIPE,
        )
        self.ground.started.append(tracer)
        _await_attached(tracer)
        gate = os.open(self._folder / "gate", os.O_WRONLY)
        os.write(gate, b".")
        os.close(gate)
        done = Done.of(run)
        tracer.communicate(timeout=30)
        return done


def _await_attached(tracer: Process) -> None:
    assert tracer.stderr is not None
    ready, _, _ = select.select([tracer.stderr], [], [], 10)
    line = tracer.stderr.readline() if ready else b""
    assert b"attached" in line, line


def points_of(process: str, trace: Path) -> list[Point]:
    """All calls of a trace that change something, with their number among those of their name."""
    seen: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str, int], Point] = {}
    for line in trace.read_text("utf-8", "replace").splitlines():
        call = _LINE.match(line)
        if call is None:
            continue
        pid, name, rest = call.groups()
        seen[pid, name] += 1
        # A failed execve is the search of PATH; the first one is before the process is itself.
        if _ONLY_IF.get(name, "") in rest and (name, seen[pid, name]) != ("execve", 1):
            point = Point(process, name, seen[pid, name], f"{name}({rest[:_SHOWN]}")
            found.setdefault(point[:3], point)
    return list(found.values())
