"""Runs that wait for their turn: `max_concurrent`."""

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adw.app import reading
from adw.model.views import Latest, RunView
from adw.store import runs
from adw.workspace import queue
from tests.support import wait
from tests.support.ground import COUNT, Done, Ground, Process, kill

PATIENCE_S = 30.0  # several processes start at once
# Each run waits for a file that is named for its issue.
BODY = (
    f'{COUNT}; echo "$ADW_ISSUE_NUMBER" >> "$GROUND/begun";'
    ' while [ ! -e "$GROUND/go-$ADW_ISSUE_NUMBER" ]; do sleep 0.02; done'
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Ground]]:
    monkeypatch.setenv("ADW_HOST_DIR", str(tmp_path / "host"))  # for what is read in this process
    made: list[Ground] = []

    def place(limit: int, name: str = "g") -> Ground:
        phases: dict[str, dict[str, Any]] = {
            "a": {"run": BODY},
            "b": {"run": COUNT, "needs": ["a"]},
        }
        ground = Ground(
            tmp_path / name,
            phases,
            {"ADW_HOST_DIR": str(tmp_path / "host")},
            {"max_concurrent": limit, "ports": "none"},
        )
        issue = "---\ntitle: Mend it\nlabels: []\n---\nIt is broken.\n"
        ground.repo.write({f"issues/{n}.md": issue for n in range(1, 8)})
        ground.repo.commit("issues")
        made.append(ground)
        return ground

    yield place
    for ground in made:
        ground.end()


def until(condition: Callable[[], object]) -> None:
    wait.until(condition, PATIENCE_S)


def begun(ground: Ground) -> list[int]:
    """Issues whose first phase has begun, in order."""
    path = ground.base / "begun"
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def statuses(ground: Ground) -> dict[int, str]:
    found = reading.listing(str(ground.agents))["runs"]
    return {run["issue_number"]: run["status"] for run in found}


def ids_of(ground: Ground, issue: int) -> list[str]:
    return [name for name, _ in runs.peek(str(ground.agents), issue)]


def id_of(ground: Ground, issue: int) -> str:
    (found,) = ids_of(ground, issue)
    return found


def line(ground: Ground) -> list[tuple[str, bool]]:
    """The rows of the table: id and whether it works."""
    path = Path(ground.env["ADW_HOST_DIR"]) / queue.TABLE
    rows = json.loads(path.read_bytes())["runs"] if path.exists() else []
    return [(row["adw_id"], row["admitted"]) for row in rows]


def begin(ground: Ground, issue: int) -> Process:
    """Start a run and wait until it works or waits."""
    process = ground.start("run", "w", str(issue))
    until(lambda: set(ids_of(ground, issue)) & {name for name, _ in line(ground)})
    return process


def let_go(ground: Ground, *issues: int) -> None:
    for issue in issues:
        (ground.base / f"go-{issue}").touch()


def events(ground: Ground, adw_id: str) -> list[dict[str, Any]]:
    text = (ground.agents / adw_id / "state" / "task_history.jsonl").read_text()
    return [json.loads(each) for each in text.splitlines()]


def test_case_K6_two_run_and_three_wait_in_order(place: Callable[..., Ground]) -> None:
    """max_concurrent 2, start 5: 2 run, 3 are queued in order; the slot of a dead run is freed."""
    ground = place(2)
    started = {issue: begin(ground, issue) for issue in range(1, 6)}
    until(lambda: sorted(begun(ground)) == [1, 2])
    queued = {3: "queued", 4: "queued", 5: "queued"}
    assert statuses(ground) == {1: "running", 2: "running", **queued}
    view = reading.status(str(ground.agents / id_of(ground, 4)))
    assert (view["status"], view["reason"]) == (
        "queued",
        "position 2 of 3 in the queue, 2 runs work (`max_concurrent: 2`)",
    )
    assert view["state"]["branch_name"] is not None
    assert not (ground.repo.path / "trees" / id_of(ground, 4)).exists(), "made when it is its turn"

    let_go(ground, 2)
    assert started[2].wait(PATIENCE_S) == 0
    until(lambda: begun(ground)[2:] == [3])
    assert statuses(ground) == {1: "running", 2: "succeeded", **queued, 3: "running"}

    kill(started[1].pid)  # its phase lives on and keeps the place
    assert runs.alive(str(ground.agents / id_of(ground, 1)))
    let_go(ground, 1)  # now nothing of it lives
    until(lambda: begun(ground)[3:] == [4])
    assert statuses(ground)[1] == "interrupted"

    let_go(ground, 3, 4, 5)
    done = {issue: Done.of(started[issue]) for issue in (3, 4, 5)}
    assert [each.exit_code for each in done.values()] == [0, 0, 0]
    assert begun(ground)[4:] == [5]
    assert line(ground) == []
    name, limit = id_of(ground, 5), "(`max_concurrent: 2`)"
    assert done[5].stderr.splitlines()[0] == (
        f"run {name} is queued: position 3 of 3 in the queue, 2 runs work {limit}"
    )


