"""A repository that adw has never seen: networkx, with the tests that come installed with it.

Every phase writes its name into a diary outside of the repository, and waits while a file
`hold-<phase>` is there; phase `commit` does so by the repository's own pre-commit hook. So a kill falls into the
middle of the phase it is meant for.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest

from adw.store import attempts, runs
from tests.support.adw import command
from tests.support.counting import Counted
from tests.support.repo import Repo, make_repo
from tests.support.wait import until

PHASES: Final = ("look", "change", "unit", "suite", "commit")
BEGIN: Final = 'echo "$ADW_CHILD" >> "$OUTSIDE/diary"; while [ -e "$OUTSIDE/hold-$ADW_PHASE" ]; do sleep 0.02; done'
SHORT: Final = "networkx/utils/tests/test_heaps.py networkx/classes/tests/test_filters.py"
MIDDLE: Final = "networkx/utils networkx/classes"
WHOLE: Final = "networkx"
WORKFLOW: Final = f"""
schema_version: 1
name: upkeep
description: Change something in networkx, and hold it to its own tests.
phases:
  look:
    writes: false
    run: |
      {BEGIN}
      "$PY" -B -c 'import os, networkx; assert networkx.__file__.startswith(os.getcwd())'
  change:
    needs: [look]
    run: |
      {BEGIN}
      "$PY" -B tools/stamp.py
    ensure: [changed]
  unit:
    needs: [change]
    writes: false
    run: |
      {BEGIN}
      "$PY" -B -m pytest -q -p no:cacheprovider --strict-markers networkx/utils/tests/test_misc.py
  suite:
    needs: [unit]
    writes: false
    run: |
      {BEGIN}
      "$PY" -B -m pytest -q -p no:cacheprovider $TESTS
  commit:
    needs: [suite]
    use: commit
"""
STAMP: Final = """
import networkx

with open("networkx/_stamp.py", "w", encoding="utf-8") as file:
    file.write(f"NODES = {len(networkx.path_graph(5))}\\n")
"""
HOOK: Final = f'#!/bin/sh\n[ -n "$ADW_ID" ] || exit 0\n{BEGIN}\n'


@dataclass
class Strange:
    """The repository, what lies beside it, and the processes started on it."""

    repo: Repo
    outside: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def agents(self) -> Path:
        return self.repo.path / "agents"

    def issue(self, number: int) -> None:
        self.repo.write({f"issues/{number}.md": "---\ntitle: Stamp it\nlabels: [chore]\n---\n"})

    def settings(self, tests: str) -> None:
        env = {"OUTSIDE": str(self.outside), "PY": sys.executable, "TESTS": tests}
        self.repo.write({"adw.yaml": json.dumps({"env": env, "ports": "none"})})

    def start(self, *args: str) -> subprocess.Popen[bytes]:
        with (self.outside / "output").open("ab") as output:
            process = subprocess.Popen(
                command(*args),
                cwd=self.repo.path,
                # Named here so that what adw leaves alive can be told as ours.
                env={**os.environ, "ADW_AGENTS_DIR": str(self.agents)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.started.append(process)
        return process

    def adw(self, *args: str) -> int:
        return self.start(*args).wait(300)

    def said(self, *args: str) -> str:
        done = subprocess.run(
            command(*args), cwd=self.repo.path, capture_output=True, text=True, check=True
        )
        return done.stdout

    def output(self) -> str:
        return (self.outside / "output").read_text()

    def bodies(self) -> Counter[str]:
        diary = self.outside / "diary"
        return Counter(diary.read_text().split() if diary.exists() else [])

    def run_of(self, issue: int) -> str:
        (found,) = [name for name, _ in runs.peek(str(self.agents), issue)]
        return found

    def has_body(self, issue: int, child: str) -> bool:
        names = (
            [name for name, _ in runs.peek(str(self.agents), issue)] if self.agents.exists() else []
        )
        folder = str(self.agents / (names or ["none"])[0] / "attempts" / child)
        return bool(attempts.find(attempts.read_lines(folder), "body")) and child in self.bodies()

    def status(self, adw_id: str) -> dict[str, str]:
        view = json.loads(self.said("status", adw_id, "--json"))
        return {each["phase"]: each["status"] for each in view["phases"]}

    def fresh(self) -> None:
        for path in self.outside.iterdir():
            path.unlink()

    def end(self) -> None:
        for path in self.outside.glob("hold-*"):
            path.unlink()
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Strange:
    base = tmp_path_factory.mktemp("strange")
    spec = find_spec("networkx")
    assert spec is not None
    assert spec.origin is not None
    path = base / "networkx"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(spec.origin).parent, path / "networkx", ignore=ignored)
    files = {"workflows/upkeep.yaml": WORKFLOW, "tools/stamp.py": STAMP}
    repo = make_repo(path, {**files, "pyproject.toml": "[tool.pytest.ini_options]\n"})
    repo.write({".git/hooks/pre-commit": HOOK})
    (base / "outside").mkdir()
    return Strange(repo, base / "outside")


@pytest.fixture
def strange(package: Strange) -> Iterator[Strange]:
    package.settings(SHORT)
    package.fresh()
    yield package
    package.end()


def kill_in(strange: Strange, issue: int, phase: str) -> str:
    """Start a run and send SIGKILL to its orchestrator while `phase` runs; the run's id."""
    hold = strange.outside / f"hold-{phase}"
    hold.touch()
    process = strange.start("run", "upkeep", str(issue))
    until(lambda: strange.has_body(issue, f"{phase}-1"), 300, phase)
    process.send_signal(signal.SIGKILL)
    process.wait()
    adw_id = strange.run_of(issue)
    assert strange.status(adw_id)[phase] == "running"
    hold.unlink()
    return adw_id


