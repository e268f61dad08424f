"""`adw doctor`."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.cli import handmade
from tests.cli.handmade import ID, OTHER, call, entry, made_run
from tests.support.repo import Repo

STATE = "adw_state.json"


def findings(repo: Repo, *args: str) -> list[dict[str, Any]]:
    said = call(repo, "doctor", *args, "--json")
    assert (said.code, said.err) == (0, "")
    found: list[dict[str, Any]] = said.json()["findings"]
    return found


def everything(folder: Path) -> dict[str, bytes]:
    files = [p for p in folder.rglob("*") if p.is_file() and ".git/" not in str(p)]
    return {str(path): path.read_bytes() for path in files}


def test_where_all_is_well_it_says_so(repo: Repo) -> None:
    made_run(repo, handmade.done())

    said = call(repo, "doctor")

    assert (said.code, said.err) == (0, "")
    lines = said.out.split("\n")
    assert [line[:10].rstrip() for line in lines[:6]] == [
        "adw",
        "repository",
        "runs",
        "tree end",
        "isolation",
        "lacking",
    ]
    assert lines[2] == f"runs        1 in {repo.path.resolve()}/agents"
    assert lines[6:] == ["", "nothing is wrong", ""]


def test_switched_off_capabilities_are_named(repo: Repo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADW_DISABLE", "cgroup,pidfd")

    said = call(repo, "doctor")

    assert "\ntree end    tag\n" in said.out
    assert "\nlacking     cgroup, pidfd\n" in said.out


def test_case_A3_a_damaged_state_is_told_with_the_last_good_version(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / STATE).write_bytes(b"")
    before = everything(repo.path)

    found = findings(repo)

    assert found == [
        {
            "kind": "state",
            "adw_id": ID,
            "path": str(run_dir / STATE),
            "detail": (
                f"`{run_dir / STATE}` is not a valid state file: it is empty; "
                "adw_state.prev.json is good, has 0 entries and is of "
                + json.loads((run_dir / "adw_state.prev.json").read_text())["updated_at"]
            ),
            "hint": f"adw doctor --restore {ID}",
        }
    ]
    assert everything(repo.path) == before, "doctor only looks"


def test_case_A3_it_is_restored_only_when_told_and_the_damage_is_kept(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    good = (run_dir / STATE).read_bytes()
    (run_dir / "adw_state.prev.json").write_bytes(good)
    (run_dir / STATE).write_bytes(b"{torn")

    said = call(repo, "doctor", "--restore", ID)

    assert (said.code, said.err) == (0, "")
    assert said.out == (
        "restored a state with 3 entries; the damaged one is kept as adw_state.damaged.1.json\n"
        f"  next: adw resume {ID}\n"
    )
    assert (run_dir / STATE).read_bytes() == good
    assert (run_dir / "adw_state.damaged.1.json").read_bytes() == b"{torn"
    assert call(repo, "status", ID, "--json").json()["status"] == "failed"
    events = call(repo, "history", ID, "--json").json()["events"]
    assert (events[-1]["event"], events[-1]["evidence"]) == (
        "state_restored",
        "adw_state.damaged.1.json",
    )
    assert [each["kind"] for each in findings(repo)] == ["evidence"]


@pytest.mark.parametrize("damage", ["missing", "directory", "fifo", "foreign id"])
def test_whatever_lies_in_the_place_of_the_state_is_kept(repo: Repo, damage: str) -> None:
    run_dir = made_run(repo, handmade.failed())
    path = run_dir / STATE
    (run_dir / "adw_state.prev.json").write_bytes(path.read_bytes())
    foreign = path.read_bytes().replace(ID.encode(), OTHER.encode())
    path.unlink()
    if damage == "directory":
        path.mkdir()
    elif damage == "fifo":
        os.mkfifo(path)
    elif damage == "foreign id":
        path.write_bytes(foreign)

    assert call(repo, "status", ID).code == 2
    said = call(repo, "doctor", ID, "--restore", "--json")

    kept = None if damage == "missing" else "adw_state.damaged.1.json"
    assert said.json() == {
        "schema_version": 1,
        "adw_id": ID,
        "restored": True,
        "evidence": kept,
        "filled": [],
        "lost": [],
    }
    assert os.path.lexists(run_dir / "adw_state.damaged.1.json") == (damage != "missing")
    assert call(repo, "status", ID).code == 0


def test_a_valid_state_is_never_replaced(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    before = everything(run_dir / "state") | {STATE: (run_dir / STATE).read_bytes()}

    said = call(repo, "doctor", "--restore", ID)

    assert (said.code, said.out) == (
        0,
        f"the state of run {ID} is valid, there is nothing to restore\n",
    )
    assert everything(run_dir / "state") | {STATE: (run_dir / STATE).read_bytes()} == before


def test_without_a_good_version_nothing_is_touched(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / STATE).write_bytes(b"x")
    (run_dir / "adw_state.prev.json").write_bytes(b"y")

    said = call(repo, "doctor", "--restore", ID)

    assert said.code == 2
    assert said.err == (
        f"error: the state of run `{ID}` is damaged, and there is no good version before it\n"
        f"  hint: adw doctor {ID}\n"
    )
    assert (run_dir / STATE).read_bytes() == b"x"
    assert findings(repo)[0]["detail"].endswith("; there is no good version before it")


def test_case_A10_a_newer_version_is_no_damage(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    data = (run_dir / STATE).read_bytes().replace(b'"schema_version": 1', b'"schema_version": 2')
    (run_dir / STATE).write_bytes(data)

    said = call(repo, "doctor", "--restore", ID)

    assert said.code == 2
    assert "has schema version 2, this adw reads up to 1" in said.err
    assert (run_dir / STATE).read_bytes() == data
    assert findings(repo)[0]["hint"] == "use a newer adw"


def test_a_run_in_use_is_not_restored(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    (run_dir / STATE).write_bytes(b"x")

    with handmade.held(run_dir):
        said = call(repo, "doctor", "--restore", ID)

    assert said.code == 5
    assert (run_dir / STATE).read_bytes() == b"x"


def test_restore_needs_an_id(repo: Repo) -> None:
    said = call(repo, "doctor", "--restore")

    assert (said.code, said.out) == (2, "")
    assert said.err == "error: `--restore` needs an ID\n  hint: adw doctor --restore ID\n"


def test_left_overs_are_found(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.failed())
    made_run(repo, handmade.done(), OTHER)
    agents, root = repo.path.resolve() / "agents", repo.path.resolve()
    (agents / ".new-ab12cd34-00000000").mkdir()
    (root / "trees" / "ee55ff66").mkdir(parents=True)
    (run_dir / ".adw_state.json.1.1.tmp").write_bytes(b"")
    (run_dir / "requests" / "000001-cancel.json").write_bytes(b"{")
    with (run_dir / "state" / "task_history.jsonl").open("ab") as file:
        file.write(b'{"torn')

    found = [(each["kind"], each["adw_id"], each["path"]) for each in findings(repo)]

    assert found == [
        ("leftover", None, f"{agents}/.new-ab12cd34-00000000"),
        ("orphan", None, f"{root}/trees/ee55ff66"),
        ("history", ID, f"{run_dir}/state/task_history.jsonl"),
        ("request", ID, f"{run_dir}/requests/000001-cancel.json"),
        ("leftover", ID, f"{run_dir}/.adw_state.json.1.1.tmp"),
    ]
    assert findings(repo, OTHER) == []


def test_a_damaged_pin_is_found(repo: Repo) -> None:
    run_dir = made_run(repo)
    pin = next(p for p in (run_dir / "definitions").iterdir() if ".graph." not in p.name)
    pin.write_bytes(b"{}")

    found = findings(repo, ID)

    assert [(each["kind"], each["path"]) for each in found] == [("definition", str(pin))]
    assert found[0]["hint"] == f"adw run WORKFLOW 47 --adw-id {ID}"


def test_findings_as_text(repo: Repo) -> None:
    run_dir = made_run(repo)
    (run_dir / "adw_state.tampered.1.json").write_bytes(b"")

    said = call(repo, "doctor", ID)

    assert said.out.endswith(
        f"\n\nrun {ID}, evidence: bytes that were set aside\n"
        f"  at: {run_dir}/adw_state.tampered.1.json\n"
    )


def test_a_path_that_is_no_utf_8_is_shown(tmp_path: Path) -> None:
    repo = handmade.repository(tmp_path / os.fsdecode(b"r\xff"))

    said = call(repo, "doctor")
    view = call(repo, "doctor", "--json").json()

    assert f"\nrepository  {tmp_path.resolve()}/r\\udcff\n" in said.out
    assert view["facts"]["repository"] == str(repo.path.resolve())


def test_an_unfinished_run_whose_worktree_was_removed_is_told(repo: Repo) -> None:
    made_run(repo, [entry("plan")])
    (repo.path / "agents" / ID / "attempts" / "plan-1").mkdir(exist_ok=True)
    repo.git("worktree", "add", "-q", "-b", f"bug-47-{ID}-x", f"trees/{ID}")
    shutil.rmtree(repo.path / "trees" / ID)
    said = call(repo, "doctor")

    assert "the worktree of an unfinished run is gone" in said.out
    assert f"adw resume {ID} makes it again" in said.out
