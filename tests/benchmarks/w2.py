"""W2: fan-out. Many `true`, two at a time; `sleep 0.1`, 32 at a time."""

from collections.abc import Sequence

from tests.benchmarks import contestants
from tests.benchmarks.contestants import SLEEP, TRUE, Floors
from tests.benchmarks.meter import Bench, Case, Goal, Rounds, median, ms, ratio, table, times

ROUNDS = 2


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    shorts, sleeps = (100, 64) if bench.quick else (1000, 200)
    true = _one(bench, floors, shorts, 2, TRUE)
    sleep = _one(bench, floors, sleeps, 32, (*SLEEP, "0.1"))
    goals = [_goal("W2 `true`, 2 at a time", true, shorts, "L2", 5)]
    if f"L1@{sleeps}" in sleep:
        goals.append(_goal("W2 `sleep 0.1`, 32 at a time", sleep, sleeps, "L1", 1.6))
    return goals


def _goal(what: str, found: Rounds, count: int, floor: str, limit: float) -> Goal:
    value = ratio(found.values(f"adw@{count}"), found.values(f"{floor}@{count}"))
    return Goal(f"{what}, against {floor}", value, limit)


def _one(bench: Bench, floors: Floors, count: int, parallel: int, argv: Sequence[str]) -> Rounds:
    text = contestants.workflow(contestants.fan(count), argv, parallel=parallel)
    wanted = floors.l1(count, parallel, argv) | floors.l2(count, parallel, argv)
    wanted |= floors.lc(count, parallel, argv)
    wanted[f"adw@{count}"] = contestants.adw(text)
    found = bench.rounds_of([Case(name, prepare) for name, prepare in wanted.items()], ROUNDS)
    rows = []
    for name in wanted:
        values = found.values(name)
        row = [name.partition("@")[0], ms(median(values)), ms(median(values) / count)]
        row += [
            times(ratio(values, found.values(other))) if other in found else "-"
            for other in (f"L1@{count}", f"L2@{count}")
        ]
        cpu_ms = ms(median(found.cpus(name)) / count)
        rows.append([*row, cpu_ms, f"{found.peak_mb(name):.0f}"])
    command = " ".join([argv[0].rpartition("/")[2], *argv[1:]])
    print(f"\n## W2: {count} x `{command}`, {parallel} at a time (start-up included)\n")
    head = ["contestant", "total ms", "ms/phase", "x L1", "x L2", "CPU ms/phase", "peak MB"]
    print(table(head, rows))
    return found
