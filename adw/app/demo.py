"""`adw demo`: one run in a repository of its own, killed in the middle of a phase, and resumed.

Everything it shows is what the real commands print, and at the end it looks whether all came
true: it fails where the phase was not adopted, ran twice, or left no commit. A crash of the demo
itself leaves its folder, in which every adw command works.
"""

import json
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn, Protocol

from adw import clock
from adw.errors import EnvironmentFault, UsageError
from adw.store import files

if TYPE_CHECKING:
    from adw.app.spawning import Piped

ISSUE: Final = 47
PHASES: Final = ("plan", "build", "test", "review")
"""Those whose body writes into the diary; commits are counted by git."""

_MIDDLE: Final = os.path.join("children", "build-1", "artifacts", "half-done")
_PATIENCE_S: Final = 60.0  # for one command; each takes a second or two


class Audience(Protocol):
    """Whoever is told the story."""

    def chapter(self, title: str) -> None:
        """A new part begins."""

    def say(self, text: str) -> None:
        """One paragraph, before what it tells happens."""

    def command(self, line: str) -> None:
        """This command is started now."""

    def output(self, line: str) -> None:
        """One line of what it prints."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it."""

    folder: str
    repository: str
    view: dict[str, Any]
    """Of the run at its end, as `adw status ID --json` has it."""
    commit: str
    killed: int
    """Process id of the orchestrator that got SIGKILL."""
    bodies: dict[str, int]
    """How often each phase ran, as the phases themselves wrote it down, and commits by git."""
    seconds: float

    @property
    def adw_id(self) -> str:
        """The run."""
        return str(self.view["adw_id"])

    @property
    def branch(self) -> str:
        """Its branch."""
        return str(self.view["state"]["branch_name"])

    def to_json(self) -> dict[str, Any]:
        """The document of `adw demo --json`."""
        return {
            "schema_version": 1,
            "folder": self.folder,
            "repository": self.repository,
            "adw_id": self.adw_id,
            "branch": self.branch,
            "commit": self.commit,
            "killed": {"pid": self.killed, "phase": "build"},
            "bodies": self.bodies,
            "seconds": round(self.seconds, 1),
            "status": self.view,
        }


def perform(folder: str | None, audience: Audience) -> Outcome:
    """Play the whole story.

    Args:
        folder: Where; made if missing, refused if anything is in it. None: a new temporary one.
        audience: Told what happens, before it happens.

    Raises:
        UsageError: The folder cannot be used; nothing was started.
        EnvironmentFault: It did not come as told; the folder stays, and the error names it.
    """
    began = clock.monotonic()
    story = _Story(_make_folder(folder), audience)
    try:
        story.make_repository()
        killed = story.run_and_kill()
        story.look()
        story.resume()
        view, commit, bodies = story.check()
    except KeyboardInterrupt:
        audience.say(f"Interrupted; what was made so far stays in {story.folder}")
        raise
    finally:
        files.unlink(story.hold)  # whatever happened, the phase need not wait any longer
    took = clock.monotonic() - began
    return Outcome(story.folder, story.repo, view, commit, killed, bodies, took)


def remove(outcome: Outcome) -> None:
    """Remove the demo's folder; the run in it is over."""
    files.remove_tree(outcome.folder)


