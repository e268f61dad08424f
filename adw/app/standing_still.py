"""Which processes of a run were stopped: they hold their locks, and do nothing until continued.

Source: proc(5), the state in /proc/PID/stat; T is stopped by a signal.
"""

from collections.abc import Iterable
from typing import Any

from adw.store import attempts, runs
from adw.supervise import procs


def stopped(run_dir: str, living: Iterable[str], *, held: bool) -> list[dict[str, Any]]:
    """Name adw's own processes that stand still.

    Args:
        run_dir: The run.
        living: Attempts whose supervisor lives.
        held: Whether an orchestrator holds the run.

    Returns:
        `process` (adw, nursery or supervisor), `child_id` of a supervisor's attempt, `pid`.
    """
    found = []
    pid = runs.holder_pid(run_dir) if held else None
    if pid is not None and _stands(pid, runs.start_time(pid)):
        found.append({"process": "adw", "child_id": None, "pid": pid})
    nurseries = set()
    for child in living:
        line = attempts.find(attempts.lines_of(run_dir, child), "supervisor")
        if line is None or line.get("boot_id") != procs.boot_id():
            continue
        nursery = line.get("nursery") or {}
        nurseries.add((nursery.get("pid", 0), nursery.get("start_time", 0)))
        if _stands(line["pid"], line["start_time"]):
            found.append({"process": "supervisor", "child_id": child, "pid": line["pid"]})
    found += [
        {"process": "nursery", "child_id": None, "pid": pid}
        for pid, start_time in sorted(nurseries)
        if _stands(pid, start_time)
    ]
    return found


def _stands(pid: int, start_time: int | None) -> bool:
    seen = procs.look(pid)
    return seen is not None and seen.start_time == start_time and seen.state == "T"
