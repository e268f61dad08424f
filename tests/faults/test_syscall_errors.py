"""An error at each call on a file, of each process of the three-phase run: told, and lost nothing.

`strace` makes one call end with an error, or that one and all later ones of its name. Whatever the
error and wherever: the run ends by itself, with 0 where nothing that counts was hit, else with one
line that names the file; a plain `adw resume` ends it well, and what happens outside happened once.

Source: open(2), write(2), fsync(2), rename(2), mkdir(2), link(2) for the errors that each may have.
"""

import os
import random
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from tests.faults import three_phases
from tests.faults.kill_points import LAUNCHER, SEED, WHOLE, Killing, needs_strace
from tests.support.counting import tally
from tests.support.ground import Done, Ground

_SHOWN: Final = 400  # characters of a call
_FULL: Final = ("ENOSPC", "EDQUOT", "EIO", "EROFS")
ERRORS: Final = {
    "creating openat": (*_FULL, "EMFILE", "EACCES"),
    "write": ("ENOSPC", "EDQUOT", "EIO"),
    "pwrite64": ("ENOSPC", "EDQUOT", "EIO"),
    "ftruncate": ("EIO", "EROFS"),
    "fsync": ("EIO", "ENOSPC", "EDQUOT"),
    "fdatasync": ("EIO", "ENOSPC", "EDQUOT"),
    "rename": _FULL,
    "renameat2": _FULL,
    "mkdir": _FULL,
    "mkdirat": _FULL,
    "rmdir": ("EIO", "EROFS"),
    "link": _FULL,
    "linkat": _FULL,
    "symlink": _FULL,
    "symlinkat": _FULL,
    "unlink": ("EIO", "EROFS"),
    "unlinkat": ("EIO", "EROFS"),
    "fchmod": ("EIO", "EROFS"),
    "utimensat": ("EIO", "EROFS"),
    "fcntl": ("ENOLCK",),
}
"""Errors of the calls that change something; `creating openat` are those with O_CREAT."""

READING: Final = {
    "openat": ("EIO", "EMFILE", "EACCES"),
    "read": ("EIO",),
    "pread64": ("EIO",),
    "getdents64": ("EIO",),
}
RESTARTED: Final = ("write", "fsync", "openat", "read")
"""Calls that a signal may cut short with EINTR; they are to be tried again."""

_CALL: Final = re.compile(r"^(\w+)\((.*)$")
_CWD: Final = re.compile(r"AT_FDCWD<[^>]*>, ")
_PATHS: Final = re.compile(r'[<"](/[^">]*)[">]')
_EARLIER: Final = (0, 1, 2, 4, 8, 16)
"""What depends on how things fall out in time, as how often a report is written, is less in one run
than in another. Where a call does not come, the one of its name that came so many before it did."""
_OTHERS: Final = re.compile(r"/scratch-|/tracing/")
"""Scratch rooms are named for the process, and are other ones in each run; traces are ours."""
_COPIES: Final = "/repo/.git/adw"
_COPIED: Final = ("/effects", "/requests/applied", "/stdout.log", "/stderr.log")
"""Copies of a run are made again later, or told to be lacking; a repair phase is told of a log that
cannot be read. Neither stops a run."""
_LOOK_BACK: Final = max(_EARLIER) + 1


class Call(NamedTuple):
    """One call of a run on a file."""

    process: str
    name: str
    path: str
    """From the ground on."""
    k: int
    """Its number among those of its name on this file, from 1."""
    text: str


class Fault(NamedTuple):
    """An error, and where."""

    call: Call
    error: str
    paths: tuple[str, ...] = ()
    """Files of which all later calls of that name have it too; empty: it comes once."""
    before: tuple[Call, ...] = ()
    """The calls of this name that came before, the nearest one last."""

    def tries(self) -> list["Fault"]:
        """This one, and earlier ones for a run that does not come so far."""
        row = (*self.before, self.call)
        return [self._replace(call=row[-1 - less]) for less in _EARLIER if less < len(row)]

    def told(self) -> str:
        """For people."""
        ever = " and ever after, everywhere" if self.paths else ""
        call = self.call
        return f"{self.error} at {call.process}, {call.name} {call.k} on {call.path}{ever}"