class _Story:
    """The parts of the story, in order; each needs the one before."""

    def __init__(self, folder: str, audience: Audience) -> None:
        self.folder = folder
        self.repo = os.path.join(folder, "bill")
        self.hold = os.path.join(folder, "hold")
        self._diary = os.path.join(folder, "diary.txt")
        self._audience = audience
        self._adw_id = ""

    def make_repository(self) -> None:
        from adw.loader import shipped_dir

        self._audience.chapter("A small repository with a bug")
        self._audience.say(
            f"bill.py splits a bill. Issue {ISSUE} says that a cent gets lost, and a test agrees:"
        )
        _copy(os.path.join(shipped_dir(), "demo"), self.repo)
        files.create(os.path.join(self.repo, "adw.yaml"), self._settings(), sync=False, mode=0o644)
        files.create(self.hold, b"", sync=False)
        self._git("init", "--quiet", "--initial-branch=main", "--template=")
        # The user's own hooks and signing are right for real work; here they could ask or refuse.
        self._git("config", "core.hooksPath", os.devnull)
        self._git("config", "commit.gpgSign", "false")
        self._git("add", "--all")
        who = ("-c", "user.name=adw demo", "-c", "user.email=adw@localhost")
        self._git(*who, "commit", "--quiet", "--message", "A program that splits bills")
        tests = self._tests(self.repo)
        if tests.exit_code != 1:
            self._fail("the tests were expected to fail before the run", tests)

    def run_and_kill(self) -> int:
        self._audience.chapter("A run, and SIGKILL in the middle of it")
        self._audience.say(
            "The shipped workflow `sdlc` is plan, build, test, review, commit; fix and patch run"
            " only where test or review fails. A plain program, tools/agent.py, stands in for a"
            " coding agent. As soon as it has made one of its two edits, the process of `adw run`"
            " gets SIGKILL."
        )
        run = self._start(f"adw run sdlc {ISSUE}", self._adw("run", "sdlc", str(ISSUE)))
        self._follow(run, self._in_its_middle)
        if not self._adw_id:
            self._fail("phase build did not get to its middle", run)
        self._audience.say("bill.py is half changed now.")
        self._audience.command(f"kill -9 {run.pid}")
        run.kill()
        self._follow(run)  # its output ends, as nobody else holds the pipe
        if run.exit_code != -signal.SIGKILL:
            self._fail(f"the run ended with {run.exit_code}", run)
        return run.pid

    def look(self) -> None:
        self._audience.chapter("What is left")
        self._audience.say(
            "The orchestrator had no chance to write anything down. The phase lives on:"
        )
        self._status()
        found = self._view()
        living = [each["child_id"] for each in found["living"]]
        if found["status"] != "interrupted" or living != ["build-1"]:
            self._fail(f"the run is {found['status']}, alive are {living}")

    def resume(self) -> None:
        self._audience.chapter("Resume")
        self._audience.say(
            "Nothing has to be unlocked or cleaned up. plan is kept, build is adopted while it"
            " runs, the others follow."
        )
        resumed = self._start(f"adw resume {self._adw_id}", self._adw("resume", self._adw_id))
        self._follow(resumed, self._adopted)
        files.unlink(self.hold)
        self._follow(resumed)
        if resumed.exit_code != 0:
            self._fail(f"the resume ended with {resumed.exit_code}", resumed)

    def check(self) -> tuple[dict[str, Any], str, dict[str, int]]:
        view = self._view()
        branch = view["state"]["branch_name"]
        self._audience.chapter("What came of it")
        self._status()
        self._audience.command(f"git log --stat -1 {branch}")
        for line in self._git("log", "--stat", "-1", branch).splitlines():
            self._audience.output(line)
        self._audience.say("The tests, in the run's worktree:")
        tests = self._tests(os.path.join(self.repo, view["state"]["worktree_path"]))
        bodies = self._bodies(branch)
        if view["status"] != "succeeded" or not self._adopted():
            self._fail(f"the run is {view['status']}, adopted is {self._adopted()}")
        if tests.exit_code != 0 or set(bodies.values()) != {1}:
            self._fail(f"the tests ended with {tests.exit_code}, phases ran {bodies}", tests)
        counts = ", ".join(f"{name} {count}" for name, count in bodies.items())
        self._audience.say(
            "How often each phase ran, by what the phases themselves wrote into a file and, for"
            f" commit, by the commits on the branch: {counts}."
        )
        return view, self._git("rev-parse", branch), bodies

    # What the parts are made of.

    def _settings(self) -> bytes:
        env = {
            "PYTHON": sys.executable,
            "AGENT": '"$PYTHON" -B tools/agent.py',
            "TEST": "sh tools/test.sh",
            "DIARY": self._diary,
            "HOLD": self.hold,
        }
        lines = ["agents_dir: agents", "ports: none", "env:"]
        lines += [f"  {name}: {json.dumps(value)}" for name, value in env.items()]
        return ("\n".join(lines) + "\n").encode()

    def _tests(self, folder: str) -> "Piped":
        argv = [sys.executable, "-B", "-m", "unittest"]
        return self._follow(self._start("python -m unittest", argv, folder))

    def _status(self) -> None:
        argv = self._adw("status", self._adw_id)
        self._follow(self._start(f"adw status {self._adw_id}", argv))

    def _bodies(self, branch: str) -> dict[str, int]:
        counted = Counter(files.read(self._diary).decode().split())
        commits = int(self._git("rev-list", "--count", f"main..{branch}"))
        return {**{name: counted[name] for name in PHASES}, "commit": commits}

    def _in_its_middle(self) -> bool:
        from adw.store.runs import list_ids

        agents = os.path.join(self.repo, "agents")
        for adw_id in list_ids(agents) if os.path.isdir(agents) else []:
            if os.path.exists(os.path.join(agents, adw_id, _MIDDLE)):
                self._adw_id = adw_id
        return bool(self._adw_id)

    def _adopted(self) -> bool:
        build = next(each for each in self._view()["phases"] if each["phase"] == "build")
        return [each["adopted"] for each in build["attempts"]] == [True]

    def _view(self) -> dict[str, Any]:
        from adw.app.reading import status

        return status(os.path.join(self.repo, "agents", self._adw_id))

    def _git(self, *args: str) -> str:
        from adw.workspace.git import run_git

        return run_git(args, self.repo, kind="read").decode("utf-8", "replace").rstrip("\n")

    def _adw(self, *words: str) -> list[str]:
        from adw.app.spawning import ADW

        return [*ADW, *words]

    def _start(self, shown: str, argv: list[str], folder: str | None = None) -> "Piped":
        from adw.app.spawning import Piped

        self._audience.command(shown)
        return Piped(argv, folder or self.repo, _without_adw(os.environ))

    def _follow(self, process: "Piped", until: Callable[[], bool] = lambda: False) -> "Piped":
        if not process.follow(self._audience.output, until, _PATIENCE_S):
            process.kill()
            self._fail(f"no end after {_PATIENCE_S:.0f} s", process)
        return process

    def _fail(self, detail: str, process: "Piped | None" = None) -> NoReturn:
        raise EnvironmentFault(
            detail=f"the demo did not go as told: {detail}",
            reason="\n".join(process.lines[-6:]) or None if process else None,
            fix=f"look into `{self.folder}`, all of it stays there",
        )


def _make_folder(wanted: str | None) -> str:
    from adw.ids import new_id

    if wanted is None:
        base = os.path.abspath(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108 - mode 0700
        path = os.path.join(base, f"adw-demo-{new_id()}")
        files.make_dir(path)
        return path
    path = os.path.abspath(wanted)
    files.make_dirs(path)
    if os.listdir(path):
        raise UsageError(detail=f"`{path}` is not empty", fix="name a folder that is new or empty")
    return path


def _copy(source: str, target: str) -> None:
    """Copy a folder of small text files."""
    files.make_dir(target, mode=0o755)
    for name in sorted(os.listdir(source)):
        path, copy = os.path.join(source, name), os.path.join(target, name)
        if os.path.isdir(path):
            if name != "__pycache__":
                _copy(path, copy)
            continue
        with open(path, "rb") as file:
            files.create(copy, file.read(), sync=False, mode=0o644)


def _without_adw(environ: Mapping[str, str]) -> dict[str, str]:
    """An outer run's variables would lead the commands away from the demo's repository."""
    return {name: value for name, value in environ.items() if not name.startswith("ADW_")}
