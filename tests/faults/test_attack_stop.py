"""Ending a run: the grace is kept, whoever looks meanwhile, and each signal counts once."""

import os
import signal
import subprocess

import pytest

from adw.store import attempts
from tests.faults.conftest import MakeGround
from tests.support.ground import ADW, WAIT, phase
from tests.support.wait import until

# `|| true`, since the shell runs with -e: the sleep may die of the signal before the shell has it.
TIDY = (
    'trap \'sleep 1.5; touch "$GROUND/tidied"; exit 0\' TERM; echo $$ > "$GROUND/body"; '
    "while :; do sleep 0.05 || true; done"
)


@pytest.mark.sweep
def test_a_cancelled_phase_keeps_its_grace(make_ground: MakeGround) -> None:
    ground = make_ground({"build": phase(TIDY)})
    ground.start("run", "w", "47")
    ground.pid()
    ground.await_line("build-1", "body")

    ground.adw("cancel", ground.adw_id)

    assert (ground.base / "tidied").exists()


@pytest.mark.sweep
def test_parallel_phases_keep_their_grace_when_one_ends_first(make_ground: MakeGround) -> None:
    ground = make_ground({"a": phase(TIDY, writes=False), "b": phase("sleep 60", writes=False)})
    data = (
        (ground.base / "repo/workflows/w.yaml")
        .read_text()
        .replace('"name": "w"', '"name": "w", "max_parallel": 2')
    )
    (ground.base / "repo/workflows/w.yaml").write_text(data)
    process = ground.start("run", "w", "47")
    ground.pid()
    ground.await_line("a-1", "body")
    ground.await_line("b-1", "body")

    process.terminate()
    process.wait(20)

    assert (ground.base / "tidied").exists()


def test_a_paused_run_can_still_be_interrupted(make_ground: MakeGround) -> None:
    ground = make_ground({"build": phase(WAIT), "test": phase("true", needs=["build"])})
    process = ground.start("run", "w", "47")
    ground.pid()
    ground.await_line("build-1", "body")
    ground.ok("pause", ground.adw_id)

    process.terminate()

    assert process.wait(15) == 143
    assert ground.entries()[0][3] == "interrupted"


@pytest.mark.sweep
def test_an_interrupt_of_the_terminal_reaches_each_of_several_runs_once(
    make_ground: MakeGround,
) -> None:
    """The terminal signals the whole foreground group; a second signal would leave at once."""
    ground = make_ground({"build": phase(WAIT)})
    process = subprocess.Popen(
        [*ADW, "run", "w", "47", "48"],
        cwd=ground.repo.path,
        env={**os.environ, **ground.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    ground.started.append(process)
    until(lambda: len(ground.ids()) == 2)

    def started() -> bool:
        return all(
            attempts.find(attempts.read_lines(str(ground.agents / i / "attempts/build-1")), "body")
            for i in ground.ids()
        )

    until(started)

    os.killpg(process.pid, signal.SIGINT)

    process.communicate(timeout=20)
    assert process.returncode == 130
    listed = ground.status()["runs"]
    for each in listed:
        state = ground.status(each["adw_id"])
        assert state["living"] == []
        assert [e["reason"] for e in state["state"]["phase_history"]] == ["interrupted"]


@pytest.mark.sweep
def test_two_who_cancel_a_dead_run_at_once_both_succeed(make_ground: MakeGround) -> None:
    for _ in range(3):
        ground = make_ground({"build": phase(WAIT)})
        run = ground.start("run", "w", "47")
        ground.pid()
        ground.await_line("build-1", "body")
        run.kill()
        run.wait()
        askers = [ground.start("cancel", ground.adw_id) for _ in range(3)]
        codes = []
        for asker in askers:
            _, err = asker.communicate(timeout=40)
            codes.append((asker.returncode, err.decode()))
        assert [code for code, _ in codes] == [0, 0, 0], codes
