"""What one phase hands to the next: outputs promised, checked, promoted, and read again."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from adw.store.history import read_history
from tests.support.ground import Ground, phase
from tests.support.repo import Repo

PLAN: dict[str, Any] = {"plan": {"path": "specs/*{adw_id}*.md", "state": "plan_file"}}
WRITE = 'mkdir -p specs; echo "the plan" > "specs/x-$ADW_ID.md"'


def events(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_history(str(run_dir)) if event["event"] == kind]


def manifest(run_dir: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run_dir / "artifacts" / "manifest.json").read_text())
    return found


def ran(base: Path, phases: dict[str, Any], exit_code: int = 0, **more: Any) -> tuple[Ground, Path]:
    ground = Ground(base, phases, **more)
    done = ground.adw("run", "w", "47")
    assert done.exit_code == exit_code, done
    return ground, ground.run_dir


def test_FS_8_FS_9_an_output_that_is_missing_leads_to_a_narrowed_retry(tmp_path: Path) -> None:
    body = f'if [ "$ADW_ATTEMPT" = 2 ]; then cat "$ADW_TASK" > "$GROUND/told"; {WRITE}; fi'
    ground, run_dir = ran(tmp_path, {"plan": phase(body, outputs=PLAN)})

    told = (tmp_path / "told").read_text()
    state = json.loads((run_dir / "adw_state.json").read_text())
    adw_id = state["adw_id"]
    assert [(e["success"], e["reason"]) for e in state["phase_history"]] == [
        (False, "missing_output"),
        (True, None),
    ]
    assert "## Only this is missing" in told
    assert f"- `plan`, `specs/*{adw_id}*.md` in the worktree: nothing matches" in told
    assert "nothing else of phase `plan` is to be done again" in told
    for child in ("plan-1", "plan-2"):
        assert (run_dir / "children" / child / "TASK.md").exists()
        assert (run_dir / "children" / child / "RESPONSE.md").exists()
    kinds = [event["event"] for event in read_history(str(run_dir)) if event["child_id"]]
    assert kinds == [
        "packet_written",
        "child_launched",
        "child_completed",
        "recovery_decided",
        "packet_written",
        "child_launched",
        "child_completed",
        "artifact_promoted",
    ]
    assert [e["cause"] for e in events(run_dir, "packet_written")] == ["attempt", "narrowed_retry"]
    assert [e["action"] for e in events(run_dir, "recovery_decided")] == ["narrowed_retry"]
    response = (run_dir / "RESPONSE.md").read_text()
    assert "`plan-1` failed, missing_output: narrowed retry" in response
    assert manifest(run_dir)["plan"]["path"] == f"artifacts/plan/plan-2/x-{adw_id}.md"
    assert state["plan_file"] == f"specs/x-{adw_id}.md"
    assert ground.ran("plan") == ["plan-1", "plan-2"]


def test_FS_18_an_input_is_read_again_and_a_change_is_told(tmp_path: Path) -> None:
    ground, run_dir = ran(
        tmp_path,
        {
            "plan": phase(WRITE, outputs=PLAN),
            "edit": phase('echo more >> "$ADW_PLAN_FILE"', needs=["plan"]),
            "build": phase(
                'python3 -c \'import json,os; print(json.loads(os.environ["ADW_INPUTS"])["plan"])\''
                ' > "$GROUND/path"; cat "$(cat "$GROUND/path")" > "$GROUND/read"',
                needs=["edit"],
                inputs=["plan"],
            ),
        },
    )
    assert (tmp_path / "read").read_text() == "the plan\nmore\n"
    (event,) = events(run_dir, "input_changed")
    assert (event["logical_name"], event["child_id"]) == ("plan", "build-1")
    assert event["recorded_sha256"] == manifest(run_dir)["plan"]["sha256"]
    assert event["found_sha256"] != event["recorded_sha256"]
    del ground


def test_FS_5_a_packet_that_names_what_is_gone_is_refused_before_launch(tmp_path: Path) -> None:
    ground, run_dir = ran(
        tmp_path,
        {
            "plan": phase(WRITE, outputs={"plan": {"path": "specs/*.md"}}),
            "lose": phase("rm -r specs", needs=["plan"]),
            "build": phase("true", needs=["lose"], inputs=["plan"]),
        },
        exit_code=1,
    )
    assert (ground.ran("lose"), ground.ran("build")) == (["lose-1"], [])
    last = events(run_dir, "child_completed")[-1]
    assert (last["child_id"], last["reason"]) == ("build-1", "spawn_failed")
    assert "its input `plan` is missing: `specs/" in last["detail"]
    assert not (run_dir / "children" / "build-1").exists()


@pytest.mark.hostile("H44", "H45")
def test_case_J5_a_secret_reaches_its_phase_alone_and_no_file_of_the_run(tmp_path: Path) -> None:
    ground, run_dir = ran(
        tmp_path,
        {
            "use": phase(
                'echo "key $TOKEN"; printf %s "$TOKEN" | base64; echo "{\\"summary\\": \\"$TOKEN\\"}"'
                ' > "$ADW_RESULT"; exit 1',
                secrets=["TOKEN"],
                allow_failure=True,
            ),
            "other": phase('test -z "${TOKEN-}"', needs=["use"]),
        },
        env={"TOKEN": "canary-0123456789"},
        config={"env_pass": ["TOK*"]},
    )
    log = (run_dir / "attempts" / "use-1" / "stdout.log").read_text()
    assert log.startswith("key [redacted]\n[redacted]")
    for path in run_dir.rglob("*"):
        if path.is_file() and path.name != "result.json":  # that one is the phase's own
            assert b"canary" not in path.read_bytes(), path
    del ground


def test_a_secret_that_is_not_set_is_asked_for_before_anything_starts(tmp_path: Path) -> None:
    ground, run_dir = ran(tmp_path, {"use": phase("true", secrets=["TOKEN"])}, exit_code=1)
    assert ground.ran("use") == []
    (end,) = events(run_dir, "child_completed")
    assert (end["reason"], end["detail"]) == (
        "auth",
        "its secret `TOKEN` is not set in the environment of adw",
    )


@pytest.mark.sweep
@pytest.mark.parametrize("root", ["worktree", "artifacts"])
def test_an_output_is_promoted_from_either_root(tmp_path: Path, root: str) -> None:
    where = '"$ADW_ARTIFACTS"' if root == "artifacts" else "."
    outputs = {"report": {"path": "r.json", "root": root, "format": "json"}}
    _, run_dir = ran(tmp_path, {"make": phase(f"echo '{{}}' > {where}/r.json", outputs=outputs)})
    entry = manifest(run_dir)["report"]
    assert (run_dir / entry["path"]).read_text() == "{}\n"
    assert (entry["root"], entry["source"], entry["copied"]) == (root, "r.json", True)


def test_a_repair_phase_is_told_what_failed_and_how(tmp_path: Path) -> None:
    ground, run_dir = ran(
        tmp_path,
        {
            "test": phase(
                "echo '2 failed: ```'; test -e fixed", repair={"phase": "fix", "rounds": 1}
            ),
            "fix": phase("touch fixed"),
        },
    )
    told = (run_dir / "children" / "fix-1" / "TASK.md").read_text()
    report = run_dir / "children" / "test-1" / "RESPONSE.md"
    assert "Phase `test` failed in attempt `test-1`: exit code 1\n" in told
    assert f"Its report: {report}\n" in told
    assert "````\n2 failed: ```\n````\n" in told
    assert report.exists()
    del ground


@pytest.mark.sweep
def test_in_another_clone_a_run_goes_on_and_its_folders_are_hidden(tmp_path: Path) -> None:
    go = 'test -e "$GROUND/go"'
    ground = Ground(
        tmp_path / "g",
        {
            "build": phase("echo x > made.txt"),
            "commit": {"use": "commit", "needs": ["build"]},
            "check": phase(go, needs=["commit"], writes=False),
        },
    )
    try:
        assert ground.adw("run", "w", "47").exit_code == 1
        old, adw_id = ground.repo, ground.adw_id
        clone = Repo(tmp_path / "clone")
        old.git("clone", "--quiet", str(old.path), str(clone.path))
        shutil.copytree(ground.run_dir, clone.path / "agents" / adw_id)
        ground.repo = clone
        ground.go()

        ground.ok("resume", adw_id)

        assert ground.ran("build") == ["build-1"]
        assert clone.git("status", "--porcelain") == ""
    finally:
        ground.end()