def check_done(strange: Strange, adw_id: str) -> None:
    assert set(strange.status(adw_id).values()) == {"done"}
    assert strange.bodies() == {f"{phase}-1": 1 for phase in PHASES}
    branch = json.loads(strange.said("status", adw_id, "--json"))["state"]["branch_name"]
    names = strange.repo.git("diff", "--name-only", f"main...{branch}").split()
    assert names == ["networkx/_stamp.py"]
    assert strange.repo.git("rev-list", "--count", f"main..{branch}") == "1"


def check_broken(strange: Strange, issue: int) -> None:
    """One function of the package is wrong now: exit 1, and the readers name the phase."""
    assert strange.adw("run", "upkeep", str(issue)) == 1, strange.output()

    adw_id = strange.run_of(issue)
    assert strange.status(adw_id) == {
        "look": "done",
        "change": "done",
        "unit": "failed",
        "suite": "pending",
        "commit": "pending",
    }
    assert "phase `unit` failed: exit code 1" in strange.said("status", adw_id)
    told = strange.said("why", adw_id)
    assert "unit" in told
    assert "test_misc.py::test_groups" in told
    assert set(strange.bodies()) == {"look-1", "change-1", "unit-1"}


@contextmanager
def one_test_broken(strange: Strange) -> Iterator[None]:
    """A commit with a wrong function, taken back at the end."""
    path = strange.repo.path / "networkx" / "utils" / "misc.py"
    text = path.read_text()
    path.write_text(f"{text}\n\ndef groups(many_to_one):\n    return None\n")
    strange.repo.git("commit", "--quiet", "-m", "Break groups", "--", str(path))
    try:
        yield
    finally:
        path.write_text(text)
        strange.repo.git("commit", "--quiet", "-m", "Mend groups", "--", str(path))


@pytest.mark.sweep
@pytest.mark.fault("F2", "F4", by="SIGKILL in a run on another project's repository")
@pytest.mark.xdist_group("strange")
def test_a_repository_never_seen_before_survives_a_kill_amid_its_tests(strange: Strange) -> None:
    strange.issue(1)

    adw_id = kill_in(strange, 1, "unit")

    assert strange.adw("resume", adw_id) == 0, strange.output()
    check_done(strange, adw_id)


@pytest.mark.xdist_group("strange")
@pytest.mark.sweep
def test_one_broken_test_fails_the_run_and_later_phases_stay_unstarted(strange: Strange) -> None:
    strange.issue(2)
    with one_test_broken(strange):
        check_broken(strange, 2)


@pytest.mark.sweep
@pytest.mark.fault("F2", "F4", by="SIGKILL in a run on another project's repository")
@pytest.mark.timeout(1100)
@pytest.mark.xdist_group("strange")
def test_the_whole_suite_of_a_repository_with_a_kill_in_each_of_its_five_phases(
    strange: Strange, counted: Counted
) -> None:
    strange.settings(WHOLE)
    strange.issue(10)
    assert strange.adw("run", "upkeep", "10") == 0, strange.output()
    check_done(strange, strange.run_of(10))
    strange.settings(MIDDLE)
    for number, phase in enumerate(PHASES, start=11):
        strange.fresh()
        strange.issue(number)
        adw_id = kill_in(strange, number, phase)
        assert strange.adw("resume", adw_id) == 0, strange.output()
        check_done(strange, adw_id)
    strange.fresh()
    strange.issue(20)
    with one_test_broken(strange):
        check_broken(strange, 20)
    counted(len(PHASES), len(PHASES), len(PHASES), what="a kill in each phase")
