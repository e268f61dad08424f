"""Random kills of orchestrator, supervisor and nursery, in any order and at any time."""

import contextlib
import os
import random
import signal
from pathlib import Path

import pytest

from adw.store import files
from tests.integration.supervise.room import DAEMON, STUBBORN, Room, dead
from tests.support.wait import until

TEXT = f"echo $$ > body; {DAEMON}{STUBBORN}touch ready; sleep 0.2; exit 7"
TRIALS = 40


def _trial(path: Path, dice: random.Random, mode: str) -> str:
    """One run with one to three victims; returns what became of it."""
    path.mkdir()
    room = Room(path)
    other = room.orchestrate("build-1", TEXT, go=dice.random() < 0.9)
    victims = dice.sample(["orchestrator", "supervisor", "nursery"], dice.randint(1, 3))
    moment = dice.choice(["at once", "recorded", "body", "ready"])
    if moment == "recorded":
        room.await_line("build-1", "supervisor")
    elif moment in {"body", "ready"}:
        with contextlib.suppress(AssertionError):
            until((path / moment).exists, timeout_s=0.5)
    supervisor = room.line("build-1", "supervisor")
    for victim in victims:
        if victim == "orchestrator":
            other.kill()
        elif victim == "nursery":
            os.kill(other.nursery, signal.SIGKILL)
        elif supervisor:
            with contextlib.suppress(ProcessLookupError):
                os.kill(supervisor["pid"], signal.SIGKILL)
    if "orchestrator" not in victims:
        other.kill()

    supervisor = room.line("build-1", "supervisor")
    folder = str(path / "attempts/build-1")
    if supervisor and room.local.adopt("build-1", folder, supervisor):
        room.end("build-1")
    until(lambda: not files.locked(room.jsonl("build-1")), what="free lock")
    exit_ = room.line("build-1", "exit")
    proved = True
    if exit_ is None:
        end = room.local.end_tree("build-1", room.lines("build-1"))
        assert end.survivors == ()
        proved = end.proved
        assert proved or (mode == "tag" and {"supervisor", "nursery"} <= set(victims))
    _check(room, exit_, proved=proved)
    room.local.close()
    until(lambda: dead(other.nursery), what="the nursery's leave")
    return exit_["reason"] if exit_ else "lost"


def _check(room: Room, exit_: dict[str, object] | None, *, proved: bool) -> None:
    assert not (exit_ and exit_["reason"] == "interrupted" and (room.path / "body").exists())
    for name in ("body", "stubborn", "daemon"):
        text = (room.path / name).read_text().strip() if (room.path / name).exists() else ""
        if text and name == "daemon" and not proved:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(text), signal.SIGKILL)
        elif text:
            assert dead(int(text)), name


@pytest.mark.fault("F3", "F4", "F58", by="random kills of orchestrator, supervisor, nursery")
@pytest.mark.sweep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_killed_no_process_is_left_and_nothing_is_invented(
    tmp_path: Path, mode: str, seed: int
) -> None:
    dice = random.Random(f"{mode} {seed}")
    outcomes = [_trial(tmp_path / str(n), dice, mode) for n in range(TRIALS)]
    print(f"seed {seed}, {mode}: { {o: outcomes.count(o) for o in sorted(set(outcomes))} }")
    assert {"lost", "exit"} <= set(outcomes)
