"""Going on with a run: by id, with another or a changed workflow, from a phase, up to a phase."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from adw.app import reading
from adw.store import runs
from tests.support.adw import Adw

PLAN = """
name: plan
phases:
  plan: {run: "echo plan >> $ADW_STATE_ROOT/ran"}
"""
SDLC = """
name: sdlc
phases:
  plan: {run: "echo plan >> $ADW_STATE_ROOT/ran"}
  build:
    needs: [plan]
    run: "echo build >> $ADW_STATE_ROOT/ran"
  docs:
    needs: [plan]
    run: "echo docs >> $ADW_STATE_ROOT/ran"
  test:
    needs: [build]
    run: "echo test >> $ADW_STATE_ROOT/ran; test ! -e $ADW_STATE_ROOT/broken"
"""


@pytest.fixture
def adw(tmp_path: Path) -> Adw:
    found = Adw(tmp_path).workflow("plan", PLAN).workflow("sdlc", SDLC).issue(135, "Add it")
    found.repo.commit("workflows")
    return found


def _view(adw: Adw) -> dict[str, Any]:
    (adw_id,) = runs.list_ids(str(adw.repo.path / "agents"))
    return reading.status(str(adw.repo.path / "agents" / adw_id))


def _run_dir(adw: Adw, view: dict[str, Any]) -> Path:
    return adw.repo.path / "agents" / str(view["adw_id"])


def _ran(adw: Adw, view: dict[str, Any]) -> list[str]:
    return (_run_dir(adw, view) / "ran").read_text().split()


def _statuses(view: dict[str, Any]) -> dict[str, str]:
    return {phase["phase"]: phase["status"] for phase in view["phases"]}


def _fail_once(adw: Adw) -> dict[str, Any]:
    """A run of sdlc whose test failed."""
    adw.workflow("sdlc", SDLC.replace("test ! -e $ADW_STATE_ROOT/broken", "false")).repo.commit(
        "broken"
    )
    adw.run("run", "sdlc", "135").fails(1)
    adw.workflow("sdlc", SDLC).repo.commit("mended")
    return _view(adw)


@pytest.mark.sweep
def test_case_A6_another_workflow_by_id_keeps_state_tree_branch_and_ports(adw: Adw) -> None:
    adw.run("run", "plan", "135").ok()
    before = _view(adw)
    said = adw.run("run", "sdlc", "135", "--adw-id", before["adw_id"]).ok()
    after = _view(adw)

    assert _ran(adw, after) == ["plan", "build", "docs", "test"]
    assert "kept: plan" in said.stderr
    same = ("adw_id", "branch_name", "worktree_path", "backend_port", "frontend_port")
    assert [after["state"][k] for k in same] == [before["state"][k] for k in same]
    assert (before["workflow"], after["workflow"]) == ("plan", "sdlc")


@pytest.mark.sweep
def test_a_phase_whose_definition_changed_starts_again_and_keep_forbids_it(adw: Adw) -> None:
    adw.run("run", "plan", "135").ok()
    view = _view(adw)
    adw.workflow("plan", PLAN.replace("echo plan", "echo plan2")).repo.commit("changed")
    adw.run("run", "plan", "135", "--adw-id", view["adw_id"], "--keep").ok()
    assert _ran(adw, view) == ["plan"]
    adw.workflow("plan", PLAN.replace("echo plan", "echo plan3")).repo.commit("changed again")
    said = adw.run("run", "plan", "135", "--adw-id", view["adw_id"]).ok()

    assert _ran(adw, view) == ["plan", "plan3"]
    assert "starts again, since its definition changed: plan" in said.stderr


@pytest.mark.sweep
def test_an_unknown_id_of_an_issue_that_has_runs_is_a_slip(adw: Adw) -> None:
    adw.run("run", "plan", "135").ok()
    adw.run("run", "plan", "135", "--adw-id", "aaaa1111").fails(2)
    adw.run("run", "plan", "135", "--adw-id", "aaaa1111", "--new").ok()

    assert len(runs.list_ids(str(adw.repo.path / "agents"))) == 2


def test_a_run_of_another_issue_is_refused_by_id(adw: Adw) -> None:
    adw.issue(136, "Other").repo.commit("other issue")
    adw.run("run", "plan", "135").ok()
    out = adw.run("run", "plan", "136", "--adw-id", _view(adw)["adw_id"]).fails(2)

    assert "works on issue 135, not 136" in out.stderr


def test_a_state_written_elsewhere_is_continued_by_id(adw: Adw) -> None:
    folder = adw.repo.path / "agents" / "cc73faf1"
    folder.mkdir(parents=True)
    given = {
        "adw_id": "cc73faf1",
        "issue_number": 135,
        "issue_class": "feature",
        "branch_name": "feat-135-cc73faf1-x",
        "plan_file": None,
        "worktree_path": "trees/cc73faf1",
        "backend_port": 9107,
        "frontend_port": 9207,
        "model_set": "base",
        "all_adws": ["cc73faf1"],
        "phase_history": [{"phase": "plan", "success": True}],
    }
    adw.repo.git("branch", "feat-135-cc73faf1-x")
    (folder / "adw_state.json").write_text(json.dumps(given))
    assert "names no workflow" in adw.run("resume", "cc73faf1").fails(2).stderr
    adw.run("run", "sdlc", "135", "--adw-id", "cc73faf1").ok()
    view = _view(adw)

    assert _ran(adw, view) == ["build", "docs", "test"]
    assert view["state"]["branch_name"] == "feat-135-cc73faf1-x"


def test_case_B8_from_a_phase_reruns_it_and_all_that_needs_it(adw: Adw) -> None:
    adw.run("run", "sdlc", "135").ok()
    view = _view(adw)
    adw.run("resume", view["adw_id"], "--from", "build").ok()
    again = _view(adw)

    assert _ran(adw, view) == ["plan", "build", "docs", "test", "build", "test"]
    tries = {p["phase"]: [a["success"] for a in p["attempts"]] for p in again["phases"]}
    assert tries == {"plan": [True], "build": [True, True], "docs": [True], "test": [True, True]}


def test_case_B9_from_an_unknown_phase_is_refused_with_the_nearest_name(adw: Adw) -> None:
    adw.run("run", "sdlc", "135").ok()
    out = adw.run("resume", _view(adw)["adw_id"], "--from", "biuld").fails(2)

    assert "unknown phase `biuld`" in out.stderr
    assert "did you mean `build`?" in out.stderr


@pytest.mark.sweep
def test_case_B1_B11_resume_runs_only_what_had_not_succeeded(adw: Adw) -> None:
    view = _fail_once(adw)
    adw.run("resume", view["adw_id"]).fails(1)
    adw.run("resume", view["adw_id"]).fails(1)

    assert _ran(adw, view) == ["plan", "build", "docs", "test", "test", "test"]
    assert _statuses(_view(adw))["test"] == "failed"


@pytest.mark.sweep
def test_case_B16_a_changed_workflow_is_told_and_taken_over_only_on_demand(adw: Adw) -> None:
    view = _fail_once(adw)
    told = adw.run("resume", view["adw_id"]).fails(1)
    assert "`sdlc.yaml` changed since the run pinned it; the pinned one is used" in told.stderr
    adw.run("resume", view["adw_id"], "--accept-changed").ok()
    after = _view(adw)

    # test is what had failed; build and docs kept their results by name
    assert _ran(adw, view).count("build") == 1
    assert after["definition"] != view["definition"]
    pin = json.loads(
        (_run_dir(adw, view) / "definitions" / f"{after['definition']}.json").read_text()
    )
    assert pin["parent_id"] == view["definition"]


@pytest.mark.sweep
def test_case_B16_the_phase_where_it_stopped_must_still_exist(adw: Adw) -> None:
    view = _fail_once(adw)
    adw.workflow("sdlc", SDLC.split("  test:", maxsplit=1)[0]).repo.commit("test removed")
    out = adw.run("resume", view["adw_id"], "--accept-changed").fails(2)

    assert "phase `test`, where the run stopped, is gone" in out.stderr
    assert _view(adw)["definition"] == view["definition"]


def test_case_B21_finished_phases_keep_their_attempt_and_time_after_a_resume(adw: Adw) -> None:
    view = _fail_once(adw)
    adw.run("resume", view["adw_id"]).fails(1)
    after = _view(adw)

    def plan(found: dict[str, Any]) -> Any:
        return next(p for p in found["phases"] if p["phase"] == "plan")

    assert plan(after) == plan(view)
    assert plan(after)["status"] == "done"


@pytest.mark.sweep
def test_case_B7_a_plain_run_never_continues_an_old_one(adw: Adw) -> None:
    view = _fail_once(adw)
    adw.run("run", "sdlc", "135").ok()
    found = reading.listing(str(adw.repo.path / "agents"))["runs"]

    assert {run["status"] for run in found} == {"failed", "succeeded"}
    assert _ran(adw, view) == ["plan", "build", "docs", "test"]


@pytest.mark.sweep
def test_ST_15_only_and_until_are_targets_of_one_command(adw: Adw) -> None:
    adw.run("run", "sdlc", "135", "--until", "build").ok()
    view = _view(adw)
    assert _ran(adw, view) == ["plan", "build"]
    adw.run("run", "sdlc", "135", "--adw-id", view["adw_id"], "--only", "build").ok()
    assert _ran(adw, view) == ["plan", "build", "build"]
    adw.run("run", "sdlc", "135", "--adw-id", view["adw_id"]).ok()

    assert _ran(adw, view) == ["plan", "build", "build", "docs", "test"]


@pytest.mark.sweep
def test_a_rewritten_branch_is_noticed_before_anything_runs_ST_13(adw: Adw) -> None:
    adw.workflow(
        "ship",
        "name: ship\nphases:\n  edit: {run: 'date > new.txt; echo $ADW_ATTEMPT >> new.txt'}\n"
        "  commit: {needs: [edit], use: commit}\n  last: {needs: [commit], run: 'false'}\n",
    )
    adw.repo.commit("ship")
    adw.run("run", "ship", "135").fails(1)
    view = _view(adw)
    tree = adw.repo.path / "trees" / view["adw_id"]
    adw.repo.git("-C", str(tree), "reset", "-q", "--hard", "HEAD~1")
    out = adw.run("resume", view["adw_id"]).fails(4)

    assert "is not in the branch any more" in out.stderr
    assert _view(adw)["state"] == view["state"]
    assert "--from" in out.stderr


def test_case_F16_a_missing_program_is_one_attempt_and_a_clear_failure(adw: Adw) -> None:
    adw.workflow(
        "bad", "name: bad\nphases:\n  a:\n    run: [no-such-program]\n    retry: {attempts: 3}\n"
    )
    adw.repo.commit("bad")
    out = adw.run("run", "bad", "135").fails(1)
    (phase,) = _view(adw)["phases"]

    assert [a["reason"] for a in phase["attempts"]] == ["spawn_failed"]
    assert "no-such-program" in out.stdout


@pytest.mark.sweep
def test_work_that_went_with_a_removed_worktree_is_done_again(adw: Adw) -> None:
    text = """
