"""`python -m tests.benchmarks [--quick] [W1 W2 …]`: adw beside its floors, as Markdown tables.

Numbers of a shared machine mean little: contestants run interleaved, what counts are ratios
within a round and CPU time. L1 is a C program and L2 a Python one that only start, wait and
replace a state file durably; LC is the smallest program that keeps the contract of a supervised
phase. Exit code 1 where a goal is missed.
"""

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.benchmarks import w1, w2, w3, w4, w5, w6
from tests.benchmarks.contestants import Floors, environment
from tests.benchmarks.meter import Bench, Goal, adopt_orphans, table

WORKS: Final[dict[str, Callable[[Bench, Floors], list[Goal]]]] = {
    "W1": w1.run,
    "W2": w2.run,
    "W3": w3.run,
    "W4": w4.run,
    "W5": w5.run,
    "W6": w6.run,
}


def main() -> int:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks")
    parser.add_argument("works", nargs="*", metavar="W1 … W6", help="all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, two rounds")
    parser.add_argument("--rounds", type=int, help="how often (5; with --quick 2)")
    parser.add_argument(
        "--dir", type=Path, help="on the disk to be measured (the temporary folder)"
    )
    options = parser.parse_args()
    wanted = [word.upper() for word in options.works] or list(WORKS)
    unknown = [word for word in wanted if word not in WORKS]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    root = Path(tempfile.mkdtemp(prefix="adw-bench-", dir=options.dir))
    adopt_orphans()
    try:
        bench = Bench(
            root,
            rounds=options.rounds or (2 if options.quick else 5),
            env=environment(root),
            quick=options.quick,
        )
        print(f"{_machine(root)}; {bench.rounds} rounds\n", flush=True)
        goals = _measure(wanted, bench, Floors(root))
    finally:
        shutil.rmtree(root, ignore_errors=True)
    if options.quick:
        print("\nSmall sizes: start-up outweighs the work, so the goals are not judged.")
        return 0
    print("\n## Goals\n")
    print(table(["goal", "measured", "wanted", ""], [goal.row() for goal in goals]))
    return 0 if all(goal.met for goal in goals) else 1


def _measure(wanted: list[str], bench: Bench, floors: Floors) -> list[Goal]:
    goals: list[Goal] = []
    for word in wanted:
        goals += WORKS[word](bench, floors)
        sys.stdout.flush()
    return goals


def _machine(root: Path) -> str:
    load = os.getloadavg()[0]
    python = platform.python_version()
    disk = _filesystem(root)
    if disk in {"tmpfs", "ramfs"}:
        print(f"!! {root} is in memory: a sync costs nothing there, use --dir", file=sys.stderr)
    return f"{os.cpu_count()} processors, Python {python}, {disk}, load {load:.1f}"


def _filesystem(path: Path) -> str:
    """Type of the file system that holds a path."""
    found, longest = "unknown file system", -1
    try:
        mounts = Path("/proc/mounts").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return found
    for line in mounts.splitlines():
        _, where, kind, *_ = line.split()
        inside = path.resolve().is_relative_to(where)
        if inside and len(where) > longest:
            found, longest = kind, len(where)
    return found


if __name__ == "__main__":
    sys.exit(main())
