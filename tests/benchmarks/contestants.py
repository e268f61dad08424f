"""How adw and the floors are started on the same work."""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.support.repo import make_repo

Prepare = Callable[[Path], Sequence[str]]

HERE: Final = Path(__file__).parent
PYTHON: Final = (sys.executable, "-I")
ADW: Final = (*PYTHON, "-m", "adw")
TRUE: Final = (shutil.which("true") or "/bin/true",)
SLEEP: Final = (shutil.which("sleep") or "/bin/sleep",)

Phases = Mapping[str, Sequence[str]]
"""Name to what it needs."""


def chain(count: int) -> Phases:
    """One after the other."""
    return {f"p{i}": [f"p{i - 1}"] if i else [] for i in range(count)}


def fan(count: int) -> Phases:
    """None needs another."""
    return {f"p{i}": [] for i in range(count)}


def mesh(count: int) -> Phases:
    """Each needs two of the fifty before it, always the same ones."""
    choose = random.Random(7)
    return {
        f"p{i}": [f"p{j}" for j in sorted(choose.sample(range(max(0, i - 50), i), min(2, i)))]
        for i in range(count)
    }


def workflow(
    phases: Phases,
    argv: Sequence[str],
    *,
    writes: bool = False,
    parallel: int = 1,
    last: Sequence[str] | None = None,
) -> str:
    """A workflow file in YAML, every phase with the same command.

    Args:
        phases: The graph.
        argv: What each phase runs.
        writes: Leave out `writes: false`.
        parallel: `max_parallel`.
        last: What the last phase runs instead.
    """
    lines = ["schema_version: 1", "name: bench", f"max_parallel: {parallel}", "phases:"]
    final = list(phases)[-1]
    for name, needs in phases.items():
        words = last if last and name == final else argv
        lines += [f"  {name}:", f"    run: {json.dumps(list(words))}"]
        lines += [f"    needs: [{', '.join(needs)}]"] if needs else []
        lines += [] if writes else ["    writes: false"]
    return "\n".join(lines) + "\n"


def repository(place: Path, text: str, ending: str = "yaml") -> None:
    """Make `place` a repository with one workflow `bench` and a task."""
    make_repo(place, {f"workflows/bench.{ending}": text, "task.md": "# Bench\n\nMeasure.\n"})


def adw(text: str) -> Prepare:
    """`adw run` of a workflow."""

    def prepare(place: Path) -> Sequence[str]:
        repository(place, text)
        return (*ADW, "run", "bench", "--task", "task.md")

    return prepare


class Floors:
    """The floor programs; L1 is compiled where there is a compiler."""

    def __init__(self, root: Path) -> None:
        self.c: Path | None = None
        compiler = shutil.which("gcc") or shutil.which("cc")
        if compiler is None:
            print("!! no gcc: L1 is SKIPPED, and with it every ratio against L1", file=sys.stderr)
            return
        self.c = root / "floor"
        command = [compiler, "-O2", "-o", str(self.c), str(HERE / "floor.c")]
        subprocess.run(command, check=True)

    def l1(self, count: int, parallel: int, argv: Sequence[str]) -> dict[str, Prepare]:
        """The floor in C, if there is one."""
        words = ("run", str(count), str(parallel), ".", *argv)
        return {f"L1@{count}": _fixed((str(self.c), *words))} if self.c else {}

    def l2(self, count: int, parallel: int, argv: Sequence[str]) -> dict[str, Prepare]:
        """The floor in Python."""
        words = ("run", str(count), str(parallel), ".", *argv)
        return {f"L2@{count}": _fixed((*PYTHON, str(HERE / "floor_python.py"), *words))}

    def lc(self, count: int, parallel: int, argv: Sequence[str]) -> dict[str, Prepare]:
        """The floor that keeps the contract."""

        def prepare(place: Path) -> Sequence[str]:
            script = str(HERE / "floor_contract.py")
            return (*PYTHON, script, str(count), str(parallel), str(place), "-", *argv)

        return {f"LC@{count}": prepare}

    def lc_checked(self, count: int, argv: Sequence[str]) -> dict[str, Prepare]:
        """The same, looking at a worktree before and after each phase."""

        def prepare(place: Path) -> Sequence[str]:
            repo = make_repo(place / "repo")
            tree, root = place / "tree", place / "run"
            root.mkdir()
            repo.git("worktree", "add", "--quiet", "-b", "bench", str(tree))
            script = str(HERE / "floor_contract.py")
            return (*PYTHON, script, str(count), "1", str(root), str(tree), *argv)

        return {f"LC+tree@{count}": prepare}


def _fixed(command: Sequence[str]) -> Prepare:
    return lambda _: command


def environment(root: Path) -> dict[str, str]:
    """A clean one, with a home and a host directory of its own."""
    home = root / "home"
    home.mkdir()
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("ADW_", "GIT_", "PYTHON"))}
    return {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home), "NO_COLOR": "1"}
