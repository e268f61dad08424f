"""Many runs of two repositories that are created and take their ports at the same moment.

    python leasing.py FIRST SECOND COUNT VICTIM

Each of COUNT forks makes a run of one of the two, takes its pair, prints `<run> <back> <front>`,
and holds its lock until stdin ends. Number VICTIM prints it and is killed before its state has it.
"""

import os
import signal
import sys
from typing import Any

from adw.app.creating import RunOptions, create, fresh_id, make_plan
from adw.app.places import find_places
from adw.app.sitting import Work
from adw.model.state import ADWStateData
from adw.store.state import StateFile, load_state


class _Killed(StateFile):
    def save(self, state: ADWStateData, *_more: Any) -> None:
        _tell(self._dir, state)
        os.kill(os.getpid(), signal.SIGKILL)


def _tell(run_dir: str, state: ADWStateData) -> None:
    os.write(1, f"{run_dir} {state.backend_port} {state.frontend_port}\n".encode())


def _nobody(*_args: Any) -> None:
    """Nobody watches."""


class _Host:
    nursery = None
    reporter: Any = None
    created = staticmethod(_nobody)
    say = staticmethod(_nobody)


def main() -> None:
    """Prepare everything, fork, let all go at once."""
    repositories, count, victim = sys.argv[1:3], int(sys.argv[3]), int(sys.argv[4])
    all_places = [find_places(each) for each in repositories]
    options = RunOptions(workflow="w", issue=47, parallel=True)
    plans = [make_plan(each, options, "00000000") for each in all_places]
    start, go = os.pipe()
    for number in range(count):
        if os.fork() == 0:
            os.close(go)
            places, plan = all_places[number % 2], plans[number % 2]
            os.read(start, 1)
            lock = create(places, options, fresh_id(places.agents_dir), plan)
            state, data = load_state(lock.run_dir)
            kind = _Killed if number == victim else StateFile
            file = kind(lock.run_dir, state, data)
            host: Any = _Host
            work = Work(places, host, lock, state, file, plan.definition, "run")
            work._lease()
            _tell(lock.run_dir, load_state(lock.run_dir)[0])
            sys.stdin.read()
            os._exit(0)
    os.close(start)
    os.close(go)
    for _ in range(count):
        os.wait()


if __name__ == "__main__":
    main()
