"""A room for attempts: packets, an orchestrator in this process, or one of its own to be killed."""

import hashlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from adw.core.interfaces import Ended, ExitRecord, LaunchSpec
from adw.store import files
from adw.supervise import procs
from adw.supervise.local import LocalSupervision
from tests.support.wait import until

REPOSITORY = Path(__file__).parents[3]

DAEMON = f"""{sys.executable} -I -S -c '
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
with open(os.environ["PLACE"] + "/.daemon", "w") as file: file.write(str(os.getpid()))
os.rename(os.environ["PLACE"] + "/.daemon", os.environ["PLACE"] + "/daemon")
os.closerange(0, 64)
os.execve("/bin/sleep", ["sleep", "1000"], {{}})'
while [ ! -e daemon ]; do sleep 0.01; done
"""
"""Shell text that leaves a daemon: forked twice, own session, nothing open, no environment."""

STUBBORN = """(trap '' TERM; echo $$ > /dev/null; sh -c 'trap "" TERM; echo $PPID > stubborn
while :; do sleep 0.05; done') &
while [ ! -s stubborn ]; do sleep 0.01; done
"""
"""Shell text that leaves two processes which ignore SIGTERM."""


@dataclass
class Room:
    """Attempts below one temporary directory."""

    path: Path
    supervision: LocalSupervision | None = None
    ended: dict[str, Ended] = field(default_factory=dict)

    @property
    def adw_id(self) -> str:
        """Another one in each test: what carries the same one elsewhere might be ended."""
        return hashlib.sha256(os.fsencode(self.path)).hexdigest()[:8]

    @property
    def local(self) -> LocalSupervision:
        """The orchestrator's side, in this process; its nursery is spawned."""
        if self.supervision is None:
            self.supervision = LocalSupervision()
        return self.supervision

    def spec(self, child_id: str, *argv: str, **more: Any) -> LaunchSpec:
        """A launch in this room; its directories are made."""
        folder = self.path / "attempts" / child_id
        folder.mkdir(parents=True, exist_ok=True)
        env = {
            "PATH": os.environ["PATH"],
            "PLACE": str(self.path),
            "ADW_ID": self.adw_id,
            "ADW_CHILD": child_id,
            **more.pop("env", {}),
        }
        given: dict[str, Any] = {
            "cwd": str(self.path),
            "sync_files": (),
            "sync_dirs": (str(folder),),
            "timeout_s": 30.0,
            "grace_s": 0.2,
        }
        return LaunchSpec(child_id, argv, env, attempt_dir=str(folder), **{**given, **more})

    def packet(self, spec: LaunchSpec) -> int:
        """Write the launch line; the locked descriptor."""
        fd = files.open_append(f"{spec.attempt_dir}/attempt.jsonl", new=True)
        assert files.lock(fd)
        files.append(fd, b'{"line":"launch"}')
        return fd

    def start(self, child_id: str, *argv: str, go: bool = True, **more: Any) -> None:
        """Hand an attempt over, and open its gate."""
        spec = self.spec(child_id, *argv, **more)
        self.local.hand_over(spec, self.packet(spec))
        if go:
            self.local.go(child_id)

    def shell(self, child_id: str, text: str, **more: Any) -> None:
        """As `start`, for a shell text."""
        self.start(child_id, "sh", "-c", text, **more)

    def end(self, child_id: str, timeout_s: float = 10) -> Ended:
        """Wait for an attempt."""

        def over() -> Ended | None:
            for each in self.local.wait(0.2):
                self.ended[each.child_id] = each
            return self.ended.get(child_id)

        found = until(over, timeout_s, f"end of {child_id}")
        assert found is not None
        return found

    def record(self, child_id: str, timeout_s: float = 10) -> ExitRecord:
        """Wait for an attempt, and for its exit line to be on disk."""
        found = self.end(child_id, timeout_s).record
        assert found is not None
        self.local.await_durable([child_id])
        assert not files.locked(self.jsonl(child_id))
        return found

    def jsonl(self, child_id: str) -> str:
        """Path of an attempt.jsonl."""
        return str(self.path / "attempts" / child_id / "attempt.jsonl")

    def lines(self, child_id: str) -> list[dict[str, Any]]:
        """The lines of an attempt.jsonl."""
        return [json.loads(raw) for raw in files.lines(files.read(self.jsonl(child_id)))]

    def line(self, child_id: str, kind: str) -> dict[str, Any] | None:
        """The last line of a kind, if there is one."""
        found = [line for line in self.lines(child_id) if line["line"] == kind]
        return found[-1] if found else None

    def await_line(self, child_id: str, kind: str) -> dict[str, Any]:
        """Wait for a line."""
        found = until(lambda: self.line(child_id, kind), what=f"{kind} line of {child_id}")
        assert found is not None
        return found

    def log(self, child_id: str, name: str = "stdout") -> bytes:
        """What was written to a log, nothing where there is none."""
        return files.read_if_exists(f"{self.path}/attempts/{child_id}/{name}.log") or b""

    def pid(self, name: str) -> int:
        """A pid that a body wrote into a file."""
        return int(until(lambda: self._text(name), what=f"pid in {name}"))

    def _text(self, name: str) -> str:
        path = self.path / name
        return path.read_text().strip() if path.exists() else ""

    # --- an orchestrator of its own --------------------------------------------------------

    def orchestrate(self, child_id: str, text: str, *, go: bool = True, **more: Any) -> "Other":
        """Start a process that forks a nursery and hands an attempt over; it waits then."""
        spec = {"child_id": child_id, "text": text, "go": go, "more": more}
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.supervise.orchestrator", str(self.path)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(spec) + "\n")
        process.stdin.flush()
        told = process.stdout.readline()
        assert told, "the orchestrator died"
        return Other(process, int(told))


@dataclass
class Other:
    """An orchestrator that is not this process."""

    process: "subprocess.Popen[str]"
    nursery: int

    def kill(self) -> None:
        """SIGKILL, and wait for its death."""
        self.process.kill()
        self.process.communicate()


def dead(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    seen = procs.look(pid)
    return seen is None or seen.dead


def kill(pid: int) -> None:
    """SIGKILL, and wait until it acted."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: dead(pid), what=f"death of {pid}")
