"""A whole run, in this process: each of its calls is the last one, fails, or is done by half.

Three phases with an artifact, an effect and a repair, by the real session, store and effects; only
processes and git are fakes. Thousands of points in a minute, since nothing is really synced.
"""

import errno
import json
import os
import random
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from adw.app import publish
from adw.core.graph import Output, Repair, Retry
from adw.core.interfaces import LaunchSpec
from adw.errors import AdwError, EnvironmentFault
from adw.store import attempts, effects
from adw.store.state import load_state
from tests.faults.conftest import swept
from tests.faults.failing_calls import Killed, failing
from tests.faults.kill_points import SEED, WHOLE
from tests.faults.promotions import assert_settled, assert_sound
from tests.support.counting import tally
from tests.support.fakes import AT, FakeSupervision, exits
from tests.unit.app.test_session import World, phase

ERRORS: Final = {
    "EIO": errno.EIO,
    "ENOSPC": errno.ENOSPC,
    "EDQUOT": errno.EDQUOT,
    "EMFILE": errno.EMFILE,
    "EROFS": errno.EROFS,
}
FAULTS: Final = [
    ("killed", "ENOSPC"),
    ("torn", "ENOSPC"),
    ("memory", "ENOSPC"),
    ("close", "EIO"),
    ("short", "EIO"),
    *((kind, name) for kind in ("once", "ever") for name in ERRORS),
]
"""How the call fails, and with which error."""
PAIRS: Final = 20_000 if WHOLE else 800
ROWS: Final = ("F1", "F14", "F16", "F17", "F18", "F20", "F21", "F23", "F25", "F26", "F50")
PHASES: Final = (
    phase("plan", outputs=(Output("plan", "specs/x.md", "It"),), retry=Retry(attempts=2)),
    phase("build", ("plan",), inputs=("plan",), retry=Retry(attempts=9)),
    phase("test", ("build",), writes=False, repair=Repair("fix", 3)),
    phase("fix"),
)
ENTRIES: Final = ["plan ok", "build ok", "test exit", "fix ok", "test ok"]
_NEVER: Final = 1 << 30
_TIMES: Final = {"started_at": AT, "ended_at": AT}


class Outage(Exception):
    """What lies outside does not answer; the effect took hold."""


class Bodies(FakeSupervision):
    """Supervisors and bodies: what they write outlives whoever is killed."""

    run: "Run"

    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        """Record itself."""
        self._line(spec.child_id, {"line": "supervisor", "pid": 1, "start_time": 1})
        super().hand_over(spec, lock_fd)

    def go(self, child_id: str) -> None:
        """Run the body to its end."""
        self._line(child_id, {"line": "body", "pid": 2, "start_time": 2})
        code = self.run.body(child_id)
        reason = "exit" if code else None
        self._line(child_id, {"line": "exit", "reason": reason, "exit_code": code, **_TIMES})
        name, attempt = attempts.split(child_id)
        self.script = {**self.script, (name, attempt): exits(code)}
        super().go(child_id)

    def end_of_file(self) -> None:
        """What is handed over and not started never starts."""
        for child in self._handed:
            self._line(child, {"line": "exit", "reason": "interrupted", **_TIMES})

    def _line(self, child: str, line: dict[str, Any]) -> None:
        path = Path(self.run.run_dir, "attempts", child, attempts.FILE)
        with path.open("ab") as file:
            file.write(attempts.encode(line) + b"\n")


class Run(World):
    """The run, its bodies, and what happened outside."""

    def __init__(self, base: Path) -> None:
        base.mkdir(parents=True)
        self.base = base
        self.outside: list[str] = []
        self.bodies: Counter[str] = Counter()
        with failing("once", _NEVER, str(base)):
            super().__init__(base, *PHASES)
        self._sit_down()

    def _sit_down(self) -> None:
        self.supervision = Bodies()
        self.supervision.run = self

    def body(self, child: str) -> int:
        """What a phase does; its exit code."""
        name, _ = attempts.split(child)
        self.bodies[name] += 1
        if name == "plan":
            (self.base / "specs").mkdir(exist_ok=True)
            (self.base / "specs" / "x.md").write_text("the plan")
        elif name == "build":
            return self._post(child)
        elif name == "fix":
            (self.base / "mended").touch()
        elif name == "test":
            return int(not (self.base / "mended").exists())
        return 0

    def _post(self, child: str) -> int:
        """Post a comment once; where the record cannot be written, the phase fails."""
        effect = effects.Effect(self.run_dir, "build", 1, child, "post")
        try:
            effects.perform(effect, self._act, self._look)
        except (AdwError, OSError):
            return 1
        return 0

    def _act(self) -> str:
        self.outside.append("posted")
        return "1"

    def _look(self) -> str | None:
        return "1" if self.outside else None

    def sitting(self, kind: str, at: int, code: int) -> tuple[bool, BaseException | None]:
        """Drive the run; whether the call came, and what the sitting ended with."""
        ended: BaseException | None = None
        with failing(kind, at, self.run_dir, code) as calls:
            try:
                self.drive()
            except (Killed, MemoryError, OSError, AdwError) as error:
                ended = error
        assert isinstance(self.supervision, Bodies)
        self.supervision.end_of_file()
        self._sit_down()
        return calls.fired, ended


