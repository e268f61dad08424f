"""`setup` of adw.yaml: a first phase that all others wait for, in every workflow."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, phase

PHASES = {
    "plan": phase("cat made-by-setup"),
    "build": phase("echo b >built; test -e made-by-setup", needs=["plan"]),
}
SETUP = 'echo "$ADW_CHILD" >>"$GROUND/counts/setup"; echo made >made-by-setup'


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    config = {"setup": SETUP, "ports": "none", "copy": []}
    found = Ground(tmp_path, PHASES, config=config)
    found.repo.commit("ignore", {".gitignore": "made-by-setup\n"})
    yield found
    found.end()


def done(ground: Ground) -> list[str]:
    return [phase for phase, attempt, success, _ in ground.entries() if attempt and success]


@pytest.mark.sweep
def test_it_runs_first_is_named_like_any_phase_and_stays_done(ground: Ground) -> None:
    ground.ok("run", "w", "47")

    assert done(ground) == ["setup", "plan", "build"]
    phases = ground.status(ground.adw_id)["phases"]
    assert (phases[0]["phase"], phases[0]["status"]) == ("setup", "done")
    assert "setup" in ground.ok("graph", "w").stdout
    assert ground.ran("setup") == ["setup-1"]

    ground.ok("resume", ground.adw_id)
    assert ground.ran("setup") == ["setup-1"]


@pytest.mark.sweep
def test_one_phase_alone_is_prepared_for_too(ground: Ground) -> None:
    ground.ok("run", "w", "47", "--only", "plan")
    assert done(ground) == ["setup", "plan"]

    ground.ok("run", "w", "47", "--only", "plan", "--adw-id", ground.adw_id)
    assert done(ground) == ["setup", "plan", "plan"]


@pytest.mark.sweep
def test_a_setup_that_failed_is_tried_again_by_resume_and_nothing_ran_before(
    ground: Ground,
) -> None:
    ground.repo.write({"adw.yaml": json.dumps(config_of(ground, "test -e $GROUND/go; " + SETUP))})
    assert ground.adw("run", "w", "47").exit_code == 1
    assert done(ground) == []
    (ground.base / "go").touch()

    ground.ok("resume", ground.adw_id)

    assert done(ground) == ["setup", "plan", "build"]


@pytest.mark.sweep
def test_another_command_is_run_and_keeps_what_is_done(ground: Ground) -> None:
    ground.ok("run", "w", "47")
    ground.repo.write({"adw.yaml": json.dumps(config_of(ground, "echo more; " + SETUP))})

    said = ground.ok("resume", ground.adw_id, "--accept-changed")

    assert "starts again, since its definition changed: setup" in said.stderr
    assert done(ground) == ["setup", "plan", "build", "setup"]


@pytest.mark.sweep
def test_in_a_worktree_made_again_it_runs_again_and_what_is_committed_stays(ground: Ground) -> None:
    ground.repo.write({"workflows/w.yaml": json.dumps(workflow_with_a_commit())})
    ground.ok("run", "w", "47", "--until", "build")
    shutil.rmtree(ground.repo.path / "trees" / ground.adw_id)

    ground.ok("run", "w", "47", "--adw-id", ground.adw_id)

    assert done(ground) == ["setup", "plan", "build", "setup", "look"]


def config_of(ground: Ground, setup: str) -> dict[str, object]:
    config = json.loads((ground.repo.path / "adw.yaml").read_text())
    return {**config, "setup": setup}


def workflow_with_a_commit() -> dict[str, object]:
    build = "echo b >built; git add built; git commit -q -m built"
    phases = {
        "plan": phase("cat made-by-setup", writes=False),
        "build": phase(build, needs=["plan"]),
        "look": phase("cat made-by-setup built", needs=["build"], writes=False),
    }
    return {"schema_version": 1, "name": "w", "phases": phases}


def test_a_workflow_with_a_phase_of_that_name_is_refused_where_it_stands(ground: Ground) -> None:
    own = {"schema_version": 1, "name": "w", "phases": {"setup": phase("true")}}
    ground.repo.write({"workflows/w.yaml": json.dumps(own, indent=1)})

    for command in (["run", "w", "47"], ["validate", "workflows/w.yaml"], ["graph", "w"]):
        said = ground.adw(*command)
        assert said.exit_code == 2
        assert "`setup` is the phase that `setup` in adw.yaml makes" in said.stderr
        assert "w.yaml:5:3" in said.stderr
        assert "hint: give this one another name" in said.stderr
    assert not ground.agents.exists()
