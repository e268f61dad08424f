"""Random kills of two or more processes at once, in real runs, again and again.

Each body takes a lock that no other body may hold at the same time, and leaves a daemon that holds
it on: forked twice, in a session of its own, nothing else open, every other one with an empty
environment. So a body that begins while anything of another attempt lives meets it, and says so.
"""

import contextlib
import fcntl
import json
import os
import random
import shutil
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from adw.app.reading import listing
from adw.store import attempts, files, runs
from adw.store.state import load_state
from adw.supervise import procs
from tests.faults.warm_adw import Warm
from tests.support.ground import ADW, Ground, Process, dead
from tests.support.wait import until

NAPS: Final = {"one": 0.05, "two": 0.08, "three": 0.12, "four": 0.15}
"""Phases, and for how many seconds each is at work."""
ROUNDS: Final = 6
"""Most kills in one run."""
LANES: Final = 3
"""Runs at once: most of a trial is waiting."""
LOSSES: Final = 2
"""Of one phase: by rule the third in a row fails it."""

_WITNESS: Final = """TRIAL=$(readlink "$GROUND/now"); export TRIAL
echo "$ADW_CHILD" >> "$TRIAL/bodies"
exec 9>>"$TRIAL/witness"
if flock -n 9; then echo "$ADW_CHILD" > "$TRIAL/holder"
else echo "$ADW_CHILD $(cat "$TRIAL/holder")" >> "$TRIAL/overlaps"; fi
"""
# 9 is inherited: the daemon holds what the body took. `sh -c` is the process that stays.
_DAEMON: Final = """stay='echo "$1 $$" >> "$0/daemons"; exec sleep 1000'
if [ $(($$ % 2)) = 0 ]; then keep="env -i PATH=$PATH"; else keep=; fi
($keep setsid sh -c 'sh -c "$0" "$1" "$2" & ' "$stay" "$TRIAL" "$ADW_CHILD" <&- >&- 2>&- &)
"""
_EFFECT: Final = (
    f"""{sys.executable} -m adw effect --probe '[ -s "$TRIAL/outside" ]' said"""
    """ -- sh -c 'echo said >> "$TRIAL/outside"' >&2"""
)


def workflow() -> dict[str, dict[str, Any]]:
    """Phases one after another; the last has an effect."""
    found: dict[str, dict[str, Any]] = {}
    for name, nap in NAPS.items():
        last = _EFFECT if name == "four" else ":"
        found[name] = {
            "run": f"{_WITNESS}{_DAEMON}{last}\nsleep {nap}",
            "needs": list(found)[-1:],
            # A body that is killed alone is an ordinary failure.
            "retry": {"attempts": 20, "on": ["signal"]},
        }
    return found


@dataclass
class Campaign:
    """Kills in runs, a few runs at once, each in a repository of its own.

    Attributes:
        mode: `cgroup` or `tag`.
        seed: Of the first trial; each has the next one.
        plant: Name of a planted fault.
    """

    mode: str
    seed: int
    plant: str = ""
    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def run(self, base: Path, kills: int, most_wrong: int = 5) -> None:
        """Try runs until so many double kills were made.

        Args:
            base: Directory for all.
            kills: How many double kills at least.
            most_wrong: After so many wrong trials no further one is begun.
        """
        with ThreadPoolExecutor(LANES) as pool:
            lanes = [
                pool.submit(self._lane, base / f"lane{n}", kills, most_wrong) for n in range(LANES)
            ]
            for lane in lanes:
                lane.result()

    @property
    def doubles(self) -> int:
        """Double kills that were made."""
        return self.counts["double kills"]

    def told(self) -> str:
        """The numbers, for people."""
        counts = ", ".join(f"{name} {count}" for name, count in sorted(self.counts.items()))
        return f"{self.mode}, seeds {self.seed} to {self.seed + self.counts['runs'] - 1}: {counts}"

    def _lane(self, base: Path, kills: int, most_wrong: int) -> None:
        ground = Ground(base, workflow(), config={"ports": "none"})
        warm = Warm(self.plant)
        try:
            while self.doubles < kills and len(self.wrong) < most_wrong:
                with self._lock:
                    seed = self.seed + self.counts["runs"]
                    self.counts["runs"] += 1
                trial = Trial(self, ground, seed, warm)
                trial.run()
                with self._lock:
                    self.counts.update(trial.counts)
                    if trial.wrong:
                        text = "\n".join(trial.wrong)
                        self.wrong.append(f"SWEEP_SEED={seed}, mode {self.mode}: {text}")
        finally:
            warm.close()
            ground.end()


