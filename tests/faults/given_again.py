"""In a PID namespace of its own: the numbers of a dead run's processes are given to strangers.

    unshare --pid --fork --kill-child --mount-proc python -m tests.faults.given_again BASE JSON

JSON has `env` of adw, `keep` (whether the body outlives the rest), and `words` of the command that
comes upon the strangers. What became of all is printed as JSON. Nobody else forks in such a
namespace, so the next number can be chosen.

Source: proc_sys_kernel(5), ns_last_pid.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

from adw.supervise import procs
from tests.support.ground import Ground, phase
from tests.support.wait import until

_ONCE: Final = 'echo $$ > "$GROUND/$ADW_CHILD"; [ "$ADW_CHILD" != one-1 ] || exec sleep 1000'


def main(base: Path, env: dict[str, str], words: list[str], *, keep: bool) -> dict[str, Any]:
    """Run, kill, give the numbers away, run the command; what came of it."""
    ground = Ground(base, {"one": phase(_ONCE)}, env=env, config={"ports": "none"})
    run = ground.start("run", "w", "47")
    body = ground.pid("one-1")
    line = ground.await_line("one-1", "supervisor")
    numbers = {
        "nursery": line["nursery"]["pid"],
        "supervisor": line["pid"],
        "orchestrator": run.pid,
    }
    if not keep:
        numbers["body"] = body
    for pid in numbers.values():
        os.kill(pid, signal.SIGKILL)
    run.communicate()
    until(lambda: _reaped(set(numbers.values())), what="death of all")
    if keep:  # it is in the supervisor's session: that number is given to nobody until it is dead
        del numbers["supervisor"]
    strangers = {name: given(pid) for name, pid in numbers.items()}
    assert {name: process.pid for name, process in strangers.items()} == numbers
    begun = {name: procs.look(process.pid) for name, process in strangers.items()}

    done = ground.adw(*words, ground.adw_id)

    seen = procs.look(body) if keep else None
    found = {
        "exit_code": done.exit_code,
        "told": done.told(),
        "entries": ground.entries(),
        "adopted": len(ground.events("child_adopted")),
        "harmed": [name for name, pid in numbers.items() if not _same(pid, begun[name])],
        "body_lives": seen is not None and not seen.dead,
    }
    for process in strangers.values():
        process.kill()
        process.wait()
    ground.end()
    return found


def given(pid: int) -> "subprocess.Popen[bytes]":
    """Start a stranger with this number."""
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    return subprocess.Popen(["sleep", "1000"], cwd="/", env={}, start_new_session=True)


def _reaped(pids: set[int]) -> bool:
    """Whether none is left; this process is their init."""
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            continue
    return not any(os.path.exists(f"/proc/{pid}") for pid in pids)


def _same(pid: int, begun: procs.Seen | None) -> bool:
    """Whether a stranger lives on, and nobody stopped it."""
    seen = procs.look(pid)
    assert begun is not None
    return seen is not None and seen.start_time == begun.start_time and seen.state in {"S", "R"}


if __name__ == "__main__":
    asked = json.loads(sys.argv[2])
    print(json.dumps(main(Path(sys.argv[1]), asked["env"], asked["words"], keep=asked["keep"])))
