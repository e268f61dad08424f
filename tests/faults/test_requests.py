"""What people ask of a run is done once, whoever dies between the asking and the telling."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from adw import failpoints
from adw.store import requests, runs
from adw.store.state import load_state
from tests.faults.conftest import MakeGround, swept
from tests.faults.test_failpoint_ends import OF_REQUESTS
from tests.support.ground import WAIT, Done, Ground, Process, dead, phase
from tests.support.wait import until

ONCE: Final = {
    "cancel": ("cancel",),
    "pause": ("pause",),
    "state_set": ("state", "set", "model_set=heavy"),
    "task_add": ("task", "add", "build", "--file", "issues/47.md"),
}
FIELDS: Final = {
    "state_set": {"model_set": "heavy"},
    "task_add": {"phase": "build", "text": "It is broken.\n"},
}
assert requests.KINDS - set(ONCE) == {
    "settle"
}  # needs an effect: tests/integration/test_effects.py
ADDED: Final = ("publish.before", "history.written", "request.applied", "request.moved")
FATAL: Final = ("state.before_rename", "state.after_rename", "request.applied", "request.moved")


def words(kind: str, adw_id: str) -> list[str]:
    """The command line that asks this of a run."""
    ask = list(ONCE[kind])
    at = min(2, len(ask))
    return [*ask[:at], adw_id, *ask[at:]]


def running(make_ground: MakeGround, **env: str) -> tuple[Ground, Process]:
    """A run whose first phase waits."""
    ground = make_ground({"build": phase(WAIT), "test": phase("true", needs=["build"])})
    process = ground.start("run", "w", "47", **env)
    ground.pid()
    ground.await_line("build-1", "body")
    return ground, process


def waiting(make_ground: MakeGround) -> tuple[Ground, Process]:
    """A run that waits for an hour before it tries its phase again."""
    retry = {"attempts": 3, "delay": "1h", "max_delay": "1h", "on": ["exit"]}
    ground = make_ground({"build": phase("false", retry=retry)})
    process = ground.start("run", "w", "47")
    until(lambda: ground.ids() and ground.events("child_completed"), what="the failure")
    until(lambda: ground.status(ground.adw_id)["status"] == "held", what="status held")
    return ground, process


def of_kind(ground: Ground, kind: str) -> list[str]:
    """Events of the history that say that such a request was applied."""
    return [e["request"] for e in ground.events("request_applied") if e["kind"] == kind]


def assert_applied_once(ground: Ground, kind: str) -> None:
    assert len(of_kind(ground, kind)) == 1
    assert requests.pending(str(ground.run_dir)) == []
    moved = [p.name for p in (ground.run_dir / "requests" / "applied").iterdir()]
    assert moved == of_kind(ground, kind)
    if kind == "state_set":
        assert state(ground, "model_set") == "heavy"
        assert [e["fields"] for e in ground.events("state_set")] == [{"model_set": "heavy"}]
    if kind == "task_add":
        assert [(e["stage"], e["request"]) for e in ground.events("task_added")] == [
            ("build", moved[0])
        ]
        tasks = sorted(ground.run_dir.glob("children/build-*/TASK.md"))
        assert tasks[-1].read_text().count("It is broken.\n") == 1


def state(ground: Ground, name: str) -> Any:
    return getattr(load_state(str(ground.run_dir))[0], name)


# --- while it runs ---------------------------------------------------------------------------


@pytest.mark.sweep
def test_case_E4_cancel_returns_when_the_tree_is_dead(make_ground: MakeGround) -> None:
    ground, process = running(make_ground)
    body = ground.pid()
    done = ground.ok(*words("cancel", ground.adw_id))
    assert dead(body)
    assert done.stdout.splitlines()[0] == f"run {ground.adw_id} is cancelled"
    assert Done.of(process).exit_code == 1
    assert ground.status(ground.adw_id)["status"] == "cancelled"
    assert ground.entries()[0] == ("build", 1, False, "cancelled")
    assert_applied_once(ground, "cancel")


@pytest.mark.sweep
def test_pause_lets_the_phase_end_and_starts_nothing(make_ground: MakeGround) -> None:
    ground, process = running(make_ground)
    asked = ground.ok(*words("pause", ground.adw_id))
    assert "starts nothing new" in asked.stdout
    assert process.poll() is None
    ground.go()
    assert Done.of(process).exit_code == 6
    assert ground.entries() == [("build", 1, True, None)]
    assert len(ground.events("run_paused")) == 1
    assert_applied_once(ground, "pause")
    ground.ok("resume", ground.adw_id)
    assert ground.entries() == [("build", 1, True, None), ("test", 1, True, None)]


@pytest.mark.sweep
def test_state_set_reaches_the_state_while_a_phase_runs(make_ground: MakeGround) -> None:
    ground, process = running(make_ground)
    ground.ok(*words("state_set", ground.adw_id))
    assert_applied_once(ground, "state_set")
    ground.go()
    assert Done.of(process).exit_code == 0
    assert_applied_once(ground, "state_set")


# --- while it waits, and while nobody is there -------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kind", "exit_code"),
    swept([("cancel", 1), ("pause", 6), ("state_set", None)], ("state_set", None)),
)
def test_a_waiting_run_takes_a_request_at_once(
    make_ground: MakeGround, kind: str, exit_code: int | None
) -> None:
    ground, process = waiting(make_ground)
    ground.ok(*words(kind, ground.adw_id))
    assert_applied_once(ground, kind)
    if exit_code is None:
        assert process.poll() is None
        ground.ok(*words("cancel", ground.adw_id))
        exit_code = 1
    assert Done.of(process).exit_code == exit_code
    reasons = [entry[3] for entry in ground.entries()]
    assert reasons == (["exit"] if kind == "pause" else ["exit", "cancelled"])


@pytest.mark.parametrize("kind", swept(["cancel", "state_set", "task_add"], "cancel"))
def test_without_an_orchestrator_whoever_asks_applies_it(
    make_ground: MakeGround, kind: str
) -> None:
    ground, process = running(make_ground)
    body = ground.pid()
    process.kill()
    process.wait()
    ground.ok(*words(kind, ground.adw_id))
    assert_applied_once(ground, kind)
    assert dead(body) == (kind == "cancel")
    assert ground.status(ground.adw_id)["status"] == (
        "cancelled" if kind == "cancel" else "interrupted"
    )
    ground.go()
    ground.ok("resume", ground.adw_id)
    assert len(ground.ran("build")) == (2 if kind == "cancel" else 1)
    assert_applied_once(ground, kind)


def test_without_an_orchestrator_there_is_nothing_to_pause(make_ground: MakeGround) -> None:
    ground, process = running(make_ground)
    process.kill()
    process.wait()
    before = (ground.run_dir / "adw_state.json").read_bytes()
    done = ground.ok(*words("pause", ground.adw_id))
    assert "nothing to pause" in done.stdout
    assert (ground.run_dir / "adw_state.json").read_bytes() == before
    assert not ground.events("run_paused")


# --- kills between the asking and the move ------------------------------------------------------


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kind", "point"),
    swept(
        itertools.product(sorted(ONCE), sorted(OF_REQUESTS)),
        ("cancel", "request.applied"),
        ("state_set", "request.moved"),
        ("task_add", "request.applied"),
    ),
)
def test_an_orchestrator_killed_around_the_move_applies_it_once(
    make_ground: MakeGround, kind: str, point: str
) -> None:
    assert point in failpoints.NAMES
    ground, process = running(make_ground, ADW_FAILPOINT=point)
    asked = ground.ok(*words(kind, ground.adw_id))
    assert asked.exit_code == 0, asked.told()
    assert Done.of(process).exit_code == -9
    ground.go()
    done = ground.ok("resume", ground.adw_id)
    assert ground.status(ground.adw_id)["status"] == "succeeded", done.told()
    assert_applied_once(ground, kind)
    assert len(ground.events("run_paused")) == (kind == "pause")
    cancelled = [entry for entry in ground.entries() if entry[3] == "cancelled"]
    assert [e[0] for e in cancelled] == (["build"] if kind == "cancel" else [])


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kind", "point"),
    swept(
        [
            *itertools.product(["cancel", "state_set"], FATAL),
            # It changes no field, so the state is not replaced for it.
            *itertools.product(["task_add"], ADDED),
        ],
        ("cancel", "state.after_rename"),
    ),
)
def test_an_asker_killed_while_it_applies_leaves_a_request_that_is_applied_once(
    make_ground: MakeGround, kind: str, point: str
) -> None:
    ground, process = running(make_ground)
    process.kill()
    process.wait()
    asker = ground.adw(*words(kind, ground.adw_id), ADW_FAILPOINT=point)
    assert asker.exit_code == -9, asker.told()
    ground.go()
    ground.adw("resume", ground.adw_id)
    ground.ok("resume", ground.adw_id)
    assert_applied_once(ground, kind)
    assert ground.status(ground.adw_id)["status"] == "succeeded"
    assert_one_cancel(ground, kind)


@pytest.mark.parametrize("kind", swept(sorted(ONCE), "cancel"))
def test_an_asker_killed_after_the_asking_is_answered_all_the_same(
    make_ground: MakeGround, kind: str
) -> None:
    ground, process = running(make_ground)
    fields = FIELDS.get(kind, {})
    ask_and_die(ground.run_dir, kind, fields)
    until(lambda: of_kind(ground, kind), what="an answer")
    ground.go()
    assert Done.of(process).exit_code == {"cancel": 1, "pause": 6}.get(kind, 0)
    assert_applied_once(ground, kind)


@pytest.mark.parametrize("kind", swept(sorted(ONCE), "pause"))
def test_a_request_whose_asker_and_holder_both_died_is_handled_first_by_resume(
    make_ground: MakeGround, kind: str
) -> None:
    ground, process = running(make_ground)
    process.kill()
    process.wait()
    fields = FIELDS.get(kind, {})
    ask_and_die(ground.run_dir, kind, fields)
    ground.go()
    done = ground.adw("resume", ground.adw_id)
    # A pause came true with the death of whom it was asked; a cancel is carried out.
    assert done.exit_code == (1 if kind == "cancel" else 0), done.told()
    assert_applied_once(ground, kind)
    assert_one_cancel(ground, kind)


def assert_one_cancel(ground: Ground, kind: str) -> None:
    cancelled = [entry[0] for entry in ground.entries() if entry[3] == "cancelled"]
    assert len(set(cancelled)) == len(cancelled)
    assert bool(cancelled) == (kind == "cancel")


def ask_and_die(run_dir: Path, kind: str, fields: dict[str, str], count: int = 1) -> None:
    """Ask from a process that waits for nothing."""
    asker = asking(run_dir, kind, [fields] * count)
    assert asker.wait() == 0


def asking(run_dir: Path, kind: str, each: list[dict[str, str]]) -> "subprocess.Popen[bytes]":
    """Start a process that asks this, once for each of the fields."""
    script = (
        "import json, sys\nfrom adw.store import requests\n"
        "run_dir, kind, each = json.loads(sys.argv[1])\n"
        "for fields in each: requests.ask(run_dir, kind, 0, fields)\n"
    )
    words = json.dumps([str(run_dir), kind, each])
    return subprocess.Popen([sys.executable, "-c", script, words])


def test_case_A4_of_two_processes_with_100_requests_each_none_is_lost(
    make_ground: MakeGround,
) -> None:
    ground, process = running(make_ground)
    askers = [
        asking(
            ground.run_dir, "state_set", [{"plan_file": f"specs/{who}{n}.md"} for n in range(100)]
        )
        for who in "ab"
    ]
    assert [asker.wait() for asker in askers] == [0, 0]
    until(lambda: not requests.pending(str(ground.run_dir)), what="all requests moved")
    last = ground.base / "repo" / state(ground, "worktree_path") / state(ground, "plan_file")
    last.parent.mkdir()
    last.write_text("the plan that the next packet names\n")
    ground.go()
    assert Done.of(process).exit_code == 0

    told = of_kind(ground, "state_set")
    assert told == sorted(told)
    assert len(set(told)) == len(told) == 200
    plans = [e["fields"]["plan_file"] for e in ground.events("state_set")]
    for who in "ab":
        own = [plan for plan in plans if plan.startswith(f"specs/{who}")]
        assert own == [f"specs/{who}{n}.md" for n in range(100)]
    assert state(ground, "plan_file") == plans[-1]
    assert not runs.held(str(ground.run_dir))


@pytest.mark.parametrize("kind", swept(sorted(ONCE), "cancel"))
def test_a_phase_cannot_ask_anything_of_its_own_run(make_ground: MakeGround, kind: str) -> None:
    asked = " ".join([sys.executable, "-m", "adw", *words(kind, '"$ADW_ID"')])
    text = f'code=0; {asked} 2> "$GROUND/said" || code=$?; echo $code > "$GROUND/code"'
    ground = make_ground({"build": phase(text)})
    ground.ok("run", "w", "47")
    assert (ground.base / "code").read_text().strip() == "2"
    said = (ground.base / "said").read_text()
    command = kind.replace("_", " ")
    assert said.startswith("error: ")
    assert command in said
    assert requests.names(str(ground.run_dir)) == []
    assert ground.events("request_applied") == []
