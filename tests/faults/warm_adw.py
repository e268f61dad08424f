"""`adw` that is loaded already: each command is a fork of this process, in a tenth of the time.

Asked by lines of JSON: {"args", "env", "cwd", "out"} starts a command and answers its pid; {"wait"}
reaps one and answers its status. A fork goes through `adw.__main__.main` as the program does:
nursery first, then the command. `--plant NAME` puts a fault of `tests/faults/planted.py` into it.
"""

import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import adw
from adw import __main__ as program
from tests.faults import planted


class Warm:
    """The driver's side."""

    def __init__(self, plant: str = "") -> None:
        words = [sys.executable, "-m", "tests.faults.warm_adw"]
        self._process = subprocess.Popen(
            [*words, "--plant", plant] if plant else words,
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def start(self, args: list[str], env: Mapping[str, str], cwd: Path, out: Path) -> int:
        """Start a command; its pid. Both its streams go to `out`."""
        asked = {"args": args, "env": dict(env), "cwd": str(cwd), "out": str(out)}
        return int(self._ask(asked))

    def wait(self, pid: int) -> int:
        """Wait for a command; its exit code, negative for a signal."""
        return os.waitstatus_to_exitcode(int(self._ask({"wait": pid})))

    def close(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.communicate()

    def _ask(self, asked: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


def serve() -> None:
    """Answer until the driver is gone."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "wait" in asked:
            answer = os.waitpid(asked["wait"], 0)[1]
        else:
            answer = os.fork()
            if answer == 0:
                be(asked)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def be(asked: dict[str, Any]) -> NoReturn:
    """In the fork: be the command."""
    code = 70
    try:
        null = os.open("/dev/null", os.O_RDONLY)
        out = os.open(asked["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        for fd, to in ((null, 0), (out, 1), (out, 2)):
            os.dup2(fd, to)
        os.closerange(3, max(null, out) + 1)
        os.environ.clear()
        os.environ.update(asked["env"])
        os.chdir(asked["cwd"])
        sys.argv = ["adw", *asked["args"]]
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = program.main()
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(int(code))


def load() -> None:
    """Import all that a command could."""
    for each in pkgutil.walk_packages(adw.__path__, "adw."):
        if each.name != "adw.__main__":
            importlib.import_module(each.name)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load()
    if sys.argv[1:2] == ["--plant"]:
        planted.FAULTS[sys.argv[2]]()
    serve()
