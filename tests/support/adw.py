"""The command line under test: the real program in a temporary repository, read to the letter.

    Adw(tmp_path).workflow("w", WORKFLOW).issue(47, "Fix").run("run", "w", "47").stdout(TEXT).ok()

Only ADW IDs, instants, durations, process ids and the temporary directory are normalised. A
chain that does not end in `ok` or `fails` fails its test.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.support.repo import Repo, make_repo

_unfinished: list["Adw"] = []

_INSTANT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_DURATION: Final = re.compile(r"\b\d+\.\d+ ?s\b")
_HEX_ID: Final = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_PROCESS: Final = re.compile(r"\bprocess \d+\b")


@dataclass(frozen=True, slots=True)
class Output:
    """What a command printed, as it was and normalised."""

    exit_code: int
    stdout: str
    stderr: str
    raw_stdout: str
    raw_stderr: str

    def json(self) -> Any:
        """Parse stdout, which must be JSON and nothing else."""
        return json.loads(self.raw_stdout)


@dataclass(eq=False)
class Adw:
    """One command in one repository; the same object may run several, one after another."""

    base: Path
    files: Mapping[str, str] = field(default_factory=dict)
    _repo: Repo | None = None
    _args: Sequence[str] | None = None
    _env: dict[str, str] = field(default_factory=dict)
    _stdin: str = ""
    _cwd: Path | None = None
    _stdout: str | None = None
    _stderr: str | None = None

    @property
    def repo(self) -> Repo:
        """The repository, made when it is first asked for."""
        if self._repo is None:
            self._repo = make_repo(self.base / "repo", self.files)
        return self._repo

    def workflow(self, name: str, text: str) -> Self:
        """Write `workflows/<name>.yaml`."""
        self.repo.write({f"workflows/{name}.yaml": text})
        return self

    def issue(self, number: int, title: str, body: str = "", labels: str = "[]") -> Self:
        """Write `issues/<number>.md`."""
        head = f"---\ntitle: {title}\nlabels: {labels}\n---\n"
        self.repo.write({f"issues/{number}.md": f"{head}{body}\n"})
        return self

    def env(self, **more: str) -> Self:
        """Set variables for the command."""
        self._env.update(more)
        return self

    def cwd(self, path: Path) -> Self:
        """Call it from another directory."""
        self._cwd = path
        return self

    def stdin(self, text: str) -> Self:
        """Give it an input."""
        self._stdin = text
        return self

    def run(self, *args: str) -> Self:
        """Say which command; it starts at `ok`, `fails` or `result`."""
        self._args = args
        if self not in _unfinished:
            _unfinished.append(self)
        return self

    def stdout(self, text: str) -> Self:
        """Expect exactly this on stdout; a first newline is left out."""
        self._stdout = text.removeprefix("\n")
        return self

    def stderr(self, text: str) -> Self:
        """Expect exactly this on stderr; a first newline is left out."""
        self._stderr = text.removeprefix("\n")
        return self

    def ok(self) -> Output:
        """Run it; exit code 0 is expected."""
        return self.fails(0)

    def fails(self, exit_code: int) -> Output:
        """Run it; this exit code is expected, and what `stdout` and `stderr` said."""
        wanted_out, wanted_err = self._stdout, self._stderr
        output = self.result()
        told = f"exit {output.exit_code}\n{output.raw_stdout}\n{output.raw_stderr}"
        assert output.exit_code == exit_code, told
        if wanted_out is not None:
            assert output.stdout == wanted_out
        if wanted_err is not None:
            assert output.stderr == wanted_err
        return output

    def result(self, timeout_s: float = 50) -> Output:
        """Run it; nothing is expected."""
        assert self._args is not None, "run(…) was not called"
        _unfinished.remove(self)
        done = subprocess.run(
            command(*self._args),
            cwd=self._cwd or self.repo.path,
            env={**os.environ, **self._env},
            input=self._stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout_s,
        )
        self._args = self._stdout = self._stderr = None
        return Output(
            done.returncode,
            self._normal(done.stdout),
            self._normal(done.stderr),
            done.stdout,
            done.stderr,
        )

    def _normal(self, text: str) -> str:
        text = text.replace(str(self.base.resolve()), "<tmp>").replace(str(self.base), "<tmp>")
        text = _INSTANT.sub("<time>", text)
        text = _PROCESS.sub("process <pid>", text)
        return _HEX_ID.sub("<id>", _DURATION.sub("<n> s", text))


def command(*args: str) -> list[str]:
    """The argv of the program under test."""
    return [sys.executable, "-m", "adw", *args]


def forget_unfinished() -> list[str]:
    """The commands that were built and never ran; asked, and emptied, after each test."""
    found = [" ".join(["adw", *(each._args or ())]) for each in _unfinished]
    _unfinished.clear()
    return found
