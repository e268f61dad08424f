"""W4: plan a graph of 10,000 phases and 20,000 edges; nothing is run."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks import contestants
from tests.benchmarks.contestants import ADW, HERE, PYTHON, TRUE, Floors, Phases, Prepare
from tests.benchmarks.meter import Bench, Case, Goal, median, ms, ratio, table, times


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    del floors
    count = 1000 if bench.quick else 10_000
    mesh = contestants.mesh(count)
    texts = {"yaml": contestants.workflow(mesh, TRUE), "json": _as_json(mesh)}
    cases = []
    for ending, each in texts.items():
        cases.append(Case(f"floor, {ending}", _floor(each, ending)))
        cases.append(Case(f"adw run --dry-run, {ending}", _adw(each, ending)))
    found = bench.rounds_of(cases)
    rows, goals = [], []
    for ending, limit in (("yaml", 1.5), ("json", 12.0)):
        for who in ("floor", "adw run --dry-run"):
            name = f"{who}, {ending}"
            against = ratio(found.values(name), found.values(f"floor, {ending}"))
            took = [ms(median(found.values(name))), times(against)]
            peak = f"{found.peak_mb(name):.0f}"
            rows.append([name, *took, ms(median(found.cpus(name))), peak])
            if who != "floor":
                goals.append(
                    Goal(f"W4 {count} phases, {ending}, against its floor", against, limit)
                )
    print(f"\n## W4: plan {count} phases, {2 * count} edges\n")
    print(table(["contestant", "ms", "x its floor", "CPU ms", "peak MB"], rows))
    return goals


def _as_json(phases: Phases) -> str:
    """The same workflow."""
    shape = {
        name: {"run": list(TRUE), **({"needs": needs} if needs else {}), "writes": False}
        for name, needs in phases.items()
    }
    return json.dumps(
        {"schema_version": 1, "name": "bench", "max_parallel": 1, "phases": shape}, default=list
    )


def _floor(text: str, ending: str) -> Prepare:
    def prepare(place: Path) -> Sequence[str]:
        (place / f"bench.{ending}").write_text(text)
        return (*PYTHON, str(HERE / "floor_plan.py"), f"bench.{ending}")

    return prepare


def _adw(text: str, ending: str) -> Prepare:
    def prepare(place: Path) -> Sequence[str]:
        contestants.repository(place, text, ending)
        return (*ADW, "run", "bench", "--task", "task.md", "--dry-run")

    return prepare
