"""Parts of a workflow whose phases hand files on: refused where an input would be missing."""

import json
from pathlib import Path

import pytest

from adw.store import runs
from tests.support.adw import Adw

CHAIN = """
name: chain
phases:
  plan:
    run: echo "do it" >plan.md
    outputs: {plan: {path: plan.md, state: plan_file}}
  build:
    needs: [plan]
    inputs: [plan]
    run: ["{python}", -c, "import sys; print(open(sys.argv[1]).read())", "{inputs.plan}"]
  test:
    needs: [build]
    inputs: [plan]
    run: [test, -s, "{inputs.plan}"]
    writes: false
"""


@pytest.fixture
def adw(tmp_path: Path) -> Adw:
    found = Adw(tmp_path).workflow("chain", CHAIN).issue(47, "Do it")
    found.repo.commit("workflow")
    return found


def ids(adw: Adw) -> list[str]:
    agents = adw.repo.path / "agents"
    return runs.list_ids(str(agents)) if agents.is_dir() else []


def test_one_phase_alone_is_refused_before_anything_is_made_and_the_hint_works(adw: Adw) -> None:
    adw.run("run", "chain", "47", "--only", "build").stderr("""
error: `build` reads the output `plan` of `plan`, which the run does not have
  hint: adw run chain 47 --until build
""").fails(2)
    assert ids(adw) == []
    assert adw.repo.git("branch", "--format=%(refname:short)") == "main"
    assert not (adw.repo.path / "trees").exists()

    adw.run("run", "chain", "47", "--until", "build").ok()

    (adw_id,) = ids(adw)
    state = json.loads((adw.repo.path / "agents" / adw_id / "adw_state.json").read_bytes())
    assert state["plan_file"] == "plan.md"


def test_a_run_that_has_the_input_goes_on_with_one_phase_alone(adw: Adw) -> None:
    adw.run("run", "chain", "47", "--only", "plan").ok()
    (adw_id,) = ids(adw)

    adw.run("run", "chain", "47", "--adw-id", adw_id, "--only", "build").ok()


@pytest.mark.sweep
def test_a_run_that_lacks_it_is_left_as_it_was(adw: Adw) -> None:
    adw.workflow("other", "name: other\nphases: {look: {run: [ls], writes: false}}")
    adw.run("run", "other", "47").ok()
    (adw_id,) = ids(adw)
    run_dir = adw.repo.path / "agents" / adw_id
    before = (run_dir / "adw_state.json").read_bytes(), sorted((run_dir / "definitions").iterdir())

    adw.run("run", "chain", "47", "--adw-id", adw_id, "--only", "test").stderr("""
error: `test` reads the output `plan` of `plan`, which the run does not have
  hint: adw run chain 47 --adw-id <id> --until test
""").fails(2)

    now = (run_dir / "adw_state.json").read_bytes(), sorted((run_dir / "definitions").iterdir())
    assert now == before
    adw.run("run", "chain", "47", "--adw-id", adw_id, "--until", "test").ok()


@pytest.mark.sweep
def test_changed_files_that_ask_for_an_input_are_not_accepted_for_one_phase_alone(
    adw: Adw,
) -> None:
    reading = 'inputs: [plan]\n    run: [test, -s, "{inputs.plan}"]'
    assert reading in CHAIN
    adw.workflow("chain", CHAIN.replace(reading, 'run: ["false"]'))
    adw.run("run", "chain", "47", "--only", "test").fails(1)
    (adw_id,) = ids(adw)
    adw.workflow("chain", CHAIN)

    adw.run("resume", adw_id, "--accept-changed").stderr("""
error: `test` reads the output `plan` of `plan`, which the run does not have
  hint: adw run chain 47 --adw-id <id> --until test
""").fails(2)

    adw.run("run", "chain", "47", "--adw-id", adw_id, "--until", "test").ok()


SKILLED = """
name: skilled
phases:
  review:
    skill: skills/reviewer.md
    run: cat "$(dirname "$ADW_TASK")/SKILL.md"; test -e "$ADW_STATE_ROOT/enough"
"""


@pytest.mark.sweep
def test_a_skill_is_what_the_run_pinned_until_the_changed_one_is_accepted(adw: Adw) -> None:
    skill = {"workflows/skills/reviewer.md": "You review.\n"}
    adw.workflow("skilled", SKILLED).repo.commit("skill", skill)
    adw.run("run", "skilled", "47").fails(1)
    (adw_id,) = ids(adw)
    children = adw.repo.path / "agents" / adw_id / "children"
    assert (children / "review-1" / "SKILL.md").read_text() == "You review.\n"
    adw.repo.write({"workflows/skills/reviewer.md": "You doubt.\n"})

    adw.run("resume", adw_id).stderr(
        "`skills/reviewer.md` changed since the run pinned it; the pinned one is used"
        " (`--accept-changed` goes over to the new one)\n"
    ).fails(1)
    assert (children / "review-2" / "SKILL.md").read_text() == "You review.\n"

    (adw.repo.path / "workflows/skills/reviewer.md").unlink()
    adw.run("resume", adw_id).stderr(
        "`skills/reviewer.md` is gone since the run pinned it; the pinned one is used\n"
    ).fails(1)

    adw.repo.write({"workflows/skills/reviewer.md": "You doubt.\n"})
    (adw.repo.path / "agents" / adw_id / "enough").touch()
    adw.run("resume", adw_id, "--accept-changed").ok()
    assert (children / "review-4" / "SKILL.md").read_text() == "You doubt.\n"
