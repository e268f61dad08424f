"""Every call by which a session writes fails once, for ever, by half, or is the last one it makes.

In this process, on fakes of the supervision, with real files: hundreds of points in seconds.
"""

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from adw.app import derived
from adw.core.graph import Output, Retry
from adw.core.interfaces import LaunchSpec
from adw.errors import EnvironmentFault
from adw.model.state import encode_head, encode_state
from adw.store import attempts
from adw.store.state import load_state
from tests.faults.conftest import swept
from tests.faults.failing_calls import KINDS, Killed, failing
from tests.faults.promotions import assert_settled, assert_sound, assert_whole, copies, manifest_of
from tests.support.counting import tally
from tests.support.fakes import AT, FakeSupervision
from tests.unit.app.test_session import World, phase

SEED: Final = 20261130
_NEVER: Final = 1 << 30
PLAN: Final = (
    Output("plan", "specs/x*.md", "It", state="plan_file"),
    Output("report", "report.json", root="artifacts", format="json"),
    Output("extra", "extra.txt", optional=True),
)
PHASES: Final = (
    phase("plan", outputs=PLAN, retry=Retry(attempts=1)),
    phase("build", ("plan",), inputs=("plan", "report"), outputs=(Output("made", "made.txt"),)),
)


class Bodies(FakeSupervision):
    """Writes what supervisors and bodies write; outlives whoever is killed."""

    world: "Promoting"

    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        """Record itself."""
        self._line(spec.child_id, {"line": "supervisor", "pid": 1, "start_time": 1})
        super().hand_over(spec, lock_fd)

    def go(self, child_id: str) -> None:
        """Run the body to its end."""
        self._line(child_id, {"line": "body", "pid": 2, "start_time": 2})
        self.world.body(child_id)
        self._line(child_id, {"line": "exit", "reason": None, "exit_code": 0, **_TIMES})
        super().go(child_id)

    def end_of_file(self) -> None:
        """What is handed over and not started never starts."""
        for child in self._handed:
            self._line(child, {"line": "exit", "reason": "interrupted", **_TIMES})

    def _line(self, child: str, line: dict[str, Any]) -> None:
        path = Path(self.world.run_dir, "attempts", child, attempts.FILE)
        with path.open("ab") as file:
            file.write(attempts.encode(line) + b"\n")


_TIMES: Final = {"started_at": AT, "ended_at": AT}


class Promoting(World):
    """A run of `PHASES` whose first `plan` leaves its outputs out."""

    def __init__(self, base: Path) -> None:
        base.mkdir(parents=True)
        with failing("once", _NEVER, str(base)):
            super().__init__(base, *PHASES)
        self.base = base
        self.bodies: Counter[str] = Counter()
        self.sit_down()

    def sit_down(self) -> None:
        """A new process, with supervision of its own."""
        self.supervision = Bodies()
        self.supervision.world = self

    def body(self, child: str) -> None:
        """What a phase does."""
        name, _ = attempts.split(child)
        self.bodies[name] += 1
        if name == "build":
            (self.base / "made.txt").write_text("made")
        elif self.bodies[name] > 1:
            (self.base / "specs").mkdir(exist_ok=True)
            (self.base / "specs" / "x.md").write_text("plan")
            Path(self.run_dir, "children", child, "artifacts", "report.json").write_text("[1]")

    def sitting(self, kind: str, at: int) -> tuple[bool, BaseException | None]:
        """Drive the run; whether the call came, and how the sitting ended."""
        ended: BaseException | None = None
        with failing(kind, at, self.run_dir) as calls:
            try:
                self.drive()
            except (Killed, OSError, EnvironmentFault) as error:
                ended = error
        assert isinstance(self.supervision, Bodies)
        self.supervision.end_of_file()
        self.sit_down()
        return calls.fired, ended

    def end(self) -> dict[str, Any]:
        """What must not depend on faults."""
        manifest = manifest_of(Path(self.run_dir))
        return {
            "bodies": dict(self.bodies),
            "names": {name: e["producer"].partition("-")[0] for name, e in manifest.items()},
            "order": list(manifest),
            "entries": [line for line in self.history() if "interrupted" not in line],
            "plan_file": load_state(self.run_dir)[0].plan_file,
        }


UNDISTURBED: Final = {
    "bodies": {"plan": 2, "build": 1},
    "names": {"plan": "plan", "report": "plan", "made": "build"},
    "order": ["plan", "report", "made"],
    "entries": ["plan missing_output", "plan ok", "build ok"],
    "plan_file": "specs/x.md",
}


