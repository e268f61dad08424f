"""W3: resume a chain whose last phase failed: from the command's start to that phase's."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.benchmarks import contestants
from tests.benchmarks.contestants import ADW, HERE, PYTHON, TRUE, Floors, Prepare
from tests.benchmarks.meter import (
    Bench,
    Case,
    Goal,
    Run,
    measure,
    median,
    ms,
    ratio,
    refuse,
    table,
    times,
)


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    count = 100 if bench.quick else 1000
    stamp = bench.root / "stamp"
    # The time in nanoseconds since the epoch, written by the phase itself, which then fails.
    last = ("/bin/sh", "-c", f"date +%s%N > {stamp}; exit 1")
    repo, adw_id = _failed_run(bench, count, last)
    state = bench.place()
    history = json.loads((repo / "agents" / adw_id / "adw_state.json").read_text())
    (state / "state.json").write_text(json.dumps(history))

    def read(_: Path, run: Run) -> float:
        return (int(stamp.read_text()) - run.started_ns) / 1e9

    script = str(HERE / "floor_python.py")
    wanted: dict[str, Prepare] = {
        "L2": _always([*PYTHON, script, "resume", str(state), *last]),
        "adw": _always([*ADW, "resume", adw_id], repo),
    }
    if floors.c:
        wanted = {"L1": _always([str(floors.c), "resume", str(state), *last]), **wanted}
    codes = {"adw": 1}
    cases = [Case(n, p, read, codes.get(n, 0)) for n, p in wanted.items()]
    found = bench.rounds_of(cases)
    rows = []
    for name in wanted:
        values = found.values(name)
        span = f"{ms(min(values.values()))} to {ms(max(values.values()))}"
        against = times(ratio(values, found.values("L2")))
        rows.append([name, ms(median(values)), span, against, ms(median(found.cpus(name)))])
    print(f"\n## W3: resume, {count - 1} of {count} done\n")
    print(table(["contestant", "ms to the phase", "span", "x L2", "CPU ms, whole"], rows))
    return [Goal("W3 to the phase, against L2", ratio(found.values("adw"), found.values("L2")), 14)]


def _always(command: Sequence[str], cwd: Path | None = None) -> Prepare:
    """The same command each time; `cwd` by a shell, since a case runs in its own directory."""
    words = ["/bin/sh", "-c", 'cd "$0" && exec "$@"', str(cwd), *command] if cwd else command
    return lambda _: words


def _failed_run(bench: Bench, count: int, last: Sequence[str]) -> tuple[Path, str]:
    """Run the chain once up to its failure."""
    text = contestants.workflow(contestants.chain(count), TRUE, last=last)
    place = bench.place()
    prepare: Callable[[Path], Sequence[str]] = contestants.adw(text)
    done = measure(prepare(place), place, bench.env)
    if done.exit_code != 1:
        refuse("W3", done, place)
    (found,) = [path for path in (place / "agents").iterdir() if not path.name.startswith(".")]
    return place, found.name
