"""`adw history`."""

from adw.store.history import History
from tests.cli.handmade import ID, call, made_run
from tests.support.repo import Repo


def test_events_come_in_order_with_what_belongs_to_them(repo: Repo) -> None:
    run_dir = made_run(repo)
    history = History(str(run_dir))
    slots = {"attempt": 1, "success": False, "reason": "exit", "exit_code": 3, "commit": None}
    history.add(
        "child_completed",
        {**slots, "detail": 'said "no"'},
        entries=1,
        stage="plan",
        child_id="plan-1",
        recovered=True,
    )
    history.flush()

    said = call(repo, "history", ID)

    assert (said.code, said.err) == (0, "")
    head, first, second = said.out.rstrip("\n").split("\n")
    assert head.split() == ["SEQ", "TIME", "PHASE", "EVENT", "MORE"]
    assert first.split()[0] == "1"
    assert " -      run_created      workflow=w@" in first
    assert second.split()[0] == "2"
    assert second.endswith(
        "plan   child_completed  attempt=1 success=false reason=exit exit_code=3"
        ' detail="said \\"no\\"" recovered'
    )


def test_damaged_lines_are_named_and_the_others_shown(repo: Repo) -> None:
    path = made_run(repo) / "state" / "task_history.jsonl"
    whole = path.read_bytes()
    path.write_bytes(b"\x00\x00\n" + whole + b'{"event": "run_pau')

    said = call(repo, "history", ID)
    view = call(repo, "history", ID, "--json").json()

    assert said.code == 0
    rows = said.out.rstrip("\n").split("\n")
    assert rows[1].split() == ["-", "-", "-", "damaged", "line", "1:", "not", "JSON"]
    assert "run_created" in rows[2]
    assert rows[3].split() == ["-", "-", "-", "damaged", "line", "3:", "not", "JSON"]
    assert view["damaged"] == [
        {"line": 1, "why": "not JSON"},
        {"line": 3, "why": "not JSON"},
    ]
    assert [event["event"] for event in view["events"]] == ["run_created"]


def test_as_json_it_has_the_documented_shape(repo: Repo) -> None:
    made_run(repo)

    view = call(repo, "history", "@47", "--json").json()

    assert list(view) == ["schema_version", "adw_id", "events", "damaged"]
    assert (view["schema_version"], view["adw_id"], view["damaged"]) == (1, ID, [])
    assert view["events"][0]["seq"] == 1


def test_the_history_of_a_run_with_a_damaged_state_can_be_read(repo: Repo) -> None:
    run_dir = made_run(repo)
    (run_dir / "adw_state.json").write_bytes(b"")

    assert call(repo, "history", ID).code == 0
