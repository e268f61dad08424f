"""W6: memory, and what happens while nothing happens."""

import os
import signal
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.benchmarks import contestants
from tests.benchmarks.contestants import SLEEP, TRUE, Floors
from tests.benchmarks.meter import Bench, Case, Goal, output_of, table
from tests.support.wait import until

TICKS: Final = os.sysconf("SC_CLK_TCK")
WATCHED_S: Final = 3.0
SETTLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Process:
    """One process, as /proc shows it."""

    pid: int
    parent: int
    name: str


def run(bench: Bench, floors: Floors) -> list[Goal]:
    """Measure, print, and say what was reached."""
    del floors
    count, sleepers = (100, 8) if bench.quick else (1000, 50)
    chain = contestants.adw(contestants.workflow(contestants.chain(count), TRUE))
    peak = bench.rounds_of([Case("adw", chain)], 1).peak_mb("adw")
    print("\n## W6: memory, and rest while phases run\n")
    rows = [[f"adw, peak over a chain of {count}", f"{peak:.1f} MB"]]
    goals = [Goal(f"W6 peak of the orchestrator, {count} phases", peak, 60, "MB")]
    rows_more, goals_more = _sleeping(bench, sleepers)
    print(table(["what", "measured"], rows + rows_more))
    return goals + goals_more


def _sleeping(bench: Bench, count: int) -> tuple[list[list[str]], list[Goal]]:
    """Look at a run whose phases all sleep."""
    argv = (*SLEEP, "120")
    text = contestants.workflow(contestants.fan(count), argv, parallel=count)
    place = bench.place()
    command = contestants.adw(text)(place)
    with output_of(place).open("wb") as output:
        process = subprocess.Popen(
            command, cwd=place, env=bench.env, stdin=subprocess.DEVNULL, stdout=output
        )
    try:
        until(lambda: len(_bodies(process.pid)) == count, timeout_s=60, what="sleeping phases")
        time.sleep(SETTLE_S)  # what is written after "go" is over; nothing waits for it
        return _look(process.pid, count)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _look(pid: int, count: int) -> tuple[list[list[str]], list[Goal]]:
    found = _tree(pid)
    nursery = [p for p in found if p.parent == pid]
    supervisors = [p for p in found if p.parent in {n.pid for n in nursery}]
    if len(supervisors) != count:
        sys.exit(f"W6: {len(supervisors)} supervisors for {count} phases")
    groups = {
        "orchestrator": [pid],
        "nursery": [p.pid for p in nursery],
        "supervisor": [p.pid for p in supervisors],
    }
    before = {name: _activity(pids) for name, pids in groups.items()}
    time.sleep(WATCHED_S)
    after = {name: _activity(pids) for name, pids in groups.items()}
    rows, goals, wakes = [], [], 0
    for name, pids in groups.items():
        pss = _pss_mb(pids)
        shown = "not readable (run as root)" if pss is None else f"{pss:.2f} MB PSS each"
        rows.append([f"{name} ({len(pids)}) while {count} phases sleep", shown])
        woken = after[name][0] - before[name][0]
        ticks = after[name][1] - before[name][1]
        wakes += woken
        cpu = f"{woken} wake-ups, {ticks * 1000 / TICKS:.0f} ms CPU in {WATCHED_S:.0f} s"
        rows.append([f"{name}, at rest", cpu])
        if name == "supervisor" and pss is not None:
            goals.append(Goal("W6 a waiting supervisor, PSS", pss, 2.5, "MB"))
    goals.append(Goal(f"wake-ups in {WATCHED_S:.0f} s of sleeping phases", wakes, 0, "times"))
    return rows, goals


def _tree(pid: int) -> list[Process]:
    """A process's descendants."""
    alive = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                text = Path("/proc", name, "stat").read_text(encoding="utf-8", errors="replace")
            except OSError:
                continue
            rest = text[text.rindex(")") + 2 :].split()
            program = text[text.index("(") + 1 : text.rindex(")")]
            alive.append(Process(int(name), int(rest[1]), program))
    known, found = {pid}, []
    while more := [p for p in alive if p.parent in known and p.pid not in known]:
        known |= {p.pid for p in more}
        found += more
    return found


def _bodies(pid: int) -> list[Process]:
    return [p for p in _tree(pid) if p.name == Path(SLEEP[0]).name]


def _pss_mb(pids: list[int]) -> float | None:
    """Median of the proportional set sizes."""
    found = []
    for pid in pids:
        try:
            text = Path("/proc", str(pid), "smaps_rollup").read_text()
        except OSError:
            return None
        found += [int(x.split()[1]) / 1024 for x in text.splitlines() if x.startswith("Pss:")]
    return statistics.median(found) if found else None


def _activity(pids: list[int]) -> tuple[int, int]:
    """How often they went to sleep (so woke up before), and their CPU in clock ticks."""
    wakes = ticks = 0
    for pid in pids:
        status = Path("/proc", str(pid), "status").read_text()
        wakes += sum(
            int(line.split()[1])
            for line in status.splitlines()
            if line.startswith("voluntary_ctxt_switches")
        )
        stat = Path("/proc", str(pid), "stat").read_text(errors="replace")
        rest = stat[stat.rindex(")") + 2 :].split()
        ticks += int(rest[11]) + int(rest[12])
    return wakes, ticks
