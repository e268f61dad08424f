"""Runs made by hand, with fixed ids and instants, and commands called in this process.

Nothing runs here: what a run would have left is written through the store's own functions.
"""

import io
import json
import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from adw.app.creating import RunOptions, create, make_plan
from adw.app.places import find_places
from adw.cli.main import main
from adw.model.state import HistoryEntry
from adw.store import attempts, runs
from adw.store.state import StateFile, load_state
from tests.support.repo import Repo, make_repo

WORKFLOW: Final = """\
schema_version: 1
name: w
phases:
  plan:
    run: [echo, planned]
  test:
    needs: [plan]
    writes: false
    run: [echo, tested]
    retry: {attempts: 2}
  commit:
    needs: [test]
    use: commit
"""
ISSUE: Final = "---\ntitle: Mend it\nlabels: [bug]\n---\nIt is broken.\n"
ID: Final = "cc73faf1"
OTHER: Final = "dd01aa22"
COMMIT: Final = "0123456789" * 4

_first: list[Path] = []  # five git processes a test would be most of its time


@dataclass(frozen=True)
class Said:
    """What a command printed."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """Parse stdout, which must be JSON and nothing else."""
        return json.loads(self.out)


def repository(path: Path) -> Repo:
    """A repository with one workflow, one issue, and no ports; a copy of the first one made."""
    if not _first or not _first[0].exists():
        files = {"workflows/w.yaml": WORKFLOW, "issues/47.md": ISSUE, "adw.yaml": "ports: none\n"}
        make_repo(path, files)
        _first[:] = [path.parent / "untouched"]
        shutil.copytree(path, _first[0])
        return Repo(path)
    shutil.copytree(_first[0], path)
    return Repo(path)


def call(repo: Repo, *args: str, terminal: bool = False) -> Said:
    """Run a command in this process, in the repository."""
    out, err = Stream(terminal=terminal), Stream(terminal=terminal)
    before = os.getcwd()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        os.chdir(repo.path)
        try:
            code = main(list(args))
        finally:
            os.chdir(before)
    return Said(code, out.text(), err.text())


class Stream(io.TextIOWrapper):
    """A text stream with bytes below, as the real ones are."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)
        self._terminal = terminal

    def isatty(self) -> bool:
        """Whether to pass for a terminal."""
        return self._terminal

    def text(self) -> str:
        """All that was written."""
        self.flush()
        data = self.buffer
        assert isinstance(data, io.BytesIO)
        return data.getvalue().decode("utf-8", "surrogateescape")


def made_run(
    repo: Repo, entries: Sequence[HistoryEntry] = (), adw_id: str = ID, minute: int = 0
) -> Path:
    """A run whose history is `entries`, with the files of their attempts; nobody holds it."""
    places = find_places(str(repo.path))
    options = RunOptions("w", 47, parallel=True)
    lock = create(places, options, adw_id, make_plan(places, options, adw_id))
    state, data = load_state(lock.run_dir)
    state = state.changed(updated_at=f"2026-01-02T03:{minute:02}:00.000000Z")
    StateFile(lock.run_dir, state, data).save(state.appended(entries))
    for entry in entries:
        if entry.attempt:
            made_attempt(Path(lock.run_dir), entry)
    lock.close()
    return Path(lock.run_dir)


def made_attempt(run_dir: Path, entry: HistoryEntry) -> None:
    """The directories of one attempt, with an exit line as its entry says."""
    child = f"{entry.phase}-{entry.attempt}"
    launch = {"phase": entry.phase, "attempt": entry.attempt, "repairs": entry.repairs}
    packet = attempts.write_packet(
        str(run_dir), child, b"# task\n", {**launch, "at": entry.started_at}
    )
    code = 0 if entry.success else 3
    line = {"line": "exit", "exit_code": code, "signal": None, "reason": entry.reason}
    os.write(packet.lock_fd, attempts.encode({**line, "error": None}) + b"\n")
    os.close(packet.lock_fd)


def entry(phase: str, attempt: int = 1, reason: str | None = None, **more: Any) -> HistoryEntry:
    """An entry that took 1.5 s; a reason makes it a failure."""
    start = f"2026-01-02T03:00:{attempt:02}.000000Z"
    end = f"2026-01-02T03:00:{attempt + 1:02}.500000Z"
    fields = {
        "phase": phase,
        "attempt": attempt,
        "success": reason is None,
        "reason": reason,
        "started_at": start,
        "ended_at": end,
        "commit": COMMIT,
    }
    return HistoryEntry.model_validate({**fields, **more})


def done() -> list[HistoryEntry]:
    """The history of a run that succeeded."""
    return [entry("plan"), entry("test"), entry("commit")]


def failed() -> list[HistoryEntry]:
    """The history of a run whose `test` failed twice."""
    return [entry("plan"), entry("test", 1, "exit"), entry("test", 2, "exit")]


def log(run_dir: Path, child: str, name: str, data: bytes) -> None:
    """Write a log of an attempt."""
    (run_dir / "attempts" / child / name).write_bytes(data)


@contextmanager
def held(run_dir: Path) -> Iterator[None]:
    """Hold a run's lock, as an orchestrator does."""
    lock = runs.open_run(str(run_dir))
    try:
        yield
    finally:
        lock.close()


def skip(phase: str) -> HistoryEntry:
    """A recorded skip."""
    return HistoryEntry(
        phase=phase, success=True, reason="skipped", ended_at="2026-01-02T03:00:09.000000Z"
    )