def try_at(run: Run, kind: str, at: int, code: int) -> bool:
    """One faulty sitting, and one without; whether the fault came."""
    fired = harm(run, kind, at, code)
    goes_on(run)
    return fired


def harm(run: Run, kind: str, at: int, code: int) -> bool:
    """One faulty sitting; whether the fault came."""
    before = run.history()
    fired, ended = run.sitting(kind, at, code)
    if fired:
        assert_sound(Path(run.run_dir), torn=kind == "torn")
        assert run.history()[: len(before)] == before
        assert (kind == "killed") == isinstance(ended, Killed), ended
        if kind == "ever":
            # cli's error boundary makes one line and exit code 4 of either.
            named = isinstance(ended, OSError) and ended.filename
            assert named or isinstance(ended, EnvironmentFault), f"not told: {ended!r}"
        if kind == "short":
            assert ended is None, ended
            assert_untorn(run)
    return fired


def assert_untorn(run: Run) -> None:
    """Every line and document is whole: a short write was gone on with."""
    for path in Path(run.run_dir).rglob("*.json*"):
        for line in (
            path.read_bytes().splitlines() if path.suffix == ".jsonl" else [path.read_bytes()]
        ):
            json.loads(line)


def goes_on(run: Run) -> None:
    """One plain sitting ends the run; nothing was done twice that may not be."""
    fired, ended = run.sitting("once", _NEVER, errno.EIO)
    assert not fired
    assert ended is None, ended
    assert_settled(Path(run.run_dir))
    tried = [line for line in run.history() if "interrupted" not in line]
    assert [line for line in tried if line.endswith(" ok")] == [
        line for line in ENTRIES if line.endswith(" ok")
    ], tried
    assert run.outside == ["posted"]
    state, _ = load_state(run.run_dir)
    children = [(entry.phase, entry.attempt) for entry in state.phase_history if entry.attempt]
    assert len(children) == len(set(children)), children
    assert [name for name in os.listdir(run.agents) if name.startswith(".new-")] == []
    assert list(Path(run.run_dir).rglob("*.tmp")) == []


def calls_of(base: Path, kind: str = "once") -> list[str]:
    """All calls of an undisturbed run that a fault of this kind may harm."""
    run = Run(base)
    with failing(kind, _NEVER, run.run_dir) as calls:
        run.drive()
    assert run.history() == ENTRIES
    return calls.made


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Views are written at each boundary, not a while later: each run makes the same calls."""
    monkeypatch.setattr(publish, "HOLD_S", 0.0)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """In memory where there is such a place."""
    if not os.access("/dev/shm", os.W_OK):
        return tmp_path
    return Path("/dev/shm") / f"adw-test-calls-{os.getpid()}"


@pytest.mark.fault(*ROWS, by="in process: each call is the last, fails once or ever after, by half")
@pytest.mark.timeout(1100)
@pytest.mark.parametrize(
    ("kind", "name", "stride"),
    swept(
        [(*fault, stride) for fault in FAULTS for stride in (1, 40)],
        ("killed", "ENOSPC", 40),
        ("torn", "ENOSPC", 40),
        ("ever", "EIO", 40),
    ),
)
def test_P1_P3_P4_P8_P9_a_fault_at_each_call_of_a_run(
    kind: str, name: str, stride: int, place: Path
) -> None:
    wrong: list[str] = []
    try:
        made = calls_of(place / "undisturbed", kind)
        points = range(1, len(made) + 1, stride)
        fired = 0
        for at in points:
            run = Run(place / str(at))
            try:
                fired += try_at(run, kind, at, ERRORS[name])
            except AssertionError as error:
                fired += 1
                wrong.append(f"{kind} {name} at {at}, {made[at - 1]}: {error}")
            shutil.rmtree(place / str(at))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    assert len(made) > 40
    tally(len(points), fired, what=f"{kind}, {name}", wrong=wrong)


@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.fault(*ROWS, by="in process: a second fault while the first one is mended")
def test_P1_P3_P4_P8_P9_a_fault_in_the_sitting_that_mends_a_fault(place: Path) -> None:
    wrong: list[str] = []
    dice = random.Random(SEED)
    points = fired = 0
    try:
        most = len(calls_of(place / "undisturbed"))
        while points < PAIRS:
            run = Run(place / "run")
            faults = [(*dice.choice(FAULTS), dice.randint(1, most)) for _ in range(2)]
            try:
                came = [harm(run, kind, at, ERRORS[name]) for kind, name, at in faults]
                goes_on(run)
            except AssertionError as error:
                came = [True]
                wrong.append(f"seed {SEED}, {faults}: {error}")
            points, fired = points + len(came), fired + sum(came)
            shutil.rmtree(place / "run")
    finally:
        shutil.rmtree(place, ignore_errors=True)
    # A second sitting makes fewer calls than a whole run: those that never came are no points.
    tally(fired, fired, what=f"two faults, seed {SEED}", wrong=wrong)
    assert fired > PAIRS / 2
