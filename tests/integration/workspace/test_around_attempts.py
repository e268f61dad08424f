"""Real runs: what is kept around attempts, what is noticed, what a reset undoes."""

import json
from pathlib import Path
from typing import Any

import pytest

from adw.store.history import read_history
from tests.faults.conftest import swept
from tests.support.adw import Adw

HEAD = "schema_version: 1\nname: w\nphases:\n"


def run_of(
    tmp_path: Path, phases: str, scripts: dict[str, str], code: int
) -> tuple[Adw, Path, str]:
    """Run it; where the run and its worktree are, and what it told."""
    adw = Adw(tmp_path, files={"work.txt": "first\n"}).workflow("w", HEAD + phases)
    adw.repo.commit("w", {f"tools/{name}": f"#!/bin/sh\n{text}" for name, text in scripts.items()})
    adw.repo.write({"adw.yaml": "ports: none\n", "task.md": "# T\n\nx\n"})
    told = adw.run("run", "w", "--task", "task.md").fails(code)
    (run_dir,) = (p for p in (adw.repo.path / "agents").iterdir() if not p.name.startswith("."))
    return adw, run_dir, told.raw_stdout + told.raw_stderr


def refs(adw: Adw, run_dir: Path) -> list[str]:
    names = adw.repo.git("for-each-ref", "--format=%(refname)", f"refs/adw/{run_dir.name}/")
    return [name.rpartition("/")[2] for name in names.splitlines()]


def shown(adw: Adw, run_dir: Path, ref: str, path: str) -> str:
    return adw.repo.git("show", f"refs/adw/{run_dir.name}/{ref}:{path}")


def events(run_dir: Path, kind: str) -> list[dict[str, Any]]:
    return [event for event in read_history(str(run_dir)) if event["event"] == kind]


def launch(run_dir: Path, child: str) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(
        (run_dir / "attempts" / child / "attempt.jsonl").read_text().splitlines()[0]
    )
    return line


def tree_of(adw: Adw, run_dir: Path) -> Path:
    return adw.repo.path / "trees" / run_dir.name


@pytest.mark.sweep
def test_case_C9_what_a_failed_phase_left_is_in_the_tree_and_in_a_ref(tmp_path: Path) -> None:
    script = "echo more >>work.txt\necho new >new.txt\nexit 1\n"
    adw, run_dir, _ = run_of(tmp_path, "  build: {run: [tools/b]}\n", {"b": script}, 1)

    assert (tree_of(adw, run_dir) / "new.txt").exists()
    assert refs(adw, run_dir) == ["build-1-after"]
    assert shown(adw, run_dir, "build-1-after", "work.txt") == "first\nmore"
    assert shown(adw, run_dir, "build-1-after", "new.txt") == "new"
    (told,) = events(run_dir, "tree_kept")
    assert (told["ref"], told["left_out"]) == (f"refs/adw/{run_dir.name}/build-1-after", [])
    assert launch(run_dir, "build-1")["kept"] is None
    adw.run("resume", run_dir.name).fails(1)
    assert refs(adw, run_dir) == ["build-1-after", "build-2-after", "build-2-before"]
    assert launch(run_dir, "build-2")["kept"] is not None


def test_nothing_is_kept_of_phases_that_succeed_on_a_clean_tree(tmp_path: Path) -> None:
    phases = "  build: {run: [tools/b]}\n  commit: {use: commit, needs: [build]}\n"
    adw, run_dir, _ = run_of(tmp_path, phases, {"b": "echo x >>work.txt\n"}, 0)

    assert refs(adw, run_dir) == ["commit-1-before"]


HISTORY = {
    "amended": ("git commit -q --amend -m other --allow-empty", "rewrote history"),
    "reset": ("git reset -q --hard HEAD~1", "rewrote history"),
    "detached": ("git checkout -q --detach\ngit commit -q --allow-empty -m x", "detached HEAD"),
    "renamed": ("git branch -q -m other", "is on branch `other`"),
    "git deleted": ("rm .git", "has no valid `.git` file"),
    "led away": (
        "git config extensions.worktreeConfig true\ngit config --worktree core.worktree /tmp",
        "leads git to another directory",
    ),
    "branch deleted": (
        "b=$(git symbolic-ref HEAD)\ngit checkout -q --detach HEAD~1\ngit update-ref -d $b",
        "detached HEAD",
    ),
}


@pytest.mark.parametrize(
    ("name", "code"),
    swept(
        [*((name, 0) for name in HISTORY), ("reset", 1), ("detached", 1)],
        ("amended", 0),
        ("detached", 0),
        ("reset", 1),
    ),
)
def test_a_phase_that_takes_commits_away_is_noticed_and_named(
    tmp_path: Path, name: str, code: int
) -> None:
    command, words = HISTORY[name]
    scripts = {
        "a": "git commit -q --allow-empty -m work\n",
        "b": f"echo new >new.txt\n{command}\nexit {code}\n",
    }
    phases = "  plan: {run: [tools/a]}\n  build: {needs: [plan], run: [tools/b]}\n"
    adw, run_dir, told = run_of(tmp_path, phases, scripts, 1)

    entry = json.loads((run_dir / "adw_state.json").read_text())["phase_history"][-1]
    kept = refs(adw, run_dir)
    assert "build-1-after" in kept
    assert shown(adw, run_dir, "build-1-after", "new.txt") == "new"
    old = launch(run_dir, "build-1")["head"]
    if name in {"amended", "reset", "branch deleted", "renamed"}:
        assert adw.repo.git("rev-parse", f"refs/adw/{run_dir.name}/build-1-head") == old
    if code == 0 or name in {"amended", "reset"}:
        assert entry["reason"] == "workspace"
        assert words in told
    else:
        assert entry["reason"] == "exit"
    assert adw.repo.git("rev-parse", "main") == adw.repo.git("rev-parse", "HEAD")


