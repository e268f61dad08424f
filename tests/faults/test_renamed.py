"""F44: what a run works in gets another name while a phase runs, and its own name back later."""

import os
from pathlib import Path

import pytest

from tests.faults.conftest import MakeGround
from tests.support.ground import WAIT, Done, Ground, dead, phase

WHAT = {
    "repository": lambda ground: ground.repo.path,
    "folder of runs": lambda ground: ground.agents,
    "run": lambda ground: ground.run_dir,
    "worktree": lambda ground: ground.repo.path / "trees" / ground.adw_id,
}


def waiting(make_ground: MakeGround) -> Ground:
    return make_ground(
        {
            "one": phase(f"echo x > made.txt; {WAIT}"),
            "two": phase('test -e "$GROUND/well" || exit 9', needs=["one"]),
            "commit": {"use": "commit", "needs": ["two"]},
        },
        config={"ports": "none"},
    )


def below(path: Path) -> set[str]:
    return {str(each.relative_to(path)) for each in path.rglob("*") if ".git" not in each.parts}


@pytest.mark.sweep
@pytest.mark.fault("F44", by="renamed while a phase runs")
@pytest.mark.parametrize("what", WHAT)
@pytest.mark.parametrize("killed", [False, True], ids=["adw lives", "adw is killed"])
def test_P4_P9_what_was_renamed_is_not_made_again_and_the_run_goes_on_under_its_name(
    make_ground: MakeGround, what: str, *, killed: bool
) -> None:
    ground = waiting(make_ground)
    run = ground.start("run", "w", "47")
    body = ground.pid()
    adw_id, path = ground.adw_id, WHAT[what](ground)
    away = path.with_name("away")
    if killed:
        run.kill()
    os.rename(path, away)
    ground.go()
    before = {name for name in os.listdir(path.parent) if not name.startswith(".")}
    done = Done.of(run)
    ground.all_gone()

    assert dead(body)
    assert "Traceback" not in done.stderr, done.told()
    if not killed:
        assert done.exit_code in {1, 2, 4}, done.told()
    assert not path.exists(), done.told()
    assert {name for name in os.listdir(path.parent) if not name.startswith(".")} == before
    if what == "worktree":  # a new one would be made, and the old one is git's no more
        assert killed or ground.entries()[0][3] == "workspace"
    os.rename(away, path)

    (ground.base / "well").touch()
    ground.ok("resume", adw_id)
    won = [entry[0] for entry in ground.entries() if entry[2]]
    assert won[-3:] == ["one", "two", "commit"], ground.entries()
    tried = [entry[:2] for entry in ground.entries() if entry[1]]
    assert len(tried) == len(set(tried)), tried
    assert ground.ok("doctor").stdout.endswith("nothing is wrong\n")
