"""The copy of a run's state under the git directory."""

import json
import os
from pathlib import Path

import pytest

from adw.app import copying_state
from adw.app.copying_state import Copies, Copying
from adw.errors import StateError
from adw.model.state import ADWStateData, HistoryEntry, encode_head, encode_state
from adw.store.state import StateFile

ID = "cc73faf1"


def version(count: int) -> bytes:
    entries = [
        HistoryEntry(phase="plan", attempt=n + 1, success=False, reason="exit")
        for n in range(count)
    ]
    return encode_state(encode_head(ADWStateData(adw_id=ID)), [each.encode() for each in entries])


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    made = tmp_path / "agents" / ID
    for name in ("attempts", "definitions", "requests/applied"):
        (made / name).mkdir(parents=True)
    return made


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    return tmp_path / "git" / "adw" / ID


def made(run_dir: Path, tmp_path: Path, data: bytes) -> Copies:
    (tmp_path / "git").mkdir(exist_ok=True)
    state = ADWStateData.model_validate_json(data)
    return Copies(str(tmp_path / "git"), str(run_dir), StateFile(str(run_dir), state, data))


def count(copy: Path) -> int:
    return len(copying_state.newest(str(copy))[0].phase_history)


def test_the_newest_version_is_found_whichever_slot_has_it(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    for number in (3, 1, 4, 2):  # also a shorter one: `--restore` may have put it back
        made(run_dir, tmp_path, version(number)).refresh()
        assert count(copy) == number
        assert copying_state.newest(str(copy))[1] == version(number)


def test_a_slot_that_a_kill_tore_at_any_byte_leaves_the_version_before(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    for number in (5, 4):
        made(run_dir, tmp_path, version(number)).refresh()
    before = (copy / "state.1").read_bytes()
    made(run_dir, tmp_path, version(2)).refresh()
    after = (copy / "state.1").read_bytes()
    assert before != after

    for size in range(len(after)):
        for old in (before, b""):  # written in place, then cut to its size
            (copy / "state.1").write_bytes(after[:size] + old[size:])
            assert count(copy) in {4, 2}
    (copy / "state.1").write_bytes(after + before[len(after) :])
    assert count(copy) == 4


def test_without_a_whole_version_it_is_an_error(run_dir: Path, tmp_path: Path, copy: Path) -> None:
    made(run_dir, tmp_path, version(1)).refresh()
    (copy / "state.1").write_bytes(b"1 2\n{}")

    with pytest.raises(StateError, match="it is missing, or was torn"):
        copying_state.newest(str(copy))


def test_what_a_phase_made_of_the_file_is_not_copied(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    (run_dir / "adw_state.json").write_text("{}")
    made(run_dir, tmp_path, version(1)).refresh()

    assert count(copy) == 1


def test_nothing_is_written_again_that_is_there(run_dir: Path, tmp_path: Path, copy: Path) -> None:
    (run_dir / "requests/applied/1-x.json").write_text("{}")
    copies = made(run_dir, tmp_path, version(1))
    copies.refresh()
    before = {path: path.stat().st_mtime_ns for path in copy.rglob("*")}
    copies.refresh()

    assert {path: path.stat().st_mtime_ns for path in copy.rglob("*")} == before


def test_receipts_requests_and_what_attempts_recorded_are_copied(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    (run_dir / "effects").mkdir()
    (run_dir / "effects/aa.json").write_text('{"state": "intent"}')
    (run_dir / "effects/.aa.json.1.tmp").write_text("torn")
    (run_dir / "requests/applied/1-task_add.json").write_text("{}")
    (run_dir / "definitions/dd.json").write_text("{}")
    (run_dir / "definitions/dd.graph.json").write_text("{}")
    copies = made(run_dir, tmp_path, version(1))
    copies.refresh()
    (run_dir / "effects/aa.json").write_text('{"state": "done"}')
    (run_dir / "attempts/plan-1").mkdir()
    (run_dir / "attempts/plan-1/attempt.jsonl").write_bytes(b'{"line": "launch"}\n\xff')
    copies.refresh(["plan-1"])

    assert (copy / "effects/aa.json").read_text() == '{"state": "done"}'
    assert os.listdir(copy / "effects") == ["aa.json"]
    assert os.listdir(copy / "requests/applied") == ["1-task_add.json"]
    assert os.listdir(copy / "definitions") == ["dd.json"]
    assert copying_state.recorded(str(copy)) == {"plan-1": b'{"line": "launch"}\n\xff'}


def test_attempts_that_a_crash_left_out_are_copied_by_the_next_sitting(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    for child in ("plan-1", "plan-2"):
        (run_dir / "attempts" / child).mkdir()
        (run_dir / "attempts" / child / "attempt.jsonl").write_text(f"{child}\n")
    copy.mkdir(parents=True)
    (copy / "attempts.jsonl").write_text(
        json.dumps({"child_id": "plan-1", "text": "old"}) + '\n{"torn'
    )
    made(run_dir, tmp_path, version(1)).refresh()

    assert copying_state.recorded(str(copy)) == {"plan-1": b"old", "plan-2": b"plan-2\n"}


def test_the_copy_of_an_earlier_run_of_that_id_is_forgotten(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    for name in ("effects", "definitions"):
        (copy / name).mkdir(parents=True)
        (copy / name / "old.json").write_text("{}")
    (copy / "attempts.jsonl").write_text('{"child_id": "plan-1", "text": "old"}\n')
    (copy / "creating").write_text("a note of the worktree")
    for where, text in ((copy, "old"), (run_dir, "new")):
        (where / "run.json").write_text(text)
        (where / "TASK.md").write_text(text)
    made(run_dir, tmp_path, version(1)).refresh()

    found = {path.relative_to(copy).as_posix() for path in copy.rglob("*") if path.is_file()}
    assert found == {"TASK.md", "creating", "run.json", "run_dir", "state.1"}
    assert (copy / "TASK.md").read_text() == "new"
    assert copying_state.recorded(str(copy)) == {}


def test_a_git_directory_that_cannot_be_written_stops_nothing(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "adw").write_text("a file in the way")
    copies = made(run_dir, tmp_path, version(1))

    copies.refresh(["plan-1"])

    assert copies.fault == f"`{copy.parent}`: File exists"


def test_what_could_not_be_copied_is_copied_the_next_time(
    run_dir: Path, tmp_path: Path, copy: Path
) -> None:
    (run_dir / "attempts" / "plan-1").mkdir()
    (run_dir / "attempts" / "plan-1" / "attempt.jsonl").write_text("{}\n")
    (tmp_path / "git").mkdir()
    (tmp_path / "git" / "adw").write_text("a file in the way")
    copies = made(run_dir, tmp_path, version(1))
    copies.refresh(["plan-1"])
    (tmp_path / "git" / "adw").unlink()

    copies.refresh()

    assert copies.fault is None
    assert count(copy) == 1
    assert copying_state.recorded(str(copy)) == {"plan-1": b"{}\n"}


def test_whoever_watches_sees_what_it_would_have_seen(run_dir: Path, tmp_path: Path) -> None:
    seen: list[object] = []

    class Watcher:
        def changed(self, board: object, news: object) -> None:
            seen.append(news)

        def interval_s(self) -> float | None:
            return 0.5

        def tick(self, board: object) -> None:
            seen.append("tick")

    copying = Copying(made(run_dir, tmp_path, version(1)), Watcher())
    board: object = object()
    copying.changed(board, [{"event": "phase_marked", "child_id": None}])  # type: ignore[arg-type]
    copying.tick(board)  # type: ignore[arg-type]

    assert seen == [[{"event": "phase_marked", "child_id": None}], "tick"]
    assert copying.interval_s() == 0.5
