"""Orchestrator and supervisor killed in any order, at random, again and again, in whole runs.

Each body takes a lock that no other body may hold at the same time, and leaves a daemon that holds
it on: double-forked, in a session of its own, half of them without their environment. So a body
that begins while anything of another one lives tells of it by itself.
"""

import contextlib
import os
import random
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from adw.store import attempts
from adw.supervise import procs
from tests.faults.conftest import disable
from tests.faults.kill_points import SEED, WHOLE
from tests.support.counting import Counted
from tests.support.ground import COUNT, Done, Ground, dead
from tests.support.wait import until

KILLS: Final = 1000 if WHOLE else 100
"""Double kills in each part."""
PARTS: Final = 3
PHASES: Final = ("first", "second", "third")
LOSSES: Final = 2
"""Of one phase: the third in a row is an ordinary failure, by rule."""

_LOCK: Final = (
    'exec 9>>"$GROUND/witness";'
    ' flock -n 9 || echo "$ADW_CHILD" >> "$GROUND/overlaps";'
    ' echo $$ >> "$GROUND/alive"'
)
_DAEMON: Final = (
    "D='echo $$ >> \"$0/alive\"; exec sleep 40';"
    ' if [ $(( $$ % 2 )) = 0 ]; then (setsid sh -c "$D" "$GROUND" </dev/null >/dev/null 2>&1 &);'
    ' else (env -i PATH="$PATH" setsid sh -c "$D" "$GROUND" </dev/null >/dev/null 2>&1 &); fi'
)
_BODY: Final = f"{COUNT}; {_LOCK}; {_DAEMON}; sleep 0.15"


@dataclass
class Campaign:
    """Kills in runs of one repository."""

    ground: Ground
    mode: str
    dice: random.Random
    doubles: int = 0
    singles: int = 0
    runs: int = 0
    overlaps: int = 0
    unproved: int = 0
    wrong: list[str] = field(default_factory=list)
    ends: Counter[str] = field(default_factory=Counter)

    def run(self) -> None:
        """One run: kill, resume, and so on; in the end one resume that nobody disturbs."""
        self.runs += 1
        for name in ("overlaps", "alive"):
            (self.ground.base / name).unlink(missing_ok=True)
        before = set(self.ground.ids())
        process = self.ground.start("run", "w", "47", "--new", **disable(self.mode))
        found = until(lambda: set(self.ground.ids()) - before, what="the run")
        adw_id = found.pop()
        run_dir = self.ground.agents / adw_id
        losses: Counter[str] = Counter()
        for _ in range(LOSSES * len(PHASES)):
            if not self._await_attempt(process, run_dir, losses):
                break
            time.sleep(self.dice.random() * 0.2)
            self._kill(process, self._current(run_dir, losses), losses)
            process.communicate()
            self._look(adw_id)
            process = self.ground.start("resume", adw_id, **disable(self.mode))
        self._check(Done.of(process), run_dir)

    def _await_attempt(self, process: Any, run_dir: Path, losses: Counter[str]) -> bool:
        """Wait for an attempt that may be lost; False when the run is over."""
        while process.poll() is None:
            if self._current(run_dir, losses):
                return True
            time.sleep(0.002)
        return False

    def _current(self, run_dir: Path, losses: Counter[str]) -> tuple[str, int, int] | None:
        """Phase of an attempt that is on its way and may be lost, its supervisor and nursery."""
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(run_dir / "attempts"):
                lines = attempts.read_lines(str(run_dir / "attempts" / name))
                line = attempts.find(lines, "supervisor")
                phase = name.partition("-")[0]
                if line is None or attempts.find(lines, "exit") or losses[phase] >= LOSSES:
                    continue
                seen = procs.look(line["pid"])
                if seen and seen.start_time == line["start_time"] and not seen.dead:
                    return phase, line["pid"], seen.ppid
        return None

    def _kill(
        self, process: Any, current: tuple[str, int, int] | None, losses: Counter[str]
    ) -> None:
        """Kill the orchestrator, mostly the supervisor, sometimes the nursery, in any order."""
        victims = [process.pid]
        if current and self.dice.random() < 0.85:
            phase, supervisor, nursery = current
            losses[phase] += 1
            self.doubles += 1
            victims += [supervisor, nursery][: 2 if self.dice.random() < 0.3 else 1]
        else:
            self.singles += 1
        self.dice.shuffle(victims)
        for pid in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            time.sleep(self.dice.choice([0, 0, 0.005, 0.02]))

    def _look(self, adw_id: str) -> None:
        """Nobody works on the run but perhaps a supervisor: status says so."""
        status = self.ground.status(adw_id)["status"]
        if status not in {"interrupted", "succeeded", "held"}:
            self.wrong.append(f"run {self.runs}: nobody works on it, and status says {status}")

    def _check(self, done: Done, run_dir: Path) -> None:
        """The run is over, nobody met anybody, nobody is left, or both are told."""
        state_of = self.ground.status(run_dir.name)["state"]["phase_history"]
        tried = [(e["phase"], e["attempt"]) for e in state_of if e["attempt"] > 0]
        won = [e["phase"] for e in state_of if e["success"]]
        name = f"{self.mode}, run {self.runs} {run_dir.name}"
        if done.exit_code != 0 or won != list(PHASES):
            self.wrong.append(f"{name}: {won}\n{done.told()}")
        if len(tried) != len(set(tried)):
            self.wrong.append(f"{name}: an attempt has two outcomes: {tried}")
        self.ends.update(str(e["reason"]) for e in state_of if e["attempt"] > 0)
        path = self.ground.base / "overlaps"
        met = path.read_text().split() if path.exists() else []
        alive = self._alive()
        told = (run_dir / "state" / "task_history.jsonl").read_text()
        unproved = "unproved" in told or re.search(r"survivor|still alive", told)
        self.overlaps += len(met)
        self.unproved += bool(unproved)
        if (met or alive) and (self.mode == "cgroup" or not unproved):
            self.wrong.append(f"{name}: met {met}, alive {alive}, told: {bool(unproved)}")
        for pid in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        # Those that were reaped by others have no parent here that could wait for them.
        until(lambda: not self._alive(), what="end of the daemons")

    def _alive(self) -> list[int]:
        path = self.ground.base / "alive"
        words = path.read_text().split() if path.exists() else []
        return [int(word) for word in words if not dead(int(word))]


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault("F2", "F4", "F58", by="random double kills, a daemon holds a witness lock")
@pytest.mark.parametrize("part", range(PARTS))
def test_P5_P6_P7_P9_double_kills_leave_one_body_and_one_outcome(
    tmp_path: Path, mode: str, part: int, counted: Counted
) -> None:
    phases = {name: {"run": _BODY, "needs": list(PHASES[:n][-1:])} for n, name in enumerate(PHASES)}
    ground = Ground(tmp_path / "ground", phases)
    campaign = Campaign(ground, mode, random.Random(f"{SEED} {mode} {part}"))
    try:
        while campaign.doubles < KILLS and len(campaign.wrong) < 5:
            campaign.run()
    finally:
        ground.end()
    print(
        f"seed {SEED}, part {part}: {campaign.runs} runs, {campaign.singles} single kills,"
        f" {campaign.overlaps} overlaps, {campaign.unproved} runs told as unproved,"
        f" ends {dict(campaign.ends)}"
    )
    done = campaign.doubles
    counted(done, done, done - len(campaign.wrong), what=f"{mode}", wrong=campaign.wrong)
