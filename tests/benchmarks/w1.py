"""W1: a chain of `true`, of 1, 100 and 1,000 phases; the same with a worktree looked at each time."""

from tests.benchmarks import contestants
from tests.benchmarks.contestants import TRUE, Floors, Prepare
from tests.benchmarks.meter import Bench, Case, Goal, Rounds, median, ms, ratio, table, times

FLOORS = ("L1", "L2", "LC")
LONG_ROUNDS = 2


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    count = 30 if bench.quick else 100
    found = bench.rounds_of(_cases(floors, (1, count)))
    names = [n for n in (*FLOORS, "adw", "LC+tree", "adw+tree") if f"{n}@1" in found]
    print(f"## W1: chain of {count} `true`\n")
    print(table(_head(count), [_row(found, name, count) for name in names]))
    goals = _goals(found, count)
    return goals if bench.quick else goals + _long(bench, floors, count)


def _head(count: int) -> list[str]:
    more = ["ms/phase", "x L2", "x LC", "CPU ms/phase", "1 phase ms", f"{count} phases ms"]
    return ["contestant", *more, "total x L2", "peak MB"]


def _row(found: Rounds, name: str, count: int) -> list[str]:
    few, many = f"{name}@1", f"{name}@{count}"
    slopes = found.slope(few, many, count - 1)
    return [
        name,
        ms(median(slopes)),
        times(ratio(slopes, found.slope("L2@1", f"L2@{count}", count - 1))),
        times(ratio(slopes, found.slope("LC@1", f"LC@{count}", count - 1))),
        ms(median(found.cpu_slope(few, many, count - 1))),
        ms(median(found.values(few))),
        ms(median(found.values(many))),
        times(ratio(found.values(many), found.values(f"L2@{count}"))),
        f"{found.peak_mb(many):.0f}",
    ]


def _goals(found: Rounds, count: int) -> list[Goal]:
    few, many = "adw@1", f"adw@{count}"
    slopes = found.slope(few, many, count - 1)
    floor = found.slope("L2@1", f"L2@{count}", count - 1)
    cpu = found.cpu_slope(few, many, count - 1)
    total = ratio(found.values(many), found.values(f"L2@{count}"))
    writing = found.cpu_slope("adw+tree@1", f"adw+tree@{count}", count - 1)
    looks = found.cpu_slope("LC+tree@1", f"LC+tree@{count}", count - 1)
    plain = found.cpu_slope("LC@1", f"LC@{count}", count - 1)
    return [
        Goal("W1 a phase, against L2", ratio(slopes, floor), 5),
        Goal("W1 CPU a phase", median(cpu) * 1000, 8, "ms"),
        Goal(f"W1 {count} phases with start-up, against L2", total, 6),
        Goal(
            "W1 CPU of a phase that writes, against `writes: false` and the floor's looks",
            ratio(writing, cpu) / ratio(looks, plain),
            1.3,
        ),
    ]


def _long(bench: Bench, floors: Floors, count: int) -> list[Goal]:
    """1,000 phases: does one more cost more than in a chain of 100?"""
    many = 1000
    found = bench.rounds_of(_cases(floors, (1, count, many), plain=True), LONG_ROUNDS)
    rows, goal = [], 0.0
    for name in (n for n in (*FLOORS, "adw") if f"{n}@{many}" in found):
        first = found.slope(f"{name}@1", f"{name}@{count}", count - 1)
        later = found.slope(f"{name}@{count}", f"{name}@{many}", many - count)
        l2 = found.slope(f"L2@{count}", f"L2@{many}", many - count)
        cpu = found.cpu_slope(f"{name}@{count}", f"{name}@{many}", many - count)
        goal = ratio(found.slope(f"{name}@1", f"{name}@{many}", many - 1), first)
        peak = f"{found.peak_mb(f'{name}@{many}'):.0f}"
        shown = [ms(median(first)), ms(median(later)), times(goal), times(ratio(later, l2))]
        rows.append([name, *shown, ms(median(cpu)), peak])
    head = ["contestant", f"ms/phase to {count}", f"ms/phase {count} to {many}"]
    head += [f"slope of {many} / of {count}", "later x L2", "later CPU ms/phase", "peak MB"]
    print(f"\n## W1: chain of {many} `true`\n")
    print(table(head, rows))
    return [Goal(f"W1 slope at {many}, against that at {count}", goal, 1.5)]


def _cases(floors: Floors, counts: tuple[int, ...], *, plain: bool = False) -> list[Case]:
    wanted: dict[str, Prepare] = {}
    for count in counts:
        wanted |= floors.l1(count, 1, TRUE)
        wanted |= floors.l2(count, 1, TRUE)
        wanted |= floors.lc(count, 1, TRUE)
        chain = contestants.chain(count)
        wanted[f"adw@{count}"] = contestants.adw(contestants.workflow(chain, TRUE))
        if not plain:
            text = contestants.workflow(chain, TRUE, writes=True)
            wanted[f"adw+tree@{count}"] = contestants.adw(text)
            wanted |= floors.lc_checked(count, TRUE)
    return [Case(name, prepare) for name, prepare in wanted.items()]
