"""The floor L2: the same as floor.c in plain Python, started with `python -I`.

floor_python.py run COUNT PARALLEL DIRECTORY COMMAND [ARGUMENT...]
floor_python.py resume DIRECTORY COMMAND [ARGUMENT...]
"""

import os
import sys

STATE_BYTES = 2048
FRESH = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def replace(directory: str, fd: int, done: int) -> None:
    """Write, sync, rename, sync the directory."""
    temp = os.open(f"{directory}/state.tmp", FRESH, 0o600)
    os.write(temp, (b'{"done": %d}' % done).ljust(STATE_BYTES))
    os.fsync(temp)
    os.close(temp)
    os.rename(f"{directory}/state.tmp", f"{directory}/state.json")
    os.fsync(fd)


def run(count: int, parallel: int, directory: str, command: list[str]) -> None:
    """Run the command `count` times."""
    fd = os.open(directory, os.O_RDONLY)
    started = done = 0
    while done < count:
        while started < count and started - done < parallel:
            os.posix_spawn(command[0], command, os.environ)
            started += 1
        os.wait()
        done += 1
        replace(directory, fd, done)


def resume(directory: str, command: list[str]) -> None:
    """Find the one phase that is not done in a history of plain JSON, and run it."""
    import json

    with open(f"{directory}/state.json", "rb") as file:
        history = json.loads(file.read())["phase_history"]
    latest = {entry["phase"]: entry["success"] for entry in history}
    assert list(latest.values()).count(False) == 1
    os.posix_spawn(command[0], command, os.environ)
    os.wait()


if __name__ == "__main__":
    if sys.argv[1] == "resume":
        resume(sys.argv[2], sys.argv[3:])
    else:
        run(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5:])
