"""`adw demo`, played once for real: from another folder, offline, without any git identity."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adw.app.demo import Outcome
from tests.docs.loosely import missing
from tests.docs.pages import ROOT
from tests.support.adw import command

CHAPTERS = [
    "1. A small repository with a bug",
    "2. A run, and SIGKILL in the middle of it",
    "3. What is left",
    "4. Resume",
    "5. What came of it",
]


def play(cwd: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command("demo", *args),
        cwd=cwd,
        env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "ADW_AGENTS_DIR": str(cwd / "no")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=55,
    )


@pytest.mark.fault("F2", by="the demo: SIGKILL of the orchestrator while a phase runs")
def test_the_demo_ends_with_one_real_commit_after_a_real_kill(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()

    done = play(elsewhere, "--dir", str(tmp_path / "demo"))

    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert done.stderr == ""
    out = done.stdout
    assert re.findall(r"^\d\. .*$", out, re.MULTILINE) == CHAPTERS
    assert "FAILED (failures=1)" in out.partition(CHAPTERS[1])[0]
    killed = out.partition(CHAPTERS[1])[2].partition(CHAPTERS[2])[0]
    assert re.search(r"^   \$ kill -9 \d+$", killed, re.MULTILINE)
    assert "build         done" not in killed
    left = out.partition(CHAPTERS[2])[2].partition(CHAPTERS[3])[0]
    assert " interrupted (orchestrator dead)" in left
    assert "phase build still runs (attempt 1, process " in left
    resumed = out.partition(CHAPTERS[3])[2].partition(CHAPTERS[4])[0]
    assert "build         adopted (attempt 1)" in resumed
    assert "plan          started" not in resumed
    assert "plan 1, build 1, test 1, review 1, commit 1." in " ".join(out.split())

    assert missing(_shown_in_the_readme(), out) is None

    repo = tmp_path / "demo" / "bill"
    (adw_id,) = _runs(repo)
    branch = f"bug-47-{adw_id}-splitting-a-bill-loses-a-cent"
    git = ["git", "-C", str(repo)]
    log = ["log", "--format=%an %s", f"main..{branch}"]
    assert _said([*git, *log]) == "adw Splitting a bill loses a cent"
    names = _said([*git, "diff", "--name-only", "main", branch]).split()
    assert names == ["bill.py", f"specs/issue-47-adw-{adw_id}-splitting-a-bill-loses-a-cent.md"]
    assert _said([*git, "status", "--porcelain"]) == ""
    assert os.listdir(elsewhere) == []


def _shown_in_the_readme() -> list[str]:
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [line for line in block.splitlines() if line]


def _runs(repo: Path) -> list[str]:
    return [path.name for path in (repo / "agents").iterdir() if not path.name.startswith(".")]


def _said(argv: list[str]) -> str:
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("work")

    done = play(tmp_path, "--dir", ".", "--json")

    assert done.returncode == 2
    error = json.loads(done.stdout)["error"]
    assert error["message"] == f"`{tmp_path}` is not empty"
    assert os.listdir(tmp_path) == ["mine"]


def test_its_json_is_one_document_with_the_final_status() -> None:
    view = {"adw_id": "cc73faf1", "state": {"branch_name": "bug-47-cc73faf1-x"}}

    found = Outcome("/d", "/d/bill", view, "4" * 40, 77, {"plan": 1}, 5.123).to_json()

    assert found == {
        "schema_version": 1,
        "folder": "/d",
        "repository": "/d/bill",
        "adw_id": "cc73faf1",
        "branch": "bug-47-cc73faf1-x",
        "commit": "4" * 40,
        "killed": {"pid": 77, "phase": "build"},
        "bodies": {"plan": 1},
        "seconds": 5.1,
        "status": view,
    }


@pytest.mark.hostile("H16")
def test_adw_started_by_adw_does_not_import_from_the_working_directory(tmp_path: Path) -> None:
    from adw.app.spawning import ADW

    (tmp_path / "click.py").write_text("raise SystemExit('the repository was imported')")

    done = subprocess.run(
        [*ADW, "run", "--help"], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert ADW[0] == sys.executable