@dataclass
class Erring(Killing):
    """One `adw run` under strace, as `Killing`, with an error at a call on a file of the ground."""

    fault: Fault | None = None

    def run(self, *words: str) -> Done:
        """Run `adw …`; what became of it."""
        if self.process != "orchestrator":
            return super().run(*words)
        os.mkdir(self._folder)
        launcher = [sys.executable, LAUNCHER, self.process, str(self._folder)]
        traced = ["strace", *self._options()]
        return Done.of(self.ground.start(*words, wrap=traced, argv=launcher))

    def _what(self) -> list[str]:
        if self.fault is None:
            return ["-y", "-e", f"trace={','.join(self.calls)}"]
        call = self.fault.call
        when = f"{call.k}+" if self.fault.paths else str(call.k)
        on = [f"-P{self.ground.base}{path}" for path in self.fault.paths or [call.path]]
        inject = f"inject={call.name}:error={self.fault.error}:when={when}"
        return ["-y", *on, "-e", f"trace={call.name}", "-e", inject]

    def on_files(self) -> list[Call]:
        """Calls on what lies below the ground, of a run without a fault."""
        base = str(self.ground.base)
        seen: Counter[tuple[str, str]] = Counter()
        found = []
        for line in self._trace.read_text("utf-8", "replace").splitlines():
            if (match := _CALL.match(line)) is None:
                continue
            name, rest = match[1], _CWD.sub("", match[2])
            on = {path for path in _PATHS.findall(rest) if path.startswith(base)}
            seen.update((name, path) for path in on)
            if on and not any(_OTHERS.search(path) for path in on):
                path = min(on, key=lambda each: seen[name, each])
                text = rest[:_SHOWN].replace(base, "")
                found.append(
                    Call(self.process, name, path.removeprefix(base), seen[name, path], text)
                )
        return found


def faults_of(calls: list[Call], errors: Mapping[str, Sequence[str]]) -> list[Fault]:
    """Each error of each of these calls that is in the table, once and ever after."""
    paths = tuple(sorted({call.path for call in calls}))
    before: dict[str, list[Call]] = {}
    found = []
    for call in calls:
        row = before.setdefault(call.name, [])
        name = "creating openat" if "O_CREAT" in call.text else call.name
        # Counted among all files of the ground, where it is to be on all of them.
        numbered = tuple(each._replace(k=k) for k, each in enumerate([*row, call], 1))
        for error in errors.get(name, ()):
            found.append(Fault(call, error, (), tuple(row[-_LOOK_BACK:])))
            found.append(Fault(numbered[-1], error, paths, numbered[-_LOOK_BACK:-1]))
        row.append(call)
    return found


def baseline(base: Path, process: str) -> list[Call]:
    """Calls on files of an undisturbed run."""
    calls = sorted({name.split()[-1] for name in (*ERRORS, *READING)})
    ground = three_phases.three_phases(base)
    try:
        run = Erring(ground, process, calls=calls)
        done = run.run("run", "w", "47")
        assert done.exit_code == 0, done.told()
        three_phases.assert_over(ground)
        return run.on_files()
    finally:
        ground.end()


def exit_code_after(base: Path, fault: Fault) -> int | None:
    """Run with an error, look, resume; the exit code of the run, None where the call never came."""
    for number, each in enumerate(fault.tries()):
        ground = three_phases.three_phases(base / str(number))
        run = Erring(ground, each.call.process, fault=each)
        try:
            done = run.run("run", "w", "47")
            if run.injected():
                assert_told(ground, done)
                assert_resumable(ground, done)
                return done.exit_code
        finally:
            ground.end()
        shutil.rmtree(ground.base)
    return None


def assert_told(ground: Ground, done: Done) -> None:
    """The run ended by itself: well, or with one line of what went wrong where."""
    assert "Traceback" not in done.stderr, done.told()
    unreadable = "is not a valid state file" in done.stderr or "cannot read `" in done.stderr
    assert done.exit_code in (0, 1, 4) or (done.exit_code == 2 and unreadable), done.told()
    if done.exit_code >= 2:
        told = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        assert len(told) == 1, done.told()
        assert str(ground.base) in told[0] or "`" in told[0], done.told()
    ground.all_gone()