@pytest.mark.sweep
def test_several_issues_of_one_command_come_in_their_order(place: Callable[..., Ground]) -> None:
    ground = place(1)
    let_go(ground, 5, 2, 4, 1)

    done = ground.ok("run", "w", "5", "2", "4", "1")

    assert begun(ground) == [5, 2, 4, 1]
    assert done.stdout.count(" succeeded\n") == 4


@pytest.mark.sweep
def test_what_is_told_of_a_run_that_waited(place: Callable[..., Ground]) -> None:
    ground = place(1)
    first, second = begin(ground, 1), begin(ground, 2)
    adw_id = id_of(ground, 2)
    response = ground.agents / adw_id / "RESPONSE.md"
    until(lambda: response.read_text().startswith(f"# Run {adw_id}: queued\n"))
    latest = Latest.model_validate_json((response.parent / reading.LATEST).read_bytes())
    assert latest.left == "queued"
    assert RunView.model_validate(reading.status(str(response.parent))).status == "queued"

    let_go(ground, 1, 2)
    assert (first.wait(PATIENCE_S), second.wait(PATIENCE_S)) == (0, 0)

    told = [e for e in events(ground, adw_id) if e["event"] in {"run_queued", "run_admitted"}]
    assert [(e["event"], e.get("position"), e.get("limit")) for e in told] == [
        ("run_queued", 1, 1),
        ("run_admitted", None, None),
    ]
    assert 0 <= told[1]["waited_s"] < 60
    kinds = [e["event"] for e in events(ground, adw_id)]
    assert kinds.index("run_admitted") < kinds.index("workspace_ready")
    assert kinds.count("run_opened") == 1
    assert response.read_text().startswith(f"# Run {adw_id}: succeeded\n")


@pytest.mark.sweep
def test_a_signal_a_cancel_and_a_pause_end_the_wait(place: Callable[..., Ground]) -> None:
    """What was added to a task meanwhile is there when it goes on."""
    ground = place(1)
    started = {issue: begin(ground, issue) for issue in (1, 2, 3, 4)}
    names = {issue: id_of(ground, issue) for issue in started}
    (ground.base / "words.md").write_text("Mind the gap.")

    started[2].send_signal(signal.SIGINT)
    said = ground.ok("cancel", names[3])
    added = ground.ok("task", "add", names[4], "a", "--file", str(ground.base / "words.md"))
    ground.ok("pause", names[4])

    assert [started[issue].wait(PATIENCE_S) for issue in (2, 3, 4)] == [130, 1, 6]
    assert said.stdout == f"run {names[3]} is cancelled\n"
    assert "the next attempt of `a` has it in its task" in added.stdout
    views = [reading.status(str(ground.agents / names[issue])) for issue in (2, 3, 4)]
    assert [(view["status"], view["reason"]) for view in views] == [
        ("interrupted", "ended by Ctrl-C"),
        ("cancelled", None),
        ("interrupted", "paused by a person"),
    ]
    assert line(ground) == [(names[1], True)]
    assert os.listdir(ground.repo.path / "trees") == [names[1]]
    let_go(ground, 1, 4)
    assert started[1].wait(PATIENCE_S) == 0
    ground.ok("resume", names[4])
    assert begun(ground) == [1, 4]
    task = ground.agents / names[4] / "children" / "a-1" / "TASK.md"
    assert "Mind the gap." in task.read_text()