name: lose
phases:
  first: {run: "echo 1 > first.txt; echo first >> $ADW_STATE_ROOT/ran"}
  save: {needs: [first], use: commit}
  second: {needs: [save], run: "echo 2 > second.txt; echo second >> $ADW_STATE_ROOT/ran"}
  test: {needs: [second], run: "test -e $ADW_STATE_ROOT/mended"}
  commit: {needs: [test], use: commit}
"""
    adw.workflow("lose", text).repo.commit("lose")
    adw.run("run", "lose", "135").fails(1)
    view = _view(adw)
    shutil.rmtree(adw.repo.path / "trees" / view["adw_id"])
    (_run_dir(adw, view) / "mended").touch()
    said = adw.run("resume", view["adw_id"]).ok()

    assert "the worktree was gone, and with it what was in no commit: second again" in said.stderr
    assert _ran(adw, view) == ["first", "second", "second"]
    files = adw.repo.git("ls-tree", "--name-only", view["state"]["branch_name"])
    assert {"first.txt", "second.txt"} <= set(files.split())


@pytest.mark.sweep
def test_a_repair_phase_is_no_start_and_no_target(adw: Adw) -> None:
    text = SDLC.replace(
        "  test:\n", "  fix: {run: 'true'}\n  test:\n    repair: {phase: fix, rounds: 1}\n"
    )
    adw.workflow("sdlc", text).repo.commit("repair")
    out = adw.run("run", "sdlc", "135", "--until", "fix").fails(2)
    assert "`fix` runs only when `test` calls it" in out.stderr
    adw.run("run", "sdlc", "135").ok()
    out = adw.run("resume", _view(adw)["adw_id"], "--from", "fix").fails(2)

    assert "`fix` runs only when `test` calls it" in out.stderr
