"""A repository with a workflow whose phases count their executions, and real adw processes in it.

Each phase appends its child id to `counts/<phase>`, outside of the repository, as the first thing
it does: so many lines, so many bodies. A phase that is to wait waits for a file named `go`.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from adw.store import attempts, files, runs
from adw.store.state import load_state
from adw.supervise import procs
from tests.support import leftovers
from tests.support.repo import Repo, make_repo
from tests.support.wait import until

COUNT: Final = 'echo "$ADW_CHILD" >> "$GROUND/counts/$ADW_PHASE"'
"""Shell text with which each phase begins."""

WAIT: Final = 'echo $$ > "$GROUND/body"; while [ ! -e "$GROUND/go" ]; do sleep 0.02; done'
"""Shell text of a phase that goes on when `go` appears."""

ADW: Final = (sys.executable, "-m", "adw")

Process = subprocess.Popen[bytes]


def phase(text: str, *, needs: Sequence[str] = (), **keys: Any) -> dict[str, Any]:
    """A `run` phase that counts itself and then does `text`."""
    return {"run": f"{COUNT}; {text}", "needs": list(needs), **keys}


@dataclass
class Ground:
    """One repository, its runs, and what was started there."""

    base: Path
    phases: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    started: list[Process] = field(default_factory=list)

    def __post_init__(self) -> None:
        (self.base / "counts").mkdir(parents=True)
        env = {"GROUND": str(self.base)}
        workflow = {"schema_version": 1, "name": "w", "phases": self.phases}
        issue = "---\ntitle: Mend it\nlabels: []\n---\nIt is broken.\n"
        self.repo: Repo = make_repo(
            self.base / "repo",
            {
                "workflows/w.yaml": json.dumps(workflow),
                "adw.yaml": json.dumps({"env": env, **self.config}),
                "issues/47.md": issue,
                "issues/48.md": issue,
            },
        )
        self.env = {
            # Named here so that nursery and supervisors can be told as ours.
            "ADW_AGENTS_DIR": str(self.agents),
            "ADW_HOST_DIR": str(self.base / "host"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
        }

    @property
    def agents(self) -> Path:
        """The folder of runs."""
        return self.base / "repo" / "agents"

    # --- commands ------------------------------------------------------------------------

    def start(
        self, *args: str, wrap: Sequence[str] = (), argv: Sequence[str] = ADW, **env: str
    ) -> Process:
        """Start `adw …` with its stdout and stderr in pipes; `end` ends it in any case."""
        process = subprocess.Popen(
            [*wrap, *argv, *args],
            cwd=self.repo.path,
            env={**os.environ, **self.env, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.started.append(process)
        return process

    def adw(self, *args: str, wrap: Sequence[str] = (), **env: str) -> "Done":
        """Run `adw …` to its end."""
        return Done.of(self.start(*args, wrap=wrap, **env))

    def ok(self, *args: str, **env: str) -> "Done":
        """Run `adw …`; exit code 0 is expected."""
        done = self.adw(*args, **env)
        assert done.exit_code == 0, done.told()
        return done

    def status(self, adw_id: str | None = None) -> Any:
        """What `adw status --json` says."""
        return json.loads(self.ok("status", *([adw_id] if adw_id else []), "--json").stdout)

    # --- what lies on the disk -----------------------------------------------------------

    def ids(self) -> list[str]:
        """All runs."""
        return runs.list_ids(str(self.agents))

    @property
    def adw_id(self) -> str:
        """The only run."""
        found = self.ids()
        assert len(found) == 1, found
        return found[0]

    @property
    def run_dir(self) -> Path:
        """Its directory."""
        return self.agents / self.adw_id

    def entries(self) -> list[tuple[str, int, bool, str | None]]:
        """The history in short: phase, attempt, success, reason."""
        state, _ = load_state(str(self.run_dir))
        return [(e.phase, e.attempt, e.success, e.reason) for e in state.phase_history]

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        """The events of these kinds, or all."""
        data = files.read(str(self.run_dir / "state" / "task_history.jsonl"))
        found = [json.loads(raw) for raw in files.lines(data)]
        return [each for each in found if not kinds or each["event"] in kinds]

    def ran(self, name: str) -> list[str]:
        """Child ids of a phase's bodies, in order."""
        path = self.base / "counts" / name
        return path.read_text().split() if path.exists() else []

    def line(self, child: str, kind: str) -> dict[str, Any] | None:
        """The last line of a kind in an attempt's file."""
        return attempts.find(attempts.read_lines(str(self.run_dir / "attempts" / child)), kind)

    def await_line(self, child: str, kind: str) -> dict[str, Any]:
        """Wait for a line."""
        found = until(
            lambda: self.line(child, kind) if self.ids() else None, what=f"{kind} of {child}"
        )
        assert found is not None
        return found

    def pid(self, name: str = "body") -> int:
        """A process id that a body wrote."""
        path = self.base / name
        return int(until(lambda: path.exists() and path.read_text().strip(), what=name))

    def go(self) -> None:
        """Let a waiting phase go on."""
        (self.base / "go").touch()

    def commits(self) -> int:
        """Commits that the run made."""
        state, _ = load_state(str(self.run_dir))
        log = self.repo.git("log", "--format=%(trailers:key=ADW-Run)", state.branch_name or "")
        return log.count("ADW-Run:")

    # --- the end -------------------------------------------------------------------------

    def processes(self) -> list[int]:
        """What lives and belongs to this ground."""
        return leftovers._find(-1, str(self.base))

    def all_gone(self, timeout_s: float = 10) -> None:
        """Wait until nothing of this ground lives."""
        until(lambda: not self.processes(), timeout_s, "end of all processes")

    def end(self) -> None:
        """Kill what still lives; for the end of a test."""
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    args: Any
    exit_code: int
    stdout: str
    stderr: str

    @staticmethod
    def of(process: Process, timeout_s: float = 50) -> "Done":
        """Wait for a process."""
        try:
            out, err = process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        return Done(process.args, process.returncode, out.decode(), err.decode())

    def told(self) -> str:
        """All of it, for a failed assertion."""
        return f"{self.args}: exit {self.exit_code}\n{self.stdout}\n{self.stderr}"


def dead(pid: int) -> bool:
    """Whether a process is gone, or only waits to be reaped."""
    seen = procs.look(pid)
    return seen is None or seen.dead


def kill(pid: int) -> None:
    """SIGKILL, and wait until it acted."""
    os.kill(pid, signal.SIGKILL)
    until(lambda: dead(pid), what=f"death of {pid}")


def free_after_s(run_dir: Path, limit_s: float = 5) -> float:
    """Seconds until nobody holds the run's lock."""
    begun = time.monotonic()
    while runs.held(str(run_dir)):
        assert time.monotonic() - begun < limit_s, "the lock is still held"
        time.sleep(0.001)
    return time.monotonic() - begun
