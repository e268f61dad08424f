"""A tree with outputs, and the place of their copies."""

import os
from pathlib import Path
from typing import Any

import pytest

from adw.store.artifacts import OutputFault, Taken, take

CANARY = b"canary: from outside the tree"


class Ground:
    """A worktree beside a secret, and the place of a copy."""

    def __init__(self, tmp_path: Path) -> None:
        self.run = tmp_path / "run"
        self.root = tmp_path / "tree"
        self.outside = tmp_path / "outside"
        self.artifacts = self.run / "artifacts"
        self.target = self.artifacts / "plan" / "plan-1"
        for directory in (self.run, self.root / "specs", self.outside):
            directory.mkdir(parents=True)
        (self.outside / "secret").write_bytes(CANARY)

    def write(self, name: str, content: bytes = b"the plan\n") -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def take(self, pattern: str, **how: Any) -> Taken:
        return take(str(self.root), pattern, str(self.target), **how)

    def refusal(self, pattern: str, **how: Any) -> tuple[str, str]:
        """Kind and detail of a fault; nothing may be copied."""
        with pytest.raises(OutputFault) as caught:
            self.take(pattern, **how)
        assert not self.target.exists() or os.listdir(self.target) == []
        detail = caught.value.detail
        assert detail.isprintable(), detail
        return caught.value.kind, detail


def contract(detail: str) -> tuple[str, str]:
    return "contract", detail


def missing(detail: str) -> tuple[str, str]:
    return "missing_output", detail