def end_well(world: Promoting) -> None:
    """One sitting without faults ends the run as if there had been none."""
    fired, ended = world.sitting("once", _NEVER)
    assert not fired
    assert ended is None, ended
    assert_settled(Path(world.run_dir))
    assert world.end() == UNDISTURBED


def fault_at(world: Promoting, kind: str, at: int) -> bool:
    """One faulty sitting, and what lies then; whether the fault came."""
    history = world.history()
    fired, ended = world.sitting(kind, at)
    if fired:
        assert_sound(Path(world.run_dir), torn=kind == "torn")
        assert world.history()[: len(history)] == history
        assert (kind == "killed") == isinstance(ended, Killed)
        if kind == "ever":
            assert ended is not None
    return fired


@pytest.mark.fault(
    "F1",
    "F14",
    "F16",
    "F23",
    by="in process: each call killed, failing once, ever after, half done",
)
@pytest.mark.sweep
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kind", "stride"),
    swept(
        [(kind, stride) for kind in KINDS for stride in (1, 8)],
        *((kind, 8) for kind in KINDS),
    ),
)
def test_FS_16_each_call_of_a_sitting(kind: str, stride: int, tmp_path: Path) -> None:
    """Must show 3."""
    at, points = 1, 0
    wrong: list[str] = []
    while True:
        world = Promoting(tmp_path / str(at))
        try:
            if not fault_at(world, kind, at):
                break
            end_well(world)
        except AssertionError as error:
            wrong.append(f"{kind} at {at}: {error}")
        at, points = at + stride, points + 1
    tally(points, points, what=kind, wrong=wrong)
    assert at > 100


@pytest.mark.fault("F1", "F14", "F16", by="in process: several faults in one run")
@pytest.mark.timeout(300)
@pytest.mark.parametrize("rounds", swept([20, 1000], 20))
def test_FS_16_faults_again_and_again(rounds: int, tmp_path: Path) -> None:
    """Opening a run after one fault meets the next one, up to three times."""
    chance = random.Random(SEED)
    for number in range(rounds):
        world = Promoting(tmp_path / str(number))
        faults = [(chance.choice(KINDS), chance.randint(1, 90)) for _ in range(3)]
        try:
            for kind, at in faults:
                fault_at(world, kind, at)
            end_well(world)
        except AssertionError as error:
            message = f"round {number} of seed {SEED}, {faults}: {error}"
            raise AssertionError(message) from error


@pytest.mark.parametrize("stride", swept([1, 4], 4))
def test_FS_16_copies_of_an_attempt_that_is_judged_otherwise_in_the_end_are_removed(
    stride: int, tmp_path: Path
) -> None:
    """Between the kill and the next opening somebody breaks the worktree."""
    at = 1
    while True:
        world = Promoting(tmp_path / str(at))
        if not fault_at(world, "killed", at):
            break
        world.workspace.broken = True
        world.sitting("once", _NEVER)
        entries = load_state(world.run_dir)[0].phase_history
        done = {f"{entry.phase}-{entry.attempt}" for entry in entries if entry.success}
        run_dir = Path(world.run_dir)
        assert_sound(run_dir)
        assert {child for _, child, _ in copies(run_dir)} <= done
        kinds = [each.kind for each in derived.differences(world.run_dir)]
        assert "leftover" not in kinds, at
        at += stride


@pytest.mark.fault(
    "F1", "F14", "F16", by="in process: each call killed, failing once, ever after, half done"
)
@pytest.mark.timeout(300)
@pytest.mark.parametrize("stride", swept([1, 8], 8))
def test_FS_16_taken_back_and_killed_at_each_call(stride: int, tmp_path: Path) -> None:
    """A state from before the promotion is laid there again, as `adw doctor --restore` does."""
    at, fired = 1, True
    while fired:
        at += stride
        world = Promoting(tmp_path / str(at))
        end_well(world)
        state, _ = load_state(world.run_dir)
        before = state.model_copy(update={"plan_file": None})
        first = [entry.encode() for entry in state.phase_history[:1]]
        Path(world.run_dir, "adw_state.json").write_bytes(encode_state(encode_head(before), first))

        fired, _ = world.sitting("killed", at)

        for entry in manifest_of(Path(world.run_dir)).values():
            assert_whole(Path(world.run_dir, entry["path"]), entry)
        end_again(world)
    assert at > 50


def end_again(world: Promoting) -> None:
    fired, ended = world.sitting("once", _NEVER)
    assert not fired
    assert ended is None, ended
    assert_settled(Path(world.run_dir))
    assert json.loads(Path(world.run_dir, "state", "latest.json").read_text())["closing"]
    assert os.listdir(os.path.join(world.run_dir, "artifacts", "made"))
