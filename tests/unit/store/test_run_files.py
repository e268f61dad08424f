"""History, requests, attempts, pins and run directories, without any process."""

import json
import os
from pathlib import Path

import pytest

from adw.errors import AmbiguousId, BrokenRun, BusyError, MalformedId, StoreError, UnknownName
from adw.store import attempts, definitions, files, requests, runs
from adw.store.history import History, read_history


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    agents = tmp_path / "agents"
    agents.mkdir()
    temp, lock = runs.build_run(str(agents), "cc73faf1", {"adw_state.json": b"{}"})
    runs.publish_run(temp, lock)
    lock.close()
    return str(agents / "cc73faf1")


# --- history -----------------------------------------------------------------------------


def _write(run_dir: str, count: int) -> None:
    history = History(run_dir)
    for number in range(count):
        history.add("run_paused", {}, entries=number)
    history.flush()


@pytest.mark.sweep
def test_a_history_cut_at_every_byte_goes_on_with_the_next_number_FS_20(run_dir: str) -> None:
    _write(run_dir, 3)
    path = Path(run_dir, "state", "task_history.jsonl")
    whole = path.read_bytes()
    for size in range(len(whole) + 1):
        path.write_bytes(whole[:size])
        _write(run_dir, 1)
        seqs = [event["seq"] for event in read_history(run_dir)]
        assert seqs == list(range(1, len(seqs) + 1)), size
    torn = [name for name in os.listdir(path.parent) if ".torn." in name]

    assert len(torn) == len(whole) + 1 - 4  # every cut but those at a line's end


def test_a_damaged_line_is_reported_and_stops_nothing(run_dir: str) -> None:
    _write(run_dir, 2)
    path = Path(run_dir, "state", "task_history.jsonl")
    path.write_bytes(b"\x00\x00\n" + path.read_bytes() + b'{"event": "made_up"}\n')
    found = [event["event"] for event in read_history(run_dir)]

    assert found == ["damaged", "run_paused", "run_paused", "damaged"]
    assert History(run_dir).seq == 2


# --- requests ----------------------------------------------------------------------------


def test_requests_are_numbered_above_all_that_were_ever_applied(run_dir: str) -> None:
    requests.ask(run_dir, "pause", 0, {})
    (first,) = requests.pending(run_dir)
    requests.applied(run_dir, first)
    requests.ask(run_dir, "cancel", 3, {})
    (second,) = requests.pending(run_dir)

    assert (first.name, second.name) == ("000001-pause.json", "000002-cancel.json")
    assert second.entries == 3


def test_a_damaged_request_is_left_for_the_doctor(run_dir: str) -> None:
    Path(run_dir, "requests", "000001-pause.json").write_bytes(b"{")
    Path(run_dir, "requests", "000002-dance.json").write_text(
        json.dumps({"kind": "dance", "entries": 0, "fields": {}})
    )

    assert requests.pending(run_dir) == []
    assert len(os.listdir(Path(run_dir, "requests"))) >= 2


def test_waking_nobody_is_no_error(run_dir: str) -> None:
    requests.wake(run_dir)
    os.mkfifo(Path(run_dir, "wake"))
    requests.wake(run_dir)


# --- attempts ----------------------------------------------------------------------------


def test_a_packet_is_locked_and_whole_before_anybody_is_told(run_dir: str) -> None:
    packet = attempts.write_packet(run_dir, "plan-1", b"# Plan\n", {"phase": "plan"})
    try:
        assert attempts.alive(packet.attempt_dir)
        assert Path(packet.child_dir, "TASK.md").read_text() == "# Plan\n"
        assert attempts.read_lines(packet.attempt_dir) == [{"line": "launch", "phase": "plan"}]
    finally:
        os.close(packet.lock_fd)
    assert not attempts.alive(packet.attempt_dir)
    with pytest.raises(FileExistsError):
        attempts.write_packet(run_dir, "plan-1", b"# again\n", {})


def test_a_bad_line_is_left_out_and_hides_no_exit_line_after_it(run_dir: str) -> None:
    packet = attempts.write_packet(run_dir, "plan-1", b"", {})
    os.write(packet.lock_fd, b'{"line": "body", "pid": 1}\n\x00\x00\x00\n{"line": "exit"}\n')
    os.close(packet.lock_fd)

    found = [x["line"] for x in attempts.read_lines(packet.attempt_dir)]
    assert found == ["launch", "body", "exit"]


def test_a_line_behind_the_zeros_of_a_lost_one_counts(run_dir: str) -> None:
    packet = attempts.write_packet(run_dir, "plan-1", b"", {})
    os.write(packet.lock_fd, bytes(40) + b'{"line": "exit"}\n')
    os.close(packet.lock_fd)

    assert [x["line"] for x in attempts.read_lines(packet.attempt_dir)] == ["launch", "exit"]


def test_what_is_written_anew_stays_in_the_locked_file_last_lines_last(run_dir: str) -> None:
    packet = attempts.write_packet(run_dir, "plan-1", b"", {"phase": "plan"})
    lines = b'{"line":"exit","n":1}\n{"line":"adopt"}\n{"line":"body"}\n{"line":"exit","n":2}\n'
    os.write(packet.lock_fd, lines + b'{"line":["exit"]}\n{"line":"verd')
    before = attempts.read_lines(packet.attempt_dir)

    attempts.write_anew(packet.attempt_dir)

    found = attempts.read_lines(packet.attempt_dir)
    assert found[: len(before)] == before
    anew = [(each["line"], each.get("n")) for each in found[len(before) :]]
    assert anew == [("launch", None), ("body", None), ("exit", 2)]
    assert attempts.alive(packet.attempt_dir)
    os.close(packet.lock_fd)
    assert not attempts.alive(packet.attempt_dir)


