"""Fakes of the engine's interfaces, scripted by the test; no process, no git."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from adw.core.interfaces import Ended, ExitRecord, Kept, LaunchSpec, Tree, TreeEnd
from adw.errors import WorktreeError

AT = "2026-01-01T00:00:00.000000Z"


def exits(code: int) -> ExitRecord:
    """A body that exited."""
    return ExitRecord(None if code == 0 else "exit", AT, AT, exit_code=code)


def ends(reason: str) -> ExitRecord:
    """A body that ended for a reason."""
    return ExitRecord(reason, AT, AT)


@dataclass
class FakeSupervision:
    """Runs nothing: each attempt ends as the script says, success where it says nothing.

    `script` maps (phase, attempt) to an exit record, or to None for a supervisor that dies.
    `calls` records what the engine did, in order.
    """

    script: Mapping[tuple[str, int], ExitRecord | None] = field(default_factory=dict)
    calls: list[tuple[str, str]] = field(default_factory=list)
    tree_end: str = "tag"
    end: TreeEnd = field(default_factory=lambda: TreeEnd(proved=True))
    held_back: list[str] = field(default_factory=list)
    """Attempts that do not end until they are stopped."""
    _handed: list[str] = field(default_factory=list)
    _running: list[str] = field(default_factory=list)
    _stopped: set[str] = field(default_factory=set)

    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        """Take the packet."""
        os.close(lock_fd)
        self.calls.append(("hand_over", spec.child_id))
        self._handed.append(spec.child_id)

    def go(self, child_id: str) -> None:
        """Start."""
        self._handed.remove(child_id)
        self.calls.append(("go", child_id))
        self._running.append(child_id)

    def adopt(self, child_id: str, attempt_dir: str, supervisor: Mapping[str, Any]) -> bool:
        """Nothing lives here."""
        del attempt_dir, supervisor
        self.calls.append(("adopt", child_id))
        return False

    def wait(self, timeout_s: float | None) -> Sequence[Ended]:
        """End the oldest attempt that may end."""
        for child in list(self._running):
            if child in self._stopped:
                self._running.remove(child)
                return [Ended(child, ends("stopped"))]
            if child not in self.held_back:
                self._running.remove(child)
                phase, _, attempt = child.rpartition("-")
                return [Ended(child, self.script.get((phase, int(attempt)), exits(0)))]
        assert timeout_s is not None, "the engine waits for ever for nothing"
        return []

    def await_durable(self, child_ids: Sequence[str]) -> None:
        """Nothing is written."""
        self.calls.extend(("durable", child) for child in child_ids)

    def stop(self, child_id: str) -> None:
        """Let it end."""
        self.calls.append(("stop", child_id))
        self._stopped.add(child_id)

    def end_tree(self, child_id: str, lines: Sequence[Mapping[str, Any]]) -> TreeEnd:
        """As the test says."""
        del lines
        self.calls.append(("end_tree", child_id))
        return self.end

    def close(self) -> None:
        """Nothing to let go."""


@dataclass
class FakeWorkspace:
    """A worktree whose content is a counter."""

    path: str
    content: int = 0
    dirty: bool = False
    broken: bool = False
    resets: list[tuple[str, str | None]] = field(default_factory=list)
    """Head and commit of each `back_to`."""

    def check(self) -> Tree:
        """HEAD, or the fault the test planted."""
        if self.broken:
            raise WorktreeError(
                detail="the `.git` file is gone", path=self.path, reason=None, fix=None
            )
        return Tree("a" * 40)

    def fingerprint(self) -> str:
        """Changes when the test changes `content`."""
        return f"tree {self.content}"

    def clean(self) -> bool:
        """Whether the test left it clean."""
        return not self.dirty

    def contains(self, commit: str) -> bool:
        """It never moves."""
        del commit
        return True

    def settings_changed(self, *, anew: bool = False) -> list[str]:
        """Nobody changes settings."""
        del anew
        return []

    def keep(self, name: str, exclude: Sequence[str], *, always: bool = False) -> Kept | None:
        """A dirty tree is kept by name."""
        del exclude
        return Kept(name, "b" * 40) if self.dirty or always else None

    def pin(self, name: str, commit: str) -> Kept:
        """As told."""
        return Kept(name, commit)

    def back_to(
        self, head: str, commit: str | None, name: str, exclude: Sequence[str], known: str | None
    ) -> Kept | None:
        """Record it."""
        del name, exclude, known
        self.resets.append((head, commit))
        return None

    def mend_locks(self) -> list[str]:
        """There are none."""
        return []


@dataclass
class FakeClock:
    """Jumps to whatever is waited for."""

    at: float = 1_767_225_600.0  # 2026-01-01T00:00:00Z

    def now(self) -> float:
        """Each look is a second later."""
        self.at += 1
        return self.at