def assert_resumable(ground: Ground, before: Done) -> None:
    """One plain command more, and all is as it should be."""
    recorded = ground.entries() if ground.ids() else []
    done = ground.adw("resume", ground.adw_id) if ground.ids() else ground.adw("run", "w", "47")
    assert done.exit_code == 0, f"{before.told()}\n{done.told()}"
    assert ground.entries()[: len(recorded)] == recorded
    three_phases.assert_over(ground)


def loud(fault: Fault, code: int) -> bool:
    """Whether the run told of the error as it should, or hit what nothing depends on."""
    process, name, path, k, _ = fault.call
    # The second line that a supervisor appends tells the body's number, for display alone.
    of_body = (process, k) == ("supervisor", 2) and name in {"write", "pread64"}
    of_copies = path == "/repo/.git" or path.startswith(_COPIES) or path.endswith(_COPIED)
    return code != 0 or of_copies or (of_body and not fault.paths)


def loud_of_its_own(fault: Fault, code: int) -> bool:
    """As `loud`, for reads: what git wrote is read to spare a git, which is asked in its place."""
    return loud(fault, code) or not fault.call.path.startswith("/repo/agents")


def sweep(
    base: Path, faults: list[Fault], most: int, right: Callable[[Fault, int], bool] = loud
) -> None:
    """Try each, or a sample; tell of all that went wrong, and of what never came.

    Args:
        base: A directory for the grounds.
        faults: All that there are.
        most: How many are tried, but for SWEEPS=whole.
        right: Whether a fault may end a run with this exit code.
    """
    if not WHOLE and len(faults) > most:
        print(f"seed {SEED}: {most} of {len(faults)} points; SWEEPS=whole tries all")
        faults = random.Random(SEED).sample(faults, most)
    wrong: list[str] = []
    codes: Counter[int | None] = Counter()
    for number, fault in enumerate(faults):
        place = base / str(number)
        try:
            code = exit_code_after(place, fault)
            if code is not None and not right(fault, code):
                wrong.append(f"{fault.told()}: exit code {code}")
        except (AssertionError, subprocess.TimeoutExpired) as error:
            wrong.append(f"{fault.told()}: {error}")
            code = -1
        else:
            shutil.rmtree(place)
        codes[code] += 1
        if code is None:
            wrong.append(f"{fault.told()}: never came")
    tally(len(faults), len(faults) - codes[None], what=f"exit codes {dict(codes)}", wrong=wrong)


@pytest.mark.fault(
    "F14", "F16", "F17", "F18", "F20", "F25", by="strace: an error at each call that changes a file"
)
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize(("process", "most"), [("orchestrator", 36), ("supervisor", 24)])
def test_P4_an_error_at_each_call_that_changes_a_file(
    process: str, most: int, tmp_path: Path
) -> None:
    needs_strace()
    calls = baseline(tmp_path / "baseline", process)
    sweep(tmp_path, faults_of(calls, ERRORS), most)


@pytest.mark.fault("F22", by="strace: an error at each call that reads a file")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize(("process", "most"), [("orchestrator", 16), ("supervisor", 8)])
def test_P4_an_error_at_each_call_that_reads_a_file(
    process: str, most: int, tmp_path: Path
) -> None:
    needs_strace()
    calls = baseline(tmp_path / "baseline", process)
    sweep(tmp_path, faults_of(calls, READING), most, loud_of_its_own)


@pytest.mark.fault("F24", by="strace: EINTR at each call that may have it")
@pytest.mark.sweep
@pytest.mark.timeout(1100)
@pytest.mark.parametrize("process", ["orchestrator", "supervisor"])
def test_a_call_that_a_signal_interrupts_is_made_again(process: str, tmp_path: Path) -> None:
    """EINTR, as a signal leaves it: nobody is told, nothing is lost."""
    needs_strace()
    calls = baseline(tmp_path / "baseline", process)
    faults = faults_of(calls, dict.fromkeys(RESTARTED, ("EINTR",)))
    sweep(tmp_path, [fault for fault in faults if not fault.paths], 5, lambda _, code: code == 0)
