"""What is told of a thing that is wrong, and of one that was mended."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a person should know of."""

    kind: str
    """state, definition, history, derived, artifact, evidence, request, effect, leftover, orphan, lost,
    worktree, environment, process, group, lease or lock."""
    adw_id: str | None
    path: str
    detail: str
    hint: str | None = None
    """What would mend it."""


@dataclass(frozen=True, slots=True)
class Mend:
    """A finding that adw can mend itself, and how."""

    finding: Finding
    act: Callable[[], str]
    """Mends it and says in a few words what was done; AdwError or OSError: it could not."""


@dataclass(frozen=True, slots=True)
class Mended:
    """What became of a finding."""

    kind: str
    adw_id: str | None
    path: str
    done: str | None
    """What was done; None: nothing could be."""
    failed: str | None = None
    """Why not."""
