"""The engine and the session together, on fakes: order of writes, recording, wishes, recovery."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from adw.app.define import Definition
from adw.app.opening import Opened, make_session
from adw.app.session import Session
from adw.app.wishes import Wishes
from adw.cli.progress import Silent
from adw.core.compile import compile_graph
from adw.core.graph import Phase, Repair, Retry
from adw.core.interfaces import ExitRecord, LaunchSpec, TreeEnd
from adw.engine import Outcome, drive
from adw.errors import StoreError, Survivor
from adw.model.state import ADWStateData, encode_head, encode_state
from adw.store import requests, runs
from adw.store.history import read_history
from adw.store.state import StateFile, load_state
from tests.support.fakes import FakeClock, FakeSupervision, FakeWorkspace, ends, exits

ADW_ID = "cc73faf1"
RUN = Phase("x", argv=("true",))


def phase(name: str, needs: tuple[str, ...] = (), **more: Any) -> Phase:
    return Phase(name, needs=needs, argv=("true",), **more)


class World:
    """A run directory, and sessions on it one after another."""

    def __init__(self, base: Path, *phases: Phase, max_parallel: int = 4) -> None:
        self.agents = str(base / "agents")
        os.makedirs(self.agents)
        graph = compile_graph("w", phases, max_parallel)
        self.definition = Definition("0" * 64, graph, graph, {"ports": "none"}, {}, "")
        state = ADWStateData(adw_id=ADW_ID, issue_number=47, branch_name="adw-47-x")
        info = {"issue": {"number": 47, "title": "T", "labels": [], "issue_class": None}}
        contents = {
            "adw_state.json": encode_state(encode_head(state), []),
            "run.json": json.dumps(info).encode(),
            "TASK.md": b"# Issue 47: T\n",
        }
        temp, lock = runs.build_run(self.agents, ADW_ID, contents)
        runs.publish_run(temp, lock)
        lock.close()
        self.run_dir = os.path.join(self.agents, ADW_ID)
        self.workspace = FakeWorkspace(str(base))
        self.supervision = FakeSupervision()
        self.wishes = Wishes(self.run_dir)

    def open(self) -> Session:
        lock = runs.open_run(self.run_dir)
        state, data = load_state(self.run_dir)
        self.wishes = Wishes(self.run_dir)
        opened = Opened(
            lock=lock,
            state=state,
            state_file=StateFile(self.run_dir, state, data),
            definition=self.definition,
            run_info=json.loads(Path(self.run_dir, "run.json").read_text()),
            worktree=self.workspace,
            supervision=self.supervision,
            reporter=Silent(),
            wishes=self.wishes,
            command="run",
        )
        return make_session(opened)

    def drive(self, *, wait: bool = True) -> Outcome:
        session = self.open()
        try:
            return drive(session, self.supervision, FakeClock(), wait=wait)
        finally:
            session.parts.lock.close()

    def history(self) -> list[str]:
        entries = load_state(self.run_dir)[0].phase_history
        return [f"{e.phase} {e.reason or ('ok' if e.success else 'exit')}" for e in entries]

    def events(self) -> list[str]:
        return [e["event"] for e in read_history(self.run_dir)]


def test_a_packet_is_handed_over_before_the_commit_and_starts_after_it(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",)))
    assert world.drive().closing == "succeeded"

    assert world.supervision.calls == [
        ("hand_over", "plan-1"),
        ("go", "plan-1"),
        ("hand_over", "build-1"),
        ("durable", "plan-1"),
        ("go", "build-1"),
        ("durable", "build-1"),
    ]
    assert world.history() == ["plan ok", "build ok"]


def test_ST_10_case_H1_B10_a_failed_phase_ends_the_run_as_failed(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("test", ("plan",)), phase("ship", ("test",)))
    world.supervision.script = {("test", 1): exits(1)}

    assert world.drive().closing == "failed"
    assert world.history() == ["plan ok", "test exit"]
    view = json.loads(Path(world.run_dir, "state", "latest.json").read_text())
    assert [p["status"] for p in view["phases"]] == ["done", "failed", "pending"]
    assert view["reason"] == "phase `test` failed: exit code 1 (attempt 1)"
    told = Path(world.run_dir, "RESPONSE.md").read_text()
    assert "exit code 1" in told
    assert "\n- isolation: none (phases run with your rights)\n" in told


def test_a_repair_runs_and_the_owner_is_tried_again(tmp_path: Path) -> None:
    world = World(
        tmp_path, phase("test", repair=Repair("fix", 2)), phase("fix"), phase("ship", ("test",))
    )
    world.supervision.script = {("test", 1): exits(1)}

    assert world.drive().closing == "succeeded"
    assert world.history() == ["test exit", "fix ok", "test ok", "ship ok"]


def test_a_retry_waits_for_its_delay_and_then_runs(tmp_path: Path) -> None:
    world = World(tmp_path, phase("test", retry=Retry(attempts=2, delay_s=30)))
    world.supervision.script = {("test", 1): exits(1)}

    assert world.drive(wait=False).wake_at is not None
    assert world.drive().closing == "succeeded"


def test_a_dead_supervisor_is_lost_and_tried_again(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"))
    script: dict[tuple[str, int], ExitRecord | None] = {("build", 1): None}
    world.supervision.script = script
    assert world.drive().closing == "succeeded"

    assert world.history() == ["build interrupted", "build ok"]  # it never recorded itself


def test_survivors_hold_the_run_and_are_named_case_E5(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"))
    world.supervision.script = {("build", 1): None}
    world.supervision.end = TreeEnd(proved=True, survivors=(4121,))

    with pytest.raises(Survivor, match="4121"):
        world.drive()
    assert world.history() == []


def test_case_C4_a_broken_worktree_starts_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build", retry=Retry(attempts=3)))
    world.workspace.broken = True

    assert world.drive().closing == "failed"
    assert world.history() == ["build workspace"]
    assert world.supervision.calls == []


def test_case_H2_exit_0_without_a_change_is_no_success(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build", ensure=(("changed",),)))
    assert world.drive().closing == "failed"

    assert world.history() == ["build no_change"]


def test_changed_looks_back_to_the_first_attempt_since_the_last_success(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build", ensure=(("changed",),), retry=Retry(attempts=2)))

    class Edits(FakeSupervision):
        def go(self, child_id: str) -> None:
            world.workspace.content = 1  # the first attempt edits, the second finds it done
            super().go(child_id)

    world.supervision = Edits(script={("build", 1): exits(1)})
    assert world.drive().closing == "succeeded"


@pytest.mark.parametrize("condition", ["clean", "committed"])
def test_post_conditions_on_the_tree(tmp_path: Path, condition: str) -> None:
    world = World(tmp_path, phase("build", ensure=((condition,),)))
    world.workspace.dirty = True

    assert world.drive().closing == "failed"
    assert world.history() == ["build contract"]


def _writes_result(world: World, text: str) -> type[FakeSupervision]:
    class Writes(FakeSupervision):
        def go(self, child_id: str) -> None:
            Path(world.run_dir, "children", child_id, "result.json").write_text(text)
            super().go(child_id)

    return Writes


def test_case_A5_a_result_and_its_entry_reach_the_state_in_one_rename(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",)))
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "p.md").write_text("the plan")
    text = '{"state": {"plan_file": "specs/p.md"}}'
    world.supervision = _writes_result(world, text)()
    seen: list[tuple[object, int]] = []
    save = StateFile.save

    def spy(self: StateFile, state: ADWStateData, before: Callable[[], None] | None = None) -> None:
        seen.append((state.plan_file, len(state.phase_history)))
        save(self, state, before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StateFile, "save", spy)
        world.drive()
    assert seen == [("specs/p.md", 1), ("specs/p.md", 2)]


def test_case_H5_prose_where_json_was_owed_fails_the_attempt(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"))
    world.supervision = _writes_result(world, "Done! All good.")()

    assert world.drive().closing == "failed"
    assert world.history() == ["plan result_invalid"]


def test_what_a_phase_sets_reaches_the_phase_that_starts_next(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",), when='plan_file != ""'))
    (tmp_path / "p.md").write_text("the plan")
    seen: dict[str, str] = {}

    class Watches(_writes_result(world, '{"state": {"plan_file": "p.md"}}')):  # type: ignore[misc]
        def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
            seen[spec.child_id] = spec.env["ADW_PLAN_FILE"]
            super().hand_over(spec, lock_fd)

    world.supervision = Watches()
    world.drive()
    task = Path(world.run_dir, "children", "build-1", "TASK.md").read_text()

    assert seen == {"plan-1": "", "build-1": "p.md"}
    assert f"- plan: {tmp_path}/p.md\n" in task


def test_writing_phases_run_alone_and_readers_together(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        phase("lint", writes=False),
        phase("unit", writes=False),
        phase("build"),
        phase("docs", writes=False),
    )
    world.drive()
    calls = [f"{verb} {child}" for verb, child in world.supervision.calls if verb == "go"]
    before_build = calls[: calls.index("go build-1")]

    assert before_build == ["go lint-1", "go unit-1"]
    assert calls[-1] == "go docs-1"


@pytest.mark.hostile("H40")
def test_a_tampered_state_is_put_back_and_the_attempt_is_final(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build", retry=Retry(attempts=3)))

    class Forges(FakeSupervision):
        def go(self, child_id: str) -> None:
            path = Path(world.run_dir, "adw_state.json")
            path.write_text(path.read_text().replace("47", "48"))
            super().go(child_id)

    world.supervision = Forges()
    assert world.drive().closing == "failed"
    state = load_state(world.run_dir)[0]

    assert (state.issue_number, world.history()) == (47, ["build tampered"])
    assert Path(world.run_dir, "adw_state.tampered.1.json").exists()


def test_bytes_that_somebody_wrote_between_two_attempts_are_kept_aside(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"))
    session = world.open()
    path = Path(world.run_dir, "adw_state.json")
    path.write_text(path.read_text().replace("47", "48"))
    session.record_mark("build")
    session.commit(lambda: None)
    session.publish(session.decide(0.0))
    session.parts.lock.close()

    assert load_state(world.run_dir)[0].issue_number == 47
    assert '"issue_number": 48' in Path(world.run_dir, "adw_state.tampered.1.json").read_text()
    assert "state_restored" in world.events()


# --- wishes ------------------------------------------------------------------------------


def test_a_cancel_stops_what_runs_and_is_recorded_once(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"), phase("ship", ("build",)))
    world.supervision.held_back = ["build-1"]
    requests.ask(world.run_dir, "cancel", 0, {})
    # Found at open, before anything starts: what could start is marked.
    assert world.drive().closing == "cancelled"

    assert world.history() == ["build cancelled"]
    assert requests.pending(world.run_dir) == []
    assert world.events().count("request_applied") == 1


def test_a_cancel_that_the_state_shows_already_is_moved_unapplied(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"))
    requests.ask(world.run_dir, "cancel", 0, {})
    source = Path(world.run_dir, "requests", "000001-cancel.json")
    copy = source.read_bytes()
    world.drive()
    source.write_bytes(copy)  # as if the crash had come between the rename and the move
    session = world.open()
    session.parts.lock.close()

    assert session.wish() is None


def test_state_set_is_applied_once_and_shows_in_the_history(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"))
    requests.ask(world.run_dir, "state_set", 0, {"plan_file": "specs/p.md"})
    world.drive()

    assert load_state(world.run_dir)[0].plan_file == "specs/p.md"
    assert world.events().count("state_set") == 1
    assert requests.pending(world.run_dir) == []


def test_a_signal_ends_phases_as_interrupted_case_E14(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"), phase("ship", ("build",)))
    world.supervision.held_back = ["build-1"]

    class Signalled(FakeSupervision):
        def go(self, child_id: str) -> None:
            super().go(child_id)
            world.wishes.wish = "signal"

    world.supervision = Signalled(held_back=["build-1"])
    outcome = world.drive()

    assert (outcome.wish, outcome.closing) == ("signal", None)
    assert world.history() == ["build interrupted"]


def test_a_pause_lets_what_runs_end_and_starts_nothing_new(tmp_path: Path) -> None:
    world = World(tmp_path, phase("build"), phase("ship", ("build",)))

    class Paused(FakeSupervision):
        def go(self, child_id: str) -> None:
            super().go(child_id)
            world.wishes.wish = "pause"

    world.supervision = Paused()
    outcome = world.drive()

    assert outcome.wish == "pause"
    assert world.history() == ["build ok"]


# --- what a crash leaves -----------------------------------------------------------------


def test_a_failed_sync_of_an_exit_line_stops_before_the_rename(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",)))

    class Fails(FakeSupervision):
        def await_durable(self, child_ids: object) -> None:
            if child_ids:
                raise StoreError(path="attempt.jsonl", reason="EIO", fix=None)

    world.supervision = Fails()
    with pytest.raises(StoreError):
        world.drive()
    assert world.history() == []
    assert ("go", "build-1") not in world.supervision.calls


def test_ST_12_derived_files_are_made_again_after_they_were_deleted(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",)))
    world.supervision.script = {("build", 1): ends("timeout")}
    world.drive()
    latest = Path(world.run_dir, "state", "latest.json")
    first = json.loads(latest.read_text())
    for name in ("state/latest.json", "RESPONSE.md", "state/task_history.jsonl"):
        Path(world.run_dir, name).unlink()
    world.drive()
    again = json.loads(latest.read_text())

    told = ["packet_written", "child_completed"]  # no body of these was ever seen
    assert world.events()[:5] == [*told, *told, "run_opened"]
    assert [p["status"] for p in again["phases"]] == [p["status"] for p in first["phases"]]
    assert Path(world.run_dir, "RESPONSE.md").exists()


def test_a_packet_without_launch_line_is_removed(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"))
    Path(world.run_dir, "children", "plan-1").mkdir()
    Path(world.run_dir, "attempts", "plan-1").mkdir()
    Path(world.run_dir, "attempts", "plan-1", "attempt.jsonl").write_bytes(b'{"line": "lau')

    assert world.drive().closing == "succeeded"
    assert world.history() == ["plan ok"]


def test_case_B14_an_exit_line_found_at_open_is_recorded_not_repeated(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"), phase("build", ("plan",)))
    folder = Path(world.run_dir, "attempts", "plan-1")
    Path(world.run_dir, "children", "plan-1").mkdir()
    folder.mkdir()
    lines: list[dict[str, Any]] = [
        {
            "line": "launch",
            "phase": "plan",
            "attempt": 1,
            "repairs": None,
            "at": "2026-01-01T00:00:00Z",
        },
        {"line": "supervisor", "pid": 1},
        {
            "line": "exit",
            "reason": None,
            "exit_code": 0,
            "started_at": None,
            "ended_at": "2026-01-01T00:00:01Z",
        },
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (folder / "attempt.jsonl").write_text(text)

    assert world.drive().closing == "succeeded"
    assert world.history() == ["plan ok", "build ok"]
    assert ("hand_over", "plan-1") not in world.supervision.calls


def test_case_B15_half_an_output_without_exit_line_is_not_done(tmp_path: Path) -> None:
    world = World(tmp_path, phase("plan"))
    folder = Path(world.run_dir, "attempts", "plan-1")
    Path(world.run_dir, "children", "plan-1").mkdir()
    folder.mkdir()
    launch = {
        "line": "launch",
        "phase": "plan",
        "attempt": 1,
        "repairs": None,
        "at": "2026-01-01T00:00:00Z",
    }
    lines = [launch, {"line": "supervisor", "pid": 1}]
    (folder / "attempt.jsonl").write_text("".join(json.dumps(x) + "\n" for x in lines))
    world.drive()

    assert world.history() == ["plan lost", "plan ok"]
    assert ("end_tree", "plan-1") in world.supervision.calls
