"""`adw rewind`: tree and branch as they were before an attempt, and nothing lost."""

import os
from pathlib import Path

import pytest

from adw.store.history import read_history
from adw.store.runs import open_run
from tests.support.adw import Adw

WORKFLOW = """schema_version: 1
name: w
phases:
  plan: {run: [tools/plan]}
  build: {needs: [plan], run: [tools/build]}
  commit: {needs: [build], use: commit}
"""
TOOLS = {
    "tools/plan": "#!/bin/sh\necho plan >plan.txt\n",
    "tools/build": "#!/bin/sh\necho build >>work.txt\n",
}


def run_in(base: Path) -> Adw:
    """A run that succeeded."""
    adw = Adw(base, files=TOOLS).workflow("w", WORKFLOW)
    adw.repo.write({"work.txt": "0\n", "adw.yaml": "ports: none\n", ".gitignore": "*.log\n"})
    adw.issue(47, "Add it").repo.commit()
    adw.run("run", "w", "47").ok()
    return adw


@pytest.fixture
def adw(tmp_path: Path) -> Adw:
    return run_in(tmp_path)


@pytest.fixture(scope="module")
def standing(tmp_path_factory: pytest.TempPathFactory) -> Adw:
    """For what is refused, and so changes nothing."""
    return run_in(tmp_path_factory.mktemp("standing"))


def tree(adw: Adw) -> Path:
    (found,) = (adw.repo.path / "trees").iterdir()
    return found


def run_dir(adw: Adw) -> Path:
    return adw.repo.path / "agents" / tree(adw).name


def refs(adw: Adw) -> dict[str, str]:
    names = adw.repo.git("for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/adw/")
    return dict(line.split() for line in names.splitlines())


@pytest.mark.sweep
def test_tree_and_branch_go_back_and_the_phase_starts_again(adw: Adw) -> None:
    (tree(adw) / "mine").write_text("mine\n")
    (tree(adw) / "x.log").write_text("ignored\n")
    committed = adw.repo.git("-C", str(tree(adw)), "rev-parse", "HEAD")
    others = adw.repo.git("for-each-ref", "refs/heads/main"), adw.repo.git("status", "--porcelain")

    adw.run("rewind", "@47", "build").stdout("""
the worktree of run <id> is as it was before build-1
  what was there: refs/adw/<id>/rewind-1
  next: adw resume <id>
""").stderr("").ok()

    assert sorted(os.listdir(tree(adw))) == sorted(
        [".git", ".gitignore", "adw.yaml", "issues", "plan.txt", "tools", "work.txt", "workflows",
         "x.log"]
    )  # fmt: skip
    assert (tree(adw) / "work.txt").read_text() == "0\n"
    assert adw.repo.git("-C", str(tree(adw)), "rev-parse", "HEAD") == adw.repo.head()
    assert adw.repo.git("-C", str(tree(adw)), "status", "--porcelain") == "?? plan.txt"
    kept = refs(adw)["rewind-1"]
    assert adw.repo.git("rev-parse", f"{kept}^") == committed
    assert adw.repo.git("show", f"{kept}:mine") == "mine"
    assert (
        adw.repo.git("for-each-ref", "refs/heads/main"),
        adw.repo.git("status", "--porcelain"),
    ) == others
    status = adw.run("status", "@47", "--json").ok().json()
    assert {p["phase"]: p["status"] for p in status["phases"]} == {
        "plan": "done", "build": "pending", "commit": "pending",
    }  # fmt: skip
    assert (status["status"], status["reason"]) == ("interrupted", "rewound by a person")

    adw.run("resume", "@47").ok()

    assert (tree(adw) / "work.txt").read_text() == "0\nbuild\n"
    assert adw.repo.git("-C", str(tree(adw)), "rev-list", "--count", "main..HEAD") == "1"
    assert [p.name for p in (run_dir(adw) / "attempts").iterdir() if p.name[:4] == "plan"] == [
        "plan-1"
    ]