def test_case_C4_a_tree_without_git_file_starts_nothing(tmp_path: Path) -> None:
    """The main checkout around it is not touched."""
    adw, run_dir, _ = run_of(tmp_path, "  build: {run: [tools/b]}\n", {"b": "exit 1\n"}, 1)
    (tree_of(adw, run_dir) / ".git").unlink()
    before = adw.repo.git("status", "--porcelain"), adw.repo.git("for-each-ref")

    told = adw.run("resume", run_dir.name).fails(4)

    assert "has no valid `.git` file" in told.raw_stderr
    assert not (run_dir / "attempts" / "build-2").exists()
    assert (adw.repo.git("status", "--porcelain"), adw.repo.git("for-each-ref")) == before


FLAKY = """echo junk >>work.txt
echo junk >junk.txt
{more}
n=$(cat "$ADW_STATE_ROOT/n" 2>/dev/null || echo 0)
echo $((n + 1)) >"$ADW_STATE_ROOT/n"
test "$n" -ge 1 && rm junk.txt && git rm -q --cached junk.txt 2>/dev/null
test "$n" -ge 1
"""


@pytest.mark.sweep
@pytest.mark.parametrize("more", ["", "git add -A\ngit commit -q -m half"], ids=["", "committed"])
def test_on_retry_reset_puts_the_tree_back_before_the_next_attempt(
    tmp_path: Path, more: str
) -> None:
    phases = (
        "  plan: {run: [tools/a]}\n"
        "  build: {needs: [plan], run: [tools/b], retry: {attempts: 2}, on_retry: reset}\n"
    )
    scripts = {"a": "echo plan >plan.txt\n", "b": FLAKY.format(more=more)}
    adw, run_dir, _ = run_of(tmp_path, phases, scripts, 0)

    tree = tree_of(adw, run_dir)
    assert (tree / "work.txt").read_text() == "first\njunk\n", "once, not twice"
    assert (tree / "plan.txt").read_text() == "plan\n"
    assert "junk" in shown(
        adw, run_dir, "build-1-after" if not more else "build-1-reset-1", "junk.txt"
    )
    (reset,) = events(run_dir, "tree_reset")
    assert reset["cause"] == "on_retry"
    assert reset["head"] == launch(run_dir, "build-1")["head"]
    assert launch(run_dir, "build-2")["kept"] == launch(run_dir, "build-1")["kept"]
    adw.run("resume", run_dir.name).ok()


def test_a_reset_undoes_no_repair(tmp_path: Path) -> None:
    phases = (
        "  build: {run: [tools/b], on_retry: reset, repair: {phase: fix, rounds: 1}}\n"
        "  fix: {run: [tools/f]}\n"
    )
    scripts = {"b": "test -e fixed.txt\n", "f": "echo x >fixed.txt\n"}
    adw, run_dir, _ = run_of(tmp_path, phases, scripts, 0)

    assert (tree_of(adw, run_dir) / "fixed.txt").exists()
    assert events(run_dir, "tree_reset") == []


@pytest.mark.sweep
def test_a_persons_changes_are_kept_when_a_reset_takes_them_back(tmp_path: Path) -> None:
    phases = "  build: {run: [tools/b], on_retry: reset}\n"
    adw, run_dir, _ = run_of(tmp_path, phases, {"b": "echo x >x.txt\nexit 1\n"}, 1)
    (tree_of(adw, run_dir) / "mine.txt").write_text("mine\n")

    adw.run("resume", run_dir.name).fails(1)

    assert shown(adw, run_dir, "build-1-reset-1", "mine.txt") == "mine"
    assert not (tree_of(adw, run_dir) / "mine.txt").exists()
    (told,) = [e for e in events(run_dir, "tree_kept") if "reset" in e["ref"]]
    assert told["child_id"] == "build-2"


@pytest.mark.sweep
def test_a_branch_that_a_person_moved_is_not_reset(tmp_path: Path) -> None:
    phases = "  build: {run: [tools/b], on_retry: reset}\n"
    adw, run_dir, _ = run_of(tmp_path, phases, {"b": "test -e mine.txt\n"}, 1)
    tree = tree_of(adw, run_dir)
    (tree / "mine.txt").write_text("mine\n")
    adw.repo.git("-C", str(tree), "add", "mine.txt")
    adw.repo.git("-C", str(tree), "commit", "--quiet", "-m", "mended")

    adw.run("resume", run_dir.name).ok()

    assert events(run_dir, "tree_reset") == []
    (told,) = events(run_dir, "warning")
    assert told["detail"] == "the worktree is not reset: its branch has moved since build-1"


def test_a_lock_file_that_an_ended_git_left_does_not_stop_the_next_attempt(
    tmp_path: Path,
) -> None:
    script = """lock=$(git rev-parse --git-dir)/index.lock
test "$ADW_ATTEMPT" = 1 && touch "$lock" && exit 1
git commit -q --allow-empty -m x
"""
    phases = "  build: {run: [tools/b], retry: {attempts: 2}}\n"
    _, run_dir, _ = run_of(tmp_path, phases, {"b": script}, 0)

    (told,) = events(run_dir, "warning")
    assert "index.lock` was removed: a git of build-1 that was ended had left it" in told["detail"]