@pytest.mark.sweep
def test_without_waiting_the_run_exists_and_is_left_with_6(place: Callable[..., Ground]) -> None:
    ground = place(1)
    let_go(ground, 3)
    ground.ok("run", "w", "3")
    first = begin(ground, 1)

    said = ground.adw("run", "w", "2", "--no-wait")

    assert said.exit_code == 6, said.told()
    adw_id = id_of(ground, 2)
    assert said.stdout.splitlines()[-2:] == [
        f"run {adw_id} interrupted: as many runs work as may at once",
        f"  next: adw resume {adw_id}",
    ]
    assert line(ground) == [(id_of(ground, 1), True)]
    ground.ok("resume", id_of(ground, 3), "--no-wait")  # it is over, and waits for nobody
    let_go(ground, 1, 2)
    assert first.wait(PATIENCE_S) == 0
    ground.ok("resume", adw_id, "--no-wait")


@pytest.mark.sweep
def test_a_resume_has_its_place_while_its_phase_lives_and_else_goes_to_the_end(
    place: Callable[..., Ground],
) -> None:
    ground = place(1)
    first = begin(ground, 1)
    until(lambda: begun(ground) == [1])
    adw_id = id_of(ground, 1)
    second = begin(ground, 2)
    kill(first.pid)

    adopter = ground.start("resume", adw_id)
    until(lambda: [e for e in events(ground, adw_id) if e["event"] == "child_adopted"])
    assert statuses(ground) == {1: "running", 2: "queued"}

    kill(adopter.pid)
    let_go(ground, 1)  # its end is recorded by nobody yet
    until(lambda: begun(ground) == [1, 2])
    third = begin(ground, 3)
    resumed = ground.start("resume", adw_id)
    until(lambda: statuses(ground) == {1: "queued", 2: "running", 3: "queued"})
    assert [name for name, _ in line(ground)] == [id_of(ground, 2), id_of(ground, 3), adw_id]

    let_go(ground, 2, 3)
    assert [each.wait(PATIENCE_S) for each in (second, third, resumed)] == [0, 0, 0]
    assert ground.ran("a") == ["a-1", "a-1", "a-1"], "what was done is kept"
    assert begun(ground) == [1, 2, 3]


@pytest.mark.sweep
def test_while_a_run_waits_for_a_far_instant_others_have_its_place(
    place: Callable[..., Ground],
) -> None:
    ground = place(1)
    later = f'{COUNT}; echo \'{{"retry_after_s": 3600}}\' > "$ADW_RESULT"; exit 75'
    other = {"schema_version": 1, "name": "later", "phases": {"a": {"run": later}}}
    ground.repo.commit("later", {"workflows/later.yaml": json.dumps(other)})
    parked = ground.start("run", "later", "1")
    until(lambda: statuses(ground).get(1) == "held")
    until(lambda: line(ground) == [])

    let_go(ground, 2)
    ground.ok("run", "w", "2", "--no-wait")

    assert statuses(ground) == {1: "held", 2: "succeeded"}
    assert reading.status(str(ground.agents / id_of(ground, 1)))["until"] is not None
    ground.ok("pause", id_of(ground, 1))
    assert parked.wait(PATIENCE_S) == 6


@pytest.mark.sweep
def test_case_K4_leftovers_of_a_dead_run_do_not_defer_its_issue(
    place: Callable[..., Ground],
) -> None:
    """Its worktree, branch and row are there; the next trigger begins, or resumes, at once."""
    ground = place(1)
    first = begin(ground, 1)
    until(lambda: begun(ground) == [1])
    dead = id_of(ground, 1)
    kill(first.pid)
    let_go(ground, 1)
    until(lambda: not runs.alive(str(ground.agents / dead)))
    assert (ground.repo.path / "trees" / dead).is_dir()
    assert line(ground) == [(dead, True)]

    done = ground.ok("run", "w", "1", "--no-wait")

    assert f"run {dead} of issue 1 is interrupted; `adw resume {dead}` goes on with it" in (
        done.stderr
    )
    ground.ok("resume", dead, "--no-wait")
