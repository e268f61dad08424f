"""The shipped workflow `sdlc`, with agents that are wrong at first."""

import json
import os
from pathlib import Path

import pytest

from tests.support.adw import Adw

# Each call adds a line; the tests want three of them, the review four.
AGENT = """#!/bin/sh
echo "$1" >>"$ADW_STATE_ROOT/calls"
case $1 in
  plan) mkdir -p specs && cat "$ADW_STATE_ROOT/TASK.md" >"specs/$ADW_ID.md" ;;
  review) test "$(wc -l <work.txt)" -ge 4 ;;
  *) echo "$1" >>work.txt ;;
esac
"""
TEST = """#!/bin/sh
echo "test" >>"$ADW_STATE_ROOT/calls"
test "$(wc -l <work.txt)" -ge 3
"""
SETTINGS = "ports: none\nenv:\n  AGENT: tools/agent.sh\n  TEST: tools/test.sh\n"


def shop(tmp_path: Path, settings: str) -> Adw:
    adw = Adw(tmp_path).issue(47, "Add a line")
    files = {"tools/agent.sh": AGENT, "tools/test.sh": TEST, "adw.yaml": settings}
    adw.repo.commit("shop", files)
    return adw


def run_dir(adw: Adw) -> Path:
    (found,) = (
        path for path in (adw.repo.path / "agents").iterdir() if not path.name.startswith(".")
    )
    return found


@pytest.mark.sweep
def test_failed_tests_and_a_failed_review_are_repaired_and_tested_again(tmp_path: Path) -> None:
    adw = shop(tmp_path, SETTINGS)

    adw.run("run", "sdlc", "47").ok()

    calls = (run_dir(adw) / "calls").read_text().split()
    assert calls == [
        *("plan", "build", "test"),
        *("fix", "test", "fix", "test"),
        *("review", "patch", "test", "review"),
    ]
    name = run_dir(adw).name
    branch = f"adw-47-{name}-add-a-line"
    assert adw.repo.git("show", f"{branch}:work.txt") == "build\nfix\nfix\npatch"
    assert adw.repo.git("rev-list", "--count", f"main..{branch}") == "1"
    manifest = json.loads((run_dir(adw) / "artifacts" / "manifest.json").read_bytes())
    assert {key: entry["source"] for key, entry in manifest.items()} == {
        "plan": f"specs/{name}.md",
        "commit": "commit.json",
    }
    committed = json.loads((run_dir(adw) / manifest["commit"]["path"]).read_bytes())
    assert committed == {
        "schema_version": 1,
        "branch": branch,
        "base": adw.repo.git("rev-parse", "main"),
        "commit": adw.repo.git("rev-parse", branch),
        "subject": "Add a line",
    }
    state = json.loads((run_dir(adw) / "adw_state.json").read_bytes())
    assert state["plan_file"] == f"specs/{name}.md"


@pytest.mark.sweep
def test_FS_9_an_agent_that_says_it_has_planned_and_left_no_plan_is_asked_for_the_file(
    tmp_path: Path,
) -> None:
    """The second attempt is told which file is missing; adw never writes it."""
    lazy = SETTINGS.replace(
        "AGENT: tools", 'AGENT: test "$ADW_CHILD" = plan-1 && echo planned || tools'
    )
    adw = shop(tmp_path, lazy)

    adw.run("run", "sdlc", "47").ok()

    first, second = (run_dir(adw) / "children" / f"plan-{n}" / "TASK.md" for n in (1, 2))
    name = run_dir(adw).name
    told = f"specs/*{name}*.md"
    assert told in first.read_text()
    assert "nothing matches" not in first.read_text()
    assert f"nothing matches `{told}`" in second.read_text()
    state = json.loads((run_dir(adw) / "adw_state.json").read_bytes())
    plans = [entry for entry in state["phase_history"] if entry["phase"] == "plan"]
    assert [(e["success"], e["reason"]) for e in plans] == [(False, "missing_output"), (True, None)]


def test_a_build_that_changes_nothing_fails_and_nothing_is_committed(tmp_path: Path) -> None:
    adw = shop(
        tmp_path, SETTINGS.replace("AGENT: tools", 'AGENT: test "$ADW_PHASE" = build || tools')
    )

    output = adw.run("run", "sdlc", "47").fails(1)

    assert "build         failed: no_change" in output.stdout
    assert not (run_dir(adw) / "children" / "test-1").exists()


@pytest.mark.sweep
def test_a_repository_that_names_no_agent_is_told_where_to(tmp_path: Path) -> None:
    adw = shop(tmp_path, "ports: none\n")

    output = adw.run("run", "sdlc", "47").fails(1)

    told = "AGENT: is not set; name the agent's command under env in adw.yaml"
    assert told in output.stdout
    adw.repo.write({"adw.yaml": SETTINGS})
    adw.run("resume", run_dir(adw).name).stderr(
        "`adw.yaml` changed since the run pinned it; the pinned one is used"
        " (`--accept-changed` goes over to the new one)\n"
    ).fails(1)
    adw.run("resume", run_dir(adw).name, "--accept-changed").stderr("").ok()


@pytest.mark.sweep
def test_settings_that_became_invalid_do_not_keep_a_run_from_going_on(tmp_path: Path) -> None:
    adw = shop(tmp_path, SETTINGS.replace("env:", "env:\n  STOP: '1'"))
    os.chmod(adw.repo.path / "tools" / "agent.sh", 0o644)
    adw.repo.commit("not executable")
    adw.run("run", "sdlc", "47").fails(1)
    adw.repo.write({"adw.yaml": "prots: none\n"})

    output = adw.run("resume", run_dir(adw).name).fails(1)

    assert output.stderr == (
        "`adw.yaml` has become invalid since the run pinned it; the pinned one is used\n"
    )
