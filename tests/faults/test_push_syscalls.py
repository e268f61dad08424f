"""SIGKILL at every system call of `use: push` that changes something, and of each git it starts.

A run has built and committed; its push is killed at a point, then one plain `adw resume` ends it:
one commit, one ref at the remote, changed once. Another run has its worktree beside it, which git
lists and which works whatever was killed. Each point begins from the same files.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.faults.kill_points import CHANGING, SEED, Killing, Point, needs_strace, thinned
from tests.support.counting import tally
from tests.support.git_http import TOKEN, GitRemote, git_remote
from tests.support.ground import Done, Ground, phase

PARTS: Final = 4
_DRIFT: Final = 4
"""So many calls of a name fewer than the baseline an attempt may make."""
_LAUNCHER: Final = str(Path(__file__).with_name("traced_phase.py"))
PHASES: Final = {
    "build": phase('echo "$ADW_CHILD" > made.txt'),
    "commit": {"use": "commit", "needs": ["build"]},
    "gate": {"run": ["test", "-e", "{worktree}/../../../open"], "needs": ["commit"]},
    "push": {"use": "push", "needs": ["gate"], "secrets": ["TOKEN"]},
}


class PhaseKilling(Killing):
    """Kills the phase program itself."""

    def run(self, *words: str) -> Done:
        """Run `adw …` with the program of `push` under strace."""
        os.mkdir(self._folder)
        strace = ["strace", *self._options()]
        argv = [sys.executable, _LAUNCHER, "push", json.dumps(strace)]
        return Done.of(self.ground.start(*words, argv=argv))


@dataclass
class Stand:
    """A run before its push, a run beside it, and the remote; as often as wanted."""

    ground: Ground
    remote: GitRemote
    adw_id: str = ""
    other: str = ""

    @property
    def _kept(self) -> Path:
        return self.ground.base.with_name("kept")

    def prepare(self) -> None:
        """Make both runs and keep all files."""
        assert self.ground.adw("run", "w", "47").exit_code == 1
        self.adw_id = self.ground.adw_id
        assert self.ground.adw("run", "w", "48").exit_code == 1
        (self.other,) = set(self.ground.ids()) - {self.adw_id}
        (self.ground.base / "open").touch()
        shutil.copytree(self.ground.base, self._kept, symlinks=True)

    def back(self, mode: str) -> None:
        """Put all files back."""
        self.ground.all_gone()
        shutil.rmtree(self.ground.base)
        shutil.copytree(self._kept, self.ground.base, symlinks=True)
        self.remote.again([mode])

    def points(self, process: str) -> list[Point]:
        """All points of a resume that nobody kills."""
        self.back("ok")
        killing = _killing(self.ground, process)
        done = killing.run("resume", self.adw_id)
        assert done.exit_code == 0, done.told()
        self.sound()
        found = killing.points()
        if process == "git":
            return found
        # What comes before is the start of Python.
        begun = next(i for i, each in enumerate(found) if "effects" in each.text)
        return found[begun:]

    def killed(self, point: Point, mode: str) -> bool:
        """A resume that is killed there, and a plain one; whether it fired."""
        self.back(mode)
        killing = _killing(self.ground, point.process, point)
        told = killing.run("resume", self.adw_id).told()
        if not killing.fired():
            return False
        self.beside()
        done = self.ground.adw("resume", self.adw_id)
        assert done.exit_code == 0, f"{told}\n{done.told()}"
        self.sound()
        return True

    def sound(self) -> None:
        """One commit, one ref, no lock, nothing that lives."""
        status = self.ground.status(self.adw_id)
        assert status["status"] == "succeeded"
        name = status["state"]["branch_name"]
        sha = self.ground.repo.git("rev-parse", name)
        assert self.remote.refs() == {f"refs/heads/{name}": sha}
        assert self.remote.updates(f"refs/heads/{name}") == 1
        log = self.ground.repo.git("log", "--format=%(trailers:key=ADW-Run)", f"main..{name}")
        assert log.count("ADW-Run:") == 1
        pushed = self.ground.repo.git("rev-parse", f"refs/remotes/origin/{name}", check=False)
        assert pushed in {sha, f"refs/remotes/origin/{name}"}
        left = [p for p in (self.ground.repo.path / ".git").rglob("*.lock") if p.name != "adw.lock"]
        assert left == []
        self.beside()
        self.ground.all_gone()

    def beside(self) -> None:
        """The other run's worktree is listed, and works."""
        repo, tree = self.ground.repo, self.ground.repo.path / "trees" / self.other
        assert f"worktree {tree}\n" in repo.git("worktree", "list", "--porcelain")
        assert repo.git("-C", str(tree), "status", "--porcelain") == ""
        assert self.ground.status(self.other)["status"] == "failed"


def _killing(ground: Ground, process: str, point: Point | None = None) -> Killing:
    kind = PhaseKilling if process == "push" else Killing
    return kind(ground, process, point, calls=(*CHANGING, "connect", "recvfrom"))


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    needs_strace()
    base = tmp_path_factory.mktemp("push")
    (base / "g").mkdir()
    with git_remote(base / "g" / "forge.git") as remote:
        options = {"token": "TOKEN", "host": remote.address}
        phases = {**PHASES, "push": {**PHASES["push"], "with": options}}
        ground = Ground(base / "g", phases, env={"TOKEN": TOKEN})
        ground.repo.git("remote", "add", "origin", remote.url)
        found = Stand(ground, remote)
        try:
            found.prepare()
            yield found
        finally:
            ground.end()


def sweep(stand: Stand, points: Sequence[Point], mode: str) -> None:
    """Kill at each of these; tell of all that went wrong, and of what never fired."""
    wrong, fired = [], 0
    for point in points:
        hit = True  # what goes wrong goes wrong after the kill
        try:
            fewer = range(min(_DRIFT, point.k))
            hit = any(stand.killed(point._replace(k=point.k - less), mode) for less in fewer)
            if not hit:
                wrong.append(f"{point}: did not fire")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            wrong.append(f"{point}: {error}")
        fired += hit
    names = sorted({point.process for point in points})
    tally(len(points), fired, what=f"{', '.join(names)} ({mode})", wrong=wrong)


@pytest.mark.fault("F48", by="strace: SIGKILL before each call; a remote that loses its answer")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("mode", ["ok", "lost"])
@pytest.mark.parametrize("part", range(PARTS))
def test_every_system_call_of_the_program(stand: Stand, part: int, mode: str) -> None:
    """Must show 2."""
    sweep(stand, thinned(stand.points("push")[part::PARTS], 4), mode)


@pytest.mark.fault("F48", by="strace: SIGKILL before each call of git push")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("part", range(PARTS))
def test_every_system_call_of_its_git(stand: Stand, part: int) -> None:
    """Must show 2; F46 and F48 for push."""
    sweep(stand, thinned(stand.points("git")[part::PARTS], 6), "ok")


@pytest.mark.sweep
def test_some_system_calls(stand: Stand) -> None:
    """A few of the sweeps above, the same ones each time."""
    chosen = random.Random(SEED).sample(stand.points("push"), 2)
    sweep(stand, chosen, "lost")
