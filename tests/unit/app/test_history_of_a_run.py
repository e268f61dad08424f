"""The history of a run: lines that were written stay, wrong ones are put right by later ones."""

import hashlib
import itertools
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from adw.app import reading
from adw.core.graph import Output
from adw.core.interfaces import Ended
from adw.model.event import KINDS
from adw.store import requests
from adw.store.history import read_history
from tests.support.fakes import FakeSupervision, exits
from tests.unit.app.test_session import World, phase

CANONICAL: Final = {
    "schema_version", "ts", "event", "stage", "child_id", "logical_name", "artifact_path",
    "producer",
}  # fmt: skip
"""Slots of a promotion that others rely on."""


@pytest.fixture
def world(tmp_path: Path) -> World:
    (tmp_path / "plan.md").write_text("the plan")
    made = World(
        tmp_path,
        phase("plan", outputs=(Output("plan", "plan.md"),)),
        phase("build", ("plan",)),
    )
    made.supervision.script = {("build", 1): exits(1)}
    return made


def history(world: World) -> bytes:
    return Path(world.run_dir, "state", "task_history.jsonl").read_bytes()


def test_a_line_that_was_written_stays_as_it_is_FS_11(world: World) -> None:
    seen = [b""]
    for _ in range(4):
        world.drive()
        seen.append(history(world))
        world.open().parts.lock.close()
        seen.append(history(world))

    for before, after in itertools.pairwise(seen):
        assert after.startswith(before)
    kinds = {event["event"] for event in read_history(world.run_dir)}
    assert kinds >= {"packet_written", "child_launched", "child_completed", "artifact_promoted"}


def test_what_the_state_never_had_is_put_right_by_events_that_name_it_FS_11(world: World) -> None:
    """A power cut may take the last state back behind what the history tells already."""
    world.drive()
    before = history(world)
    path = Path(world.run_dir, "adw_state.json")
    state = json.loads(path.read_bytes())
    lost = state["phase_history"].pop()
    path.write_text(json.dumps(state))
    world.supervision.script = {}

    world.drive()

    assert history(world).startswith(before)
    events = list(read_history(world.run_dir))
    wrong = {e["seq"]: e["event"] for e in events[: before.count(b"\n")] if e["entries"] > 1}
    corrected = {e["corrects"]: e for e in events if e["event"] == "correction"}
    assert "child_completed" in wrong.values()
    assert set(corrected) == set(wrong)
    assert all(seq < event["seq"] for seq, event in corrected.items())
    assert lost["phase"] == "build"
    ends = [
        (e["child_id"], e["success"], e["seq"] in corrected)
        for e in events
        if e["event"] == "child_completed"
    ]
    assert ends[0] == ("plan-1", True, False)
    assert ends[1] == ("build-1", False, True)


def test_the_slots_of_a_promotion_are_first_class_FS_13(world: World) -> None:
    world.drive()

    (event,) = [e for e in read_history(world.run_dir) if e["event"] == "artifact_promoted"]
    assert set(event) >= CANONICAL
    assert {name: event[name] for name in CANONICAL - {"ts", "artifact_path"}} == {
        "schema_version": 1,
        "event": "artifact_promoted",
        "stage": "plan",
        "child_id": "plan-1",
        "logical_name": "plan",
        "producer": "plan-1",
    }
    assert Path(world.run_dir, event["artifact_path"]).read_text() == "the plan"


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_has_a_bag_of_details_or_a_second_time_FS_12_FS_13(kind: str) -> None:
    assert not {"details", "timestamp", "time", "payload", "data"} & set(KINDS[kind])


def test_a_view_that_disagrees_with_the_state_counts_for_nothing_FS_17(world: World) -> None:
    world.drive()
    path = Path(world.run_dir, "state", "latest.json")
    view = json.loads(path.read_bytes())
    other = {"state_sha256": "0" * 64, "closing": "succeeded", "phases": [], "next_action": "none"}

    path.write_text(json.dumps({**view, **other}))

    assert standing(reading.status(world.run_dir)) == ("failed", ["done", "failed"])
    world.drive()
    again = json.loads(path.read_bytes())
    assert again["state_sha256"] == view["state_sha256"]
    assert (again["closing"], *standing(again)[1]) == ("failed", "done", "failed")


def standing(view: dict[str, Any]) -> tuple[str, list[str]]:
    """The run's status and those of its phases."""
    return view["status"], [each["status"] for each in view["phases"]]


def test_words_added_to_a_task_are_an_update_of_its_packet_FS_7(world: World) -> None:
    class Asks(FakeSupervision):
        def wait(self, timeout_s: float | None) -> Sequence[Ended]:
            if ("go", "build-1") in self.calls and self.held_back:
                self.held_back.clear()
                requests.ask(world.run_dir, "task_add", 1, {"phase": "build", "text": "More $1."})
                return ()
            return super().wait(timeout_s)

    world.supervision = Asks(held_back=["build-1"])
    assert world.drive().closing == "succeeded"

    task = Path(world.run_dir, "children", "build-1", "TASK.md").read_bytes()
    written = [
        (e["cause"], e["task_sha256"])
        for e in read_history(world.run_dir)
        if (e["event"], e["child_id"]) == ("packet_written", "build-1")
    ]
    first = task[: task.index(b"\n## Clarification 000001\n\nMore $1.\n")]
    assert written == [
        ("attempt", hashlib.sha256(first).hexdigest()),
        ("addendum", hashlib.sha256(task).hexdigest()),
    ]
