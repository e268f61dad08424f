"""Many processes that queue, work, and are killed at any moment.

    python queueing.py BASE PROCESSES LIMIT SECONDS SEED

Each process is a run that comes, waits for its turn, works while it holds one of LIMIT locks, and
goes; then it comes again. The parent kills one after another and starts it anew. A run that finds
none of the locks free works although as many work as may: it prints `too many`. At the end the
number of turns is printed.
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from adw.store import files, runs
from adw.workspace import queue

_WORK_S = 0.03
_POLL_S = 0.002


def _run(base: Path, name: str, limit: int) -> None:
    # Opened first, so that the kernel closes the locks of work before that of the run.
    work = [files.open_lock(str(base / f"work-{number}")) for number in range(limit)]
    turns = os.open(base / "turns", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    run_dir = base / name
    run_dir.mkdir(exist_ok=True)
    host, ticket = str(base / "host"), queue.Ticket(name, str(run_dir), str(base), limit)
    while True:
        lock = files.open_lock(str(run_dir / runs.LOCK))
        files.lock(lock, wait=True)
        found = queue.enter(host, ticket, runs.held)
        while found.position:
            time.sleep(_POLL_S)
            found = queue.advance(host, ticket, runs.held)
        if not any(files.lock(fd) for fd in work):
            os.write(1, b"too many\n")
        os.write(turns, name.encode() + b"\n")
        time.sleep(_WORK_S)
        for fd in work:  # closed, never unlocked
            os.close(fd)
        queue.leave(host, ticket, runs.held)
        work = [files.open_lock(str(base / f"work-{number}")) for number in range(limit)]
        os.close(lock)


def main() -> None:
    """Start all, kill one after another, end all."""
    base, count, limit = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    end = time.monotonic() + float(sys.argv[4])
    chance = random.Random(sys.argv[5])
    pids: dict[str, int] = {}

    def start(name: str) -> None:
        pids[name] = os.fork()
        if pids[name] == 0:
            try:
                _run(base, name, limit)
            finally:
                os._exit(3)

    for number in range(count):
        start(f"run-{number}")
    kills = 0
    while time.monotonic() < end:
        time.sleep(chance.uniform(0.01, 0.06))
        name = chance.choice(sorted(pids))
        os.kill(pids[name], signal.SIGKILL)
        _, how = os.waitpid(pids[name], 0)
        if not os.WIFSIGNALED(how):
            os.write(1, f"{name} failed\n".encode())
        kills += 1
        start(name)
    for pid in pids.values():
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    turns = (base / "turns").read_text().split()
    os.write(1, f"{len(turns)} turns of {len(set(turns))} runs, {kills} kills\n".encode())


if __name__ == "__main__":
    main()