@pytest.mark.sweep
def test_rewound_twice_it_keeps_both_and_diff_still_tells_what_attempts_left(adw: Adw) -> None:
    before = {name: adw.run("diff", "@47", name).ok().raw_stdout for name in ("plan", "build")}
    adw.run("rewind", "@47", "build-1").ok()
    (tree(adw) / "more").write_text("more\n")
    adw.run("rewind", "@47", "plan").ok()

    assert adw.repo.git("show", f"{refs(adw)['rewind-2']}:more") == "more"
    assert not (tree(adw) / "plan.txt").exists()
    resets = [e for e in read_history(str(run_dir(adw))) if e["event"] == "tree_reset"]
    assert [(e["child_id"], e["cause"]) for e in resets] == [
        ("build-1", "rewind"), ("plan-1", "rewind"),
    ]  # fmt: skip
    assert {name: adw.run("diff", "@47", name).ok().raw_stdout for name in before} == before
    adw.run("resume", "@47").ok()


def test_a_run_that_is_held_is_refused(standing: Adw) -> None:
    lock = open_run(str(run_dir(standing)))
    try:
        standing.run("rewind", "@47", "build").fails(5)
    finally:
        lock.close()
    assert "rewind-1" not in refs(standing)


def test_another_branch_is_not_moved(standing: Adw) -> None:
    standing.repo.git("-C", str(tree(standing)), "switch", "--quiet", "-c", "mine")
    before = (
        standing.repo.git("for-each-ref", "refs/heads"),
        (run_dir(standing) / "adw_state.json").read_text(),
    )

    told = standing.run("rewind", "@47", "build").fails(4)

    standing.repo.git("-C", str(tree(standing)), "switch", "--quiet", "-")
    assert "is on branch `mine`" in told.raw_stderr
    assert (
        standing.repo.git("for-each-ref", "refs/heads"),
        (run_dir(standing) / "adw_state.json").read_text(),
    ) == before
    standing.repo.git("branch", "-D", "mine")


def test_an_unknown_attempt_is_refused(standing: Adw) -> None:
    standing.run("rewind", "@47", "build-9").stderr(
        "error: unknown attempt `build-9`\n  hint: did you mean `build-1`?\n"
    ).fails(2)


@pytest.mark.sweep
def test_from_inside_a_phase_it_is_refused(standing: Adw) -> None:
    name = run_dir(standing).name
    inside = Adw(standing.base, _repo=standing.repo)
    inside.env(ADW_ID=name, ADW_CHILD="x-1", ADW_PHASE="x").run("rewind", name, "build").fails(2)


LOOKED_AT = """schema_version: 1
name: looked_at
phases:
  look: {writes: false, run: "true"}
  build: {needs: [look], run: [tools/build]}
  check: {needs: [build], writes: false, run: "true"}
  more: {needs: [check], run: [tools/plan]}
  again: {needs: [more], writes: false, run: test -e ../../go}
"""


@pytest.fixture
def looked_at(adw: Adw) -> Adw:
    """A run whose phases that only read saw work that is in no commit."""
    adw.workflow("looked_at", LOOKED_AT)
    adw.run("run", "looked_at", "--task", "issues/47.md", "--adw-id", "0123abcd").fails(1)
    return adw


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("attempt", "work", "plan"),
    [("again", "0\nbuild\n", True), ("check", "0\nbuild\n", False), ("look", "0\n", False)],
)
def test_a_phase_that_only_reads_finds_what_those_before_it_left(
    looked_at: Adw, attempt: str, work: str, plan: bool
) -> None:
    looked_at.run("rewind", "0123abcd", attempt).ok()

    there = looked_at.repo.path / "trees" / "0123abcd"
    assert (there / "work.txt").read_text() == work
    assert (there / "plan.txt").exists() is plan
    (looked_at.repo.path / "go").touch()
    looked_at.run("resume", "0123abcd").ok()
    assert (there / "work.txt").read_text() == "0\nbuild\n"
    assert (there / "plan.txt").exists()


@pytest.mark.sweep
def test_before_a_phase_that_only_reads_after_an_earlier_rewind(looked_at: Adw) -> None:
    looked_at.run("rewind", "0123abcd", "build").ok()
    looked_at.run("rewind", "0123abcd", "check").ok()

    there = looked_at.repo.path / "trees" / "0123abcd"
    assert (there / "work.txt").read_text() == "0\nbuild\n"
    assert not (there / "plan.txt").exists()