class Trial:
    """One run: kill, resume, kill …, and a last resume that nobody disturbs."""

    def __init__(self, campaign: Campaign, ground: Ground, seed: int, warm: Warm) -> None:
        self.campaign = campaign
        self.ground = ground
        self.warm = warm
        self.dice = random.Random(seed)
        self.base = ground.base / f"trial-{seed}"
        self.base.mkdir()
        link = ground.base / "now"
        link.unlink(missing_ok=True)
        link.symlink_to(self.base)
        self.agents = self.base / "agents"
        self.counts: Counter[str] = Counter()
        self.losses: Counter[str] = Counter()
        self.nurseries: dict[int, int] = {}
        self.supervisors: dict[int, int] = {}
        self.wrong: list[str] = []
        self.real: Process | None = None

    def run(self) -> None:
        """Do it; see `wrong` and `counts`."""
        try:
            for _ in range(self.dice.randint(3, ROUNDS)):
                if not self._round():
                    break
            self._finish()
            self._check()
        except AssertionError as error:
            self.wrong.append(str(error))
        finally:
            self._end()
        if not self.wrong:
            shutil.rmtree(self.base)

    def _claimed(self) -> list[str]:
        """What status says of runs on which nobody works, but for the truth."""
        found = listing(str(self.agents))["runs"] if self.agents.exists() else []
        said = [run["status"] for run in found]
        return [status for status in said if status not in {"interrupted", "succeeded"}]

    # --- one round ---------------------------------------------------------------------------

    def _round(self) -> bool:
        """Start, wait for a moment, kill; False where the run was over before."""
        pid = self._start()
        if not self._moment(pid):
            self._reap(pid)
            return False
        self._kill(pid)
        self._reap(pid)
        # A child that was forked and has not become git yet holds the lock for that instant.
        until(lambda: not self._claimed(), 2, f"the end of {self._claimed()}, whose adw is dead")
        return True

    def _start(self) -> int:
        """`run` while there is none, else one plain `resume`; every tenth as a program."""
        found = runs.list_ids(str(self.agents)) if self.agents.exists() else []
        args = ["resume", found[0]] if found else ["run", "w", "47", "--new"]
        env = {
            **os.environ,
            **self.ground.env,
            "ADW_AGENTS_DIR": str(self.agents),
        }
        if self.campaign.mode == "tag":
            env["ADW_DISABLE"] = "cgroup"
        cwd = self.ground.repo.path
        if self.campaign.plant or self.dice.random() < 0.9:
            return self.warm.start(args, env, cwd, self.base / "out")
        self.counts["started as programs"] += 1
        self.real = self.ground.start(*args, argv=ADW, **env)
        return self.real.pid

    def _moment(self, pid: int) -> bool:
        """Sleep until the time has come; False where the command has ended."""
        bodies = self._bodies()
        if self.dice.random() < 0.7:
            deadline = time.monotonic() + 10
            while self._bodies() == bodies and not dead(pid) and time.monotonic() < deadline:
                time.sleep(0.002)
            time.sleep(self.dice.uniform(0, 0.3))
        else:
            time.sleep(self.dice.uniform(0, 0.5))
        return not dead(pid)

    def _bodies(self) -> int:
        path = self.base / "bodies"
        return path.stat().st_size if path.exists() else 0

    def _kill(self, orchestrator: int) -> None:
        """The orchestrator and, in 60 of 100, its supervisor; now and then the nursery, a body."""
        self._learn(orchestrator)
        supervisor = self._may_be_lost()
        victims = {orchestrator: "orchestrator"}
        if supervisor and self.dice.random() < 0.6:
            victims[supervisor] = "supervisor"
            if self.dice.random() < 0.4:
                victims.update(dict.fromkeys(self._living(self.nurseries), "nursery"))
        if self.dice.random() < 0.25:
            victims.update(dict.fromkeys(self._children(supervisor)[:1], "body"))
        if len(victims) == 1 and self.dice.random() < 0.5:
            victims.update(dict.fromkeys(self._living(self.nurseries), "nursery"))
        order = list(victims)
        self.dice.shuffle(order)
        killed = 0
        for pid in order:
            with contextlib.suppress(ProcessLookupError):
                alive = not dead(pid)
                os.kill(pid, signal.SIGKILL)
                killed += alive
                self.counts[f"killed {victims[pid]}"] += alive
            time.sleep(self.dice.choice([0, 0, 0, 0.001, 0.005, 0.02]))
        self.counts["double kills"] += killed > 1
        self.counts["single kills"] += killed == 1

    def _learn(self, orchestrator: int) -> None:
        """Find nurseries and supervisors, by kinship alone."""
        for pid in self._children(orchestrator):
            seen = procs.look(pid)
            if seen and seen.session == pid:
                self.nurseries[pid] = seen.start_time
        for nursery in self._living(self.nurseries):
            for pid in self._children(nursery):
                seen = procs.look(pid)
                if seen and seen.session == pid:
                    self.supervisors[pid] = seen.start_time

    def _living(self, pids: dict[int, int]) -> list[int]:
        return [pid for pid, start_time in pids.items() if procs.is_alive(pid, start_time)]

    def _children(self, pid: int) -> list[int]:
        with contextlib.suppress(OSError):
            return [int(word) for word in _read(f"/proc/{pid}/task/{pid}/children").split()]
        return []

    def _may_be_lost(self) -> int:
        """A supervisor of ours, unless its phase was lost often enough; 0: none."""
        living = self._living(self.supervisors)
        for name, lines in self._attempts():
            line = attempts.find(lines, "supervisor")
            if line and line["pid"] in living and attempts.find(lines, "exit") is None:
                phase = name.rpartition("-")[0]
                if self.losses[phase] >= LOSSES:
                    return 0
                self.losses[phase] += 1
                return int(line["pid"])
        return living[-1] if living else 0

    # --- the end -----------------------------------------------------------------------------

    def _finish(self) -> None:
        """One plain resume is enough; a phase lost three times in a row fails, by rule, before."""
        code = self._reap(self._start())
        if code == 1 and self._lost_thrice():
            self.counts["failed by three losses"] += 1
            code = self._reap(self._start())
        if code != 0:
            self.wrong.append(f"the last resume ended with {code}: {self._out()}")

    def _lost_thrice(self) -> bool:
        """Whether the run failed by that rule, as its history has it."""
        (adw_id,) = runs.list_ids(str(self.agents))
        state, _ = load_state(str(self.agents / adw_id))
        last = state.phase_history[-3:]
        return [(e.phase, e.reason) for e in last] == [(last[-1].phase, "lost")] * 3

    def _reap(self, pid: int) -> int:
        until(lambda: dead(pid), 40, "end of the command")
        if self.real is not None and self.real.pid == pid:
            out, err = self.real.communicate()
            with (self.base / "out").open("ab") as file:
                file.write(out + err)
            return self.real.returncode
        return self.warm.wait(pid)

    def _check(self) -> None:
        """Each attempt has one outcome, the effect happened once, nobody met or is left untold."""
        (adw_id,) = runs.list_ids(str(self.agents))
        state, _ = load_state(str(self.agents / adw_id))
        tried = [(e.phase, e.attempt) for e in state.phase_history if e.attempt]
        numbers: dict[str, list[int]] = {}
        for phase, attempt in tried:
            numbers.setdefault(phase, []).append(attempt)
        for phase, found in numbers.items():
            if found != list(range(1, len(found) + 1)):
                self.wrong.append(f"outcomes of {phase}: {found}")
        won = [e.phase for e in state.phase_history if e.success]
        if won != list(NAPS):
            self.wrong.append(f"succeeded: {won}")
        self._check_files(adw_id, {f"{phase}-{attempt}" for phase, attempt in tried})
        self.counts.update(f"ended {e.reason}" for e in state.phase_history)

    def _check_files(self, adw_id: str, tried: set[str]) -> None:
        for name, lines in self._attempts():
            # The same one may stand there twice: who adopts it writes it anew before it is believed.
            count = len({json.dumps(line) for line in lines if line["line"] == "exit"})
            if count > 1 or name not in tried:
                self.wrong.append(f"{name}: {count} exit lines, recorded: {name in tried}")
        data = files.read(str(self.agents / adw_id / "state" / "task_history.jsonl"))
        ends = [e for e in map(json.loads, files.lines(data)) if e["event"] == "child_completed"]
        if Counter(end["child_id"] for end in ends) != Counter(tried):
            told = [end["child_id"] for end in ends]
            self.wrong.append(f"told {told}, recorded {sorted(tried)}")
        self._check_witness({e["child_id"] for e in ends if "unproved" in (e["detail"] or "")})
        started = Counter(_words(self.base / "bodies"))
        if max(started.values(), default=0) > 1 or not set(started) <= tried:
            self.wrong.append(f"bodies {started}, recorded {sorted(tried)}")
        if _words(self.base / "outside") != ["said"]:
            self.wrong.append(f"the effect: {_words(self.base / 'outside')}")

    def _check_witness(self, told: set[str]) -> None:
        """In mode `cgroup` nobody is met and nobody is left; in mode `tag` both are told."""
        met = _words(self.base / "overlaps")
        for who, holder in zip(met[::2], met[1::2], strict=True):
            self._excuse(f"{who} met what {holder} left", holder in told)
        daemons = _words(self.base / "daemons")
        for child, pid in zip(daemons[::2], daemons[1::2], strict=True):
            if not dead(int(pid)):
                self._excuse(f"{child} left {pid}", child in told)
        if not met and not self._left() and not self._free():
            self.wrong.append("somebody unknown holds the witness")
        self.counts["attempts told as unproved"] += len(told)

    def _excuse(self, text: str, told: bool) -> None:
        kind = "met" if " met " in text else "left"
        if told and self.campaign.mode == "tag":
            self.counts[f"{kind}, told"] += 1
        else:
            self.wrong.append(text)
            self.counts[f"{kind}, NOT told"] += 1

    def _free(self) -> bool:
        with (self.base / "witness").open("ab") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
        return True

    def _left(self) -> list[int]:
        return [pid for pid in map(int, _words(self.base / "daemons")[1::2]) if not dead(pid)]

    def _attempts(self) -> Iterator[tuple[str, list[dict[str, Any]]]]:
        for adw_id in runs.list_ids(str(self.agents)) if self.agents.exists() else []:
            folder = self.agents / adw_id / "attempts"
            for name in sorted(os.listdir(folder)) if folder.exists() else []:
                yield name, attempts.read_lines(str(folder / name))

    def _out(self) -> str:
        path = self.base / "out"
        return path.read_text("utf-8", "replace")[-2000:] if path.exists() else ""

    def _end(self) -> None:
        for pid in self._left():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _words(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


def _read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return file.read()
