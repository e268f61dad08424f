"""W5: cold start of the command line, and a list of 1,000 runs."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.benchmarks import contestants
from tests.benchmarks.contestants import ADW, PYTHON, TRUE, Floors, Prepare
from tests.benchmarks.meter import (
    Bench,
    Case,
    Goal,
    measure,
    median,
    ms,
    ratio,
    refuse,
    table,
    times,
)

BARE: Final = "python -I -c pass"
SCAN: Final = """
import json, os, sys
for entry in sorted(os.scandir("agents"), key=lambda entry: entry.name):
    if not entry.name.startswith("."):
        with open(entry.path + "/adw_state.json", "rb") as file:
            state = json.loads(file.read())
        sys.stdout.write(f"{entry.name} {state['workflow']} {state['updated_at']}\\n")
"""


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    del floors
    many = 100 if bench.quick else 1000
    one, full = _with_runs(bench, 1), _with_runs(bench, many)
    scan, listed = f"scan of {many} states", f"adw status, {many} runs"
    commands = {
        BARE: _in(one, [*PYTHON, "-c", "pass"]),
        "adw --version": _in(one, [*ADW, "--version"]),
        "adw --help": _in(one, [*ADW, "--help"]),
        "adw status": _in(one, [*ADW, "status"]),
        scan: _in(full, [*PYTHON, "-c", SCAN]),
        listed: _in(full, [*ADW, "status"]),
    }
    found = bench.rounds_of([Case(name, each) for name, each in commands.items()])
    bare = found.values(BARE)
    rows = []
    for name in commands:
        values = found.values(name)
        row = [name, ms(median(values)), ms(min(values.values())), times(ratio(values, bare))]
        rows.append([*row, ms(median(found.cpus(name))), f"{found.peak_mb(name):.0f}"])
    print("\n## W5: command line\n")
    print(table(["command", "ms", "least ms", f"x `{BARE}`", "CPU ms", "peak MB"], rows))
    limits = {"adw --version": 4, "adw --help": 7, "adw status": 8}
    goals = [
        Goal(f"W5 `{name}`, against `{BARE}`", ratio(found.values(name), bare), limit)
        for name, limit in limits.items()
    ]
    against = ratio(found.values(listed), found.values(scan))
    return [*goals, Goal(f"W5 list of {many} runs, against a scan", against, 3)]


def _in(cwd: Path, command: Sequence[str]) -> Prepare:
    """A command in a directory that is there already; the shell costs every one the same."""
    words = ("/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *command)
    return lambda _: words


def _with_runs(bench: Bench, count: int) -> Path:
    """A repository with past runs: one real one, and copies of it under other ids."""
    place = bench.place()
    prepare = contestants.adw(contestants.workflow(contestants.chain(5), TRUE))
    done = measure(prepare(place), place, bench.env)
    if done.exit_code != 0:
        refuse("W5", done, place)
    agents = place / "agents"
    (real,) = [path for path in agents.iterdir() if not path.name.startswith(".")]
    state = (real / "adw_state.json").read_bytes()
    latest = (real / "state" / "latest.json").read_bytes()
    for number in range(1, count):
        new = f"{number:08x}"
        copied = state.replace(real.name.encode(), new.encode())
        target = agents / new
        (target / "state").mkdir(parents=True)
        (target / "adw_state.json").write_bytes(copied)
        (target / "lock").write_bytes(b"")
        view = latest.replace(real.name.encode(), new.encode())
        view = view.replace(_digest(state), _digest(copied))
        (target / "state" / "latest.json").write_bytes(view)
    return place


def _digest(data: bytes) -> bytes:
    return hashlib.sha256(data).hexdigest().encode()
