"""`git clean -fdx` in the main checkout removes the folder of runs; a copy brings them back."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.ground import Ground, phase
from tests.support.wait import until

READ_PLAN = 'python3 -c \'import json,os; print(open(json.loads(os.environ["ADW_INPUTS"])["plan"]).read())\''
PHASES = {
    "plan": phase(
        'mkdir -p specs; echo "$ADW_CHILD" > specs/p.md',
        outputs={"plan": {"path": "specs/p.md", "description": "The plan"}},
    ),
    "save": {"use": "commit", "needs": ["plan"]},
    "build": phase(
        f'{READ_PLAN} > made.txt; [ -e "$GROUND/well" ] || exit 3', needs=["save"], inputs=["plan"]
    ),
    "commit": {"use": "commit", "needs": ["build"]},
}


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    made = Ground(tmp_path / "g", PHASES)
    yield made
    made.end()


def clean(ground: Ground, option: str = "-fdx") -> None:
    ground.repo.git("clean", option)
    assert not ground.agents.exists()


def finish(ground: Ground, adw_id: str) -> None:
    (ground.base / "well").touch()
    ground.ok("resume", adw_id)
    assert ground.ran("plan") == ["plan-1"], "what is committed is not repeated"
    assert ground.commits() == 2
    state = json.loads((ground.run_dir / "adw_state.json").read_text())
    assert ground.repo.git("show", f"{state['branch_name']}:made.txt") == "plan-1"


def test_the_run_is_brought_back_and_repeats_only_what_was_not_done(ground: Ground) -> None:
    assert ground.adw("run", "w", "47").exit_code == 1
    adw_id, before = ground.adw_id, ground.entries()
    state = (ground.run_dir / "adw_state.json").read_bytes()
    clean(ground)
    told = ground.ok("doctor").stdout
    said = ground.ok("doctor", "--restore", adw_id)

    assert "the directory of this run is gone; a copy of its state is there" in told
    assert f"  hint: adw doctor --restore {adw_id}\n" in told
    assert "a worktree without its run" not in told
    assert said.stdout == (
        f"brought back run {adw_id} with 3 entries\n"
        "  lost: logs and packets of 3 attempts\n"
        f"  next: adw resume {adw_id}\n"
    )
    assert (ground.entries(), ground.status(adw_id)["status"]) == (before, "failed")
    assert (ground.run_dir / "adw_state.json").read_bytes() == state
    assert (ground.run_dir / "artifacts/plan/plan-1/p.md").read_text() == "plan-1\n"
    assert ground.ok("doctor").stdout.endswith("\n\nnothing is wrong\n")
    finish(ground, adw_id)


@pytest.mark.sweep
def test_a_run_that_was_over_has_nothing_to_go_on_with(ground: Ground) -> None:
    (ground.base / "well").touch()
    ground.ok("run", "w", "47")
    before = ground.status(ground.adw_id)["next_action"]
    clean(ground)

    said = ground.ok("doctor", "--restore", "--all").stdout

    assert before.startswith("git log -p ")
    assert said.endswith(f"\n  next: {before}\n")


@pytest.mark.sweep
def test_a_worktree_that_went_too_is_made_again_on_its_branch(ground: Ground) -> None:
    assert ground.adw("run", "w", "47").exit_code == 1
    adw_id = ground.adw_id
    clean(ground, "-ffdx")
    assert not (ground.repo.path / "trees").exists()
    said = ground.ok("doctor", "--restore", "--all").stdout

    assert "  lost: the copy of output `plan` of plan-1: `specs/p.md`\n" in said
    finish(ground, adw_id)


@pytest.mark.fault("F44", by="removed while a phase runs")
@pytest.mark.sweep
def test_case_F44_a_run_whose_directory_went_under_it_stops_and_is_not_brought_back_twice(
    tmp_path: Path,
) -> None:
    wait = 'echo $$ > "$GROUND/body"; while [ ! -e "$GROUND/go" ]; do sleep 0.02; done'
    ground = Ground(tmp_path / "g", {"a": phase(wait), "b": phase("true", needs=["a"])})
    try:
        process = ground.start("run", "w", "47")
        body = ground.pid()
        adw_id = ground.adw_id
        clean(ground)
        refused = ground.adw("doctor", "--restore", adw_id)
        assert refused.exit_code == 5
        assert f"error: run `{adw_id}` is in use by process " in refused.stderr

        ground.go()
        assert process.wait(20) == 4
        until(lambda: not ground.processes(), what="end of what the run started")
        assert not (ground.agents / adw_id).exists(), "nothing is made again elsewhere"
        assert not os.path.exists(f"/proc/{body}")
        ground.ok("doctor", "--restore", adw_id)
        ground.ok("resume", adw_id)
        assert ground.ran("a") == ["a-1", "a-1"], "its end was never recorded"
    finally:
        ground.end()


@pytest.mark.sweep
def test_what_was_done_outside_is_not_done_again(tmp_path: Path) -> None:
    act = "adw effect comment -- sh -c 'echo said >> \"$GROUND/outside\"; echo 1234' > told.txt"
    ground = Ground(
        tmp_path / "g",
        {
            "ask": phase(f'{act}; [ -e "$GROUND/well" ] || exit 3'),
            "commit": {"use": "commit", "needs": ["ask"]},
        },
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    try:
        assert ground.adw("run", "w", "47").exit_code == 1
        adw_id = ground.adw_id
        clean(ground, "-ffdx")
        ground.ok("doctor", "--restore", adw_id)
        (ground.base / "well").touch()
        ground.ok("resume", adw_id)

        assert ground.ran("ask") == ["ask-1", "ask-2"]
        assert (ground.base / "outside").read_text() == "said\n"
        state = json.loads((ground.run_dir / "adw_state.json").read_text())
        assert ground.repo.git("show", f"{state['branch_name']}:told.txt") == "1234"
    finally:
        ground.end()


def test_a_copy_that_could_not_be_written_is_told(ground: Ground) -> None:
    (ground.base / "well").touch()
    in_the_way = ground.repo.path / ".git" / "adw" / "cc73faf1" / "attempts.jsonl"
    in_the_way.mkdir(parents=True)
    done = ground.ok("run", "w", "47", "--adw-id", "cc73faf1")
    told = "what guards this run against `git clean` is not whole: "
    assert told in done.stderr, done.told()
    assert [told in event["detail"] for event in ground.events("warning")] == [True]
