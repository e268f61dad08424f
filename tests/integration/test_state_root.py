"""The state root from the first moment on: who finds what there, and what is left elsewhere."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.ground import Ground, phase

READ: Final = 'cp "$ADW_TASK" "$GROUND/read-$ADW_CHILD"'
"""Shell text: the child's first act is to read its own task."""
ROOT: Final = (
    "TASK.md",
    "RESPONSE.md",
    "adw_state.json",
    "run.json",
    "state/task_history.jsonl",
    "artifacts/manifest.json",
    "children",
    "attempts",
)
"""What stands in the root before anything of the run has started."""


def _reported(name: str) -> str:
    """Shell text that waits until the run's RESPONSE.md says that phase `name` runs."""
    wanted = f"phase \\`{name}\\` is running"
    return f'until grep -q "{wanted}" "$ADW_STATE_ROOT/RESPONSE.md"; do sleep 0.02; done'


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    seen = " && ".join(f'test -e "$ADW_STATE_ROOT/{name}"' for name in ROOT)
    phases = {
        "plan": phase(f"{READ}; {seen}; mkdir specs; echo plan > specs/plan.md", timeout=20),
        "build": phase(f"{READ}; {_reported('build')}; echo x > x", needs=["plan"], timeout=20),
        "test": phase(f"{READ}; {_reported('test')}", needs=["build"], timeout=20),
    }
    made = Ground(tmp_path / "g", phases, config={"ports": "none"})
    yield made
    made.end()


def _outside(ground: Ground) -> set[str]:
    """All files but those of git, of the run and of its worktree."""
    mine = {".git", "agents", "trees"}
    root = ground.repo.path
    found = {
        os.path.relpath(path, root)
        for path in root.rglob("*")
        if path.relative_to(root).parts[0] not in mine
    }
    host = {"host", "counts", "repo"}
    return found | {path.name for path in ground.base.iterdir() if path.name not in host}


def test_FS_1_FS_3_all_of_a_run_is_below_its_root_which_is_whole_before_the_first_phase(
    ground: Ground,
) -> None:
    before = _outside(ground)
    ground.ok("run", "w", "47")
    read = {f"read-{name}-1" for name in ("plan", "build", "test")}

    assert _outside(ground) == before | read
    assert ground.repo.git("status", "--porcelain") == ""
    tree = ground.repo.path / "trees" / ground.adw_id
    made = {"specs", "specs/plan.md", "x"}
    assert set(_untracked(ground, tree)) == {name for name in made if (tree / name).is_file()}
    # What each phase saw of RESPONSE.md is in the phases; this is the end of it.
    said = (ground.run_dir / "RESPONSE.md").read_text(encoding="utf-8")
    assert said.startswith(f"# Run {ground.adw_id}: succeeded\n")


def _untracked(ground: Ground, tree: Path) -> list[str]:
    told = ground.repo.git("-C", str(tree), "status", "--porcelain", "--untracked-files=all")
    return [line[3:] for line in told.splitlines()]


def test_FS_3_a_run_that_is_killed_as_soon_as_it_exists_has_its_response(ground: Ground) -> None:
    ground.adw("run", "w", "47", ADW_FAILPOINT="create.after_rename")

    missing = [name for name in ROOT if not (ground.run_dir / name).exists()]
    assert missing == []
    said = (ground.run_dir / "RESPONSE.md").read_text(encoding="utf-8")
    assert f"adw resume {ground.adw_id}" in said


@pytest.mark.sweep
@pytest.mark.parametrize("point", ["packet.written:2", "packet.handed_over:2", "go.before:2"])
def test_FS_4_a_child_always_reads_its_own_task_whole(ground: Ground, point: str) -> None:
    """Also where the parent is killed between the writing of the packet and the launch."""
    assert ground.adw("run", "w", "47", ADW_FAILPOINT=point).exit_code == -9
    ground.ok("resume", ground.adw_id)

    read = {path.name.removeprefix("read-"): path for path in ground.base.glob("read-*")}
    launched = {event["child_id"] for event in ground.events("child_launched", "child_adopted")}
    assert set(read) == launched
    for child, path in read.items():
        task = (ground.run_dir / "children" / child / "TASK.md").read_bytes()
        assert path.read_bytes() == task
        assert task.endswith(b"\n")


def test_FS_6_no_child_is_handed_the_task_of_the_run(ground: Ground) -> None:
    ground.ok("run", "w", "47")

    whole = (ground.run_dir / "TASK.md").read_text(encoding="utf-8")
    own = [
        (ground.base / f"read-{name}-1").read_text("utf-8") for name in ("plan", "build", "test")
    ]
    assert len({whole, *own}) == 4
    for name, text in zip(("plan", "build", "test"), own, strict=True):
        assert text.startswith(f"# Phase {name}, {name}-1\n")
