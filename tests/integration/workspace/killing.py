"""SIGKILL for git at each of its system calls that change something, by strace.

A point is (call, k): the k-th call of that name in any process of one git command. strace counts
per process, so a point may kill a child of git, git itself, or both; a point that killed nobody
is void, and fails its test.
"""

import random
import re
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

CHANGING: Final = (
    "openat", "write", "rename", "unlink", "mkdir", "rmdir", "link", "symlink", "fsync",
    "fdatasync", "ftruncate", "chmod", "wait4",
)  # fmt: skip
_LINE: Final = re.compile(r"^(\d+) +(\w+)\((.*)$")

Point = tuple[str, int]
Shim = Callable[[str], None]


def needs_strace() -> None:
    if shutil.which("strace") is None:
        pytest.skip("apt-get install strace: kills of git were NOT tested")


class Killer:
    """Puts strace between adw and one git command."""

    def __init__(self, shim: Shim, command: str, trace: Path) -> None:
        self.shim = shim
        self.command = command
        self.trace = trace

    def watch(self) -> None:
        self._install(f"-e trace={','.join(CHANGING)}")

    def arm(self, point: Point) -> None:
        name, k = point
        self._install(f"-e trace={name} -e inject={name}:signal=KILL:when={k}")

    def disarm(self) -> None:
        self.shim('exec $GIT "$@"')

    def points(self) -> list[Point]:
        """Of the watched run: every call that changed something."""
        seen: Counter[tuple[str, str]] = Counter()
        found: set[Point] = set()
        for line in self.trace.read_text("utf-8", "replace").splitlines():
            call = _LINE.match(line)
            if call is None:
                continue
            pid, name, rest = call.groups()
            seen[pid, name] += 1
            if name != "openat" or "O_CREAT" in rest:
                found.add((name, seen[pid, name]))
        return sorted(found)

    def fired(self) -> bool:
        return "+++ killed by SIGKILL +++" in self.trace.read_text("utf-8", "replace")

    def _install(self, options: str) -> None:
        self.shim(
            f'case " $* " in *" {self.command} "*)\n'
            f'  exec strace -f -q -o "{self.trace}" {options} "$GIT" "$@";;\nesac\n'
            'exec "$GIT" "$@"'
        )


def sample(points: list[Point], size: int, seed: int) -> list[Point]:
    """A few points, the same for the same seed."""
    return sorted(random.Random(seed).sample(points, min(size, len(points))))