def test_what_cannot_be_written_anew_is_told(run_dir: str) -> None:
    with pytest.raises(StoreError, match=r"plan-1/attempt\.jsonl.*No such file"):
        attempts.write_anew(attempts.dir_of(run_dir, "plan-1"))


def test_attempt_lines_cut_at_every_byte_never_show_a_part(run_dir: str) -> None:
    packet = attempts.write_packet(run_dir, "plan-1", b"", {"phase": "plan"})
    os.write(packet.lock_fd, b'{"line": "exit", "reason": null}\n')
    os.close(packet.lock_fd)
    path = Path(packet.attempt_dir, "attempt.jsonl")
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        kinds = [line["line"] for line in attempts.read_lines(packet.attempt_dir)]
        assert kinds in ([], ["launch"]), size


# --- pins --------------------------------------------------------------------------------


def test_a_pin_is_stored_once_and_checked_when_read_SN_5_SN_6(run_dir: str) -> None:
    pin = definitions.make_definition("w.yaml", b"name: w\n", {}, {"only": None})
    definitions.save_definition(run_dir, pin)
    path = Path(run_dir, "definitions", f"{pin.id}.json")
    before = path.stat().st_ino
    definitions.save_definition(run_dir, pin)

    assert path.stat().st_ino == before
    assert definitions.workflow_source(definitions.load_definition(run_dir, pin.id)) == (
        "w.yaml",
        b"name: w\n",
    )
    other = Path(run_dir, "definitions", f"{'0' * 64}.json")
    other.write_bytes(path.read_bytes())
    with pytest.raises(BrokenRun):
        definitions.load_definition(run_dir, "0" * 64)
    with pytest.raises(BrokenRun):
        definitions.load_definition(run_dir, "1" * 64)


# --- runs --------------------------------------------------------------------------------


def test_a_run_is_found_by_id_prefix_and_issue(tmp_path: Path) -> None:
    agents = str(tmp_path)
    for adw_id, issue, at in (("aa000001", 47, "1"), ("aa000002", 47, "2"), ("bb000001", 48, "3")):
        folder = tmp_path / adw_id
        folder.mkdir()
        state = {"adw_id": adw_id, "issue_number": issue, "updated_at": at}
        (folder / "adw_state.json").write_text(json.dumps(state))

    assert runs.find_run(agents, "bb").endswith("bb000001")
    assert runs.find_run(agents, "@47").endswith("aa000002")
    assert runs.find_run(agents, "aa000001").endswith("aa000001")
    with pytest.raises(AmbiguousId):
        runs.find_run(agents, "aa")
    with pytest.raises(UnknownName):
        runs.find_run(agents, "cc")
    with pytest.raises(UnknownName):
        runs.find_run(agents, "@49")


@pytest.mark.parametrize(
    "text",
    ["../x", "/etc", ".", "..", "", "a/b", "a\0b", "A", "x" * 300 + "/", "ab\n", "ａｂ", "a b"],
)
@pytest.mark.hostile("H9")
def test_what_can_be_no_id_is_refused_before_any_path_is_built_ST_20(text: str) -> None:
    with pytest.raises(MalformedId):
        runs.find_run("/nonexistent", text)


def test_ST_18_the_second_opener_is_refused_and_death_frees_the_run(run_dir: str) -> None:
    lock = runs.open_run(run_dir)
    with pytest.raises(BusyError) as caught:
        runs.open_run(run_dir)
    assert f"process {os.getpid()}" in caught.value.message
    lock.close()
    runs.open_run(run_dir).close()


@pytest.mark.sweep
def test_case_E6_a_holder_with_a_reused_process_id_is_not_named(run_dir: str) -> None:
    lock = runs.open_run(run_dir)
    who = json.loads(Path(run_dir, "lock").read_text())
    Path(run_dir, "lock").write_text(json.dumps({**who, "start_time": 1}))
    with pytest.raises(BusyError) as caught:
        runs.open_run(run_dir)

    assert "another adw (starting)" in caught.value.message
    lock.close()


def test_half_made_runs_are_swept_unless_somebody_works_on_them(tmp_path: Path) -> None:
    agents = str(tmp_path)
    dead, lock = runs.build_run(agents, "aa000001", {})
    lock.close()
    living, other = runs.build_run(agents, "aa000002", {})

    assert not os.path.exists(dead)
    assert os.path.exists(living)
    assert runs.list_ids(agents) == []
    other.close()


@pytest.mark.hostile("H10")
def test_a_name_that_is_taken_even_by_an_empty_directory_is_refused(tmp_path: Path) -> None:
    agents = str(tmp_path)
    (tmp_path / "aa000001").mkdir()
    temp, lock = runs.build_run(agents, "aa000001", {})
    with pytest.raises(FileExistsError):
        runs.publish_run(temp, lock)
    lock.close()


def test_askers_leftovers_are_swept_under_their_lock(
    run_dir: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Path(run_dir, "requests", ".000001-cancel.json.1.1.tmp")
    left.touch()
    sweep, held = files.sweep, []

    def spy(folder: str) -> int:
        held.append(files.locked(str(Path(folder, ".lock"))))
        return sweep(folder)

    monkeypatch.setattr(files, "sweep", spy)
    requests.sweep(run_dir)

    assert held == [True]
    assert not left.exists()


def test_a_log_that_cannot_be_read_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("printed\n")
    assert attempts.log_tail(str(tmp_path), 100) == "printed\n"
    (tmp_path / "stderr.log").mkdir()
    assert attempts.log_tail(str(tmp_path), 100) == "(stderr.log cannot be read: Is a directory)"
