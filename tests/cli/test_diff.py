"""`adw diff`: what attempts and runs changed, untracked files included."""

import subprocess
from pathlib import Path

import pytest

from tests.support.adw import Adw

WORKFLOW = """schema_version: 1
name: w
phases:
  plan: {run: [tools/plan]}
  build: {needs: [plan], run: [tools/build], retry: {attempts: 2}}
  commit: {needs: [build], use: commit}
"""
TOOLS = {
    "tools/plan": "#!/bin/sh\necho plan >plan.txt\n",
    "tools/build": '#!/bin/sh\necho "$ADW_ATTEMPT" >>work.txt\ntest "$ADW_ATTEMPT" = 2\n',
}
PLAN = """
diff --git a/plan.txt b/plan.txt
new file mode 100644
index 0000000..<hash>
--- /dev/null
+++ b/plan.txt
@@ -0,0 +1 @@
+plan
"""


@pytest.fixture(scope="module")
def adw(tmp_path_factory: pytest.TempPathFactory) -> Adw:
    """A run whose `build` failed once; each test leaves it as it was."""
    adw = Adw(tmp_path_factory.mktemp("diff"), files=TOOLS).workflow("w", WORKFLOW)
    adw.repo.write({"work.txt": "0\n", "adw.yaml": "ports: none\n"})
    adw.issue(47, "Add it").repo.commit()
    adw.run("run", "w", "47").ok()
    return adw


def changed(adw: Adw, *args: str) -> str:
    out = adw.run("diff", "@47", *args).ok().raw_stdout
    return "\n".join(line for line in out.splitlines() if line[:1] in "+-" and line[:2] != "++")


@pytest.mark.sweep
def test_each_attempt_has_its_own_difference(adw: Adw) -> None:
    out = adw.run("diff", "@47", "plan").ok().stdout
    assert [line for line in out.splitlines() if "index" not in line] == [
        line for line in PLAN.strip().splitlines() if "index" not in line
    ]
    assert changed(adw, "build-1") == "--- a/work.txt\n+1"
    assert changed(adw, "build-2") == changed(adw, "build") == "--- a/work.txt\n+2"
    assert changed(adw, "commit") == "", "content is as it was, HEAD counts for nothing"
    assert changed(adw) == "--- /dev/null\n+plan\n--- a/work.txt\n+1\n+2"


def test_what_lies_in_the_worktree_now_counts_for_the_last_attempt(adw: Adw) -> None:
    (tree,) = (adw.repo.path / "trees").iterdir()
    (tree / "mine").write_text("mine\n")
    before = adw.repo.git("count-objects"), adw.repo.git("for-each-ref")

    assert changed(adw, "commit") == "--- /dev/null\n+mine"
    adw.run("diff", "@47", "commit", "--stat").stdout(
        " mine | 1 +\n 1 file changed, 1 insertion(+)\n"
    ).ok()
    (tree / "mine").unlink()
    assert (adw.repo.git("count-objects"), adw.repo.git("for-each-ref")) == before


def test_it_can_be_applied(adw: Adw) -> None:
    patch = adw.run("diff", "@47").ok().raw_stdout

    subprocess.run(["git", "apply"], cwd=adw.repo.path, input=patch, text=True, check=True)

    assert (adw.repo.path / "work.txt").read_text() == "0\n1\n2\n"
    adw.repo.git("checkout", "--quiet", "work.txt")
    (adw.repo.path / "plan.txt").unlink()


def test_json_names_the_trees_and_the_files(adw: Adw) -> None:
    found = adw.run("diff", "@47", "build-1", "--json").ok().json()

    assert found["schema_version"] == 1
    assert (found["phase"], found["attempt"]) == ("build", 1)
    assert found["files"] == [{"path": "work.txt", "status": "M"}]
    names = adw.repo.git("for-each-ref", "--format=%(refname:lstrip=3) %(objectname)", "refs/adw/")
    refs = dict(line.split() for line in names.splitlines())
    assert found["from"] == refs["build-1-before"]
    assert found["to"] == refs["build-1-after"]


def test_a_worktree_that_is_gone_is_told_by_its_branch(adw: Adw) -> None:
    (tree,) = (adw.repo.path / "trees").iterdir()
    tree.rename(adw.repo.path / "away")

    assert changed(adw) == "--- /dev/null\n+plan\n--- a/work.txt\n+1\n+2"
    (adw.repo.path / "away").rename(tree)


def test_an_unknown_attempt_is_refused(adw: Adw) -> None:
    adw.run("diff", "@47", "biuld").stderr(
        "error: unknown attempt `biuld`\n  hint: did you mean `build`?\n"
    ).fails(2)
    adw.run("diff", "@47", "build-3").fails(2)


def test_a_program_that_the_repository_names_is_not_run(adw: Adw, tmp_path: Path) -> None:
    (tree,) = (adw.repo.path / "trees").iterdir()
    (tree / ".gitattributes").write_text("*.txt diff=evil\n")
    (tree / "work.txt").write_text("new\n")
    for name in ("textconv", "command"):
        adw.repo.git("config", f"diff.evil.{name}", f"touch {tmp_path}/ran; cat")

    adw.run("diff", "@47").ok()

    assert not (tmp_path / "ran").exists()
    (tree / ".gitattributes").unlink()
    adw.repo.git("-C", str(tree), "checkout", "--quiet", "work.txt")


@pytest.mark.sweep
def test_a_phase_that_only_reads_changed_nothing(tmp_path: Path) -> None:
    adw = Adw(tmp_path, files=TOOLS).workflow(
        "w",
        "schema_version: 1\nname: w\nphases:\n"
        "  plan: {run: [tools/plan]}\n"
        '  check: {needs: [plan], writes: false, run: "true"}\n'
        "  commit: {needs: [check], use: commit}\n",
    )
    adw.repo.write({"adw.yaml": "ports: none\n"})
    adw.issue(47, "Add it").repo.commit()
    adw.run("run", "w", "47").ok()

    adw.run("diff", "@47", "check").stdout("").stderr(
        "`check` has `writes: false`: it is taken to have changed nothing\n"
    ).ok()
    assert adw.run("diff", "@47", "check", "--json").ok().json()["files"] == []
