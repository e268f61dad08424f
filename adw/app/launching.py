"""The launch of one attempt: its packet on disk, and what its supervisor is told."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from adw.app.environment import body_environment
from adw.app.packets import child_task
from adw.app.verdicts import BUILTIN_ENSURE
from adw.core.decide import Start
from adw.core.graph import Phase
from adw.core.interfaces import LaunchSpec
from adw.model.state import ADWStateData
from adw.store import attempts


@dataclass(frozen=True, slots=True)
class Place:
    """Where the attempt belongs."""

    run_dir: str
    worktree: str
    state: ADWStateData
    run_info: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Launch:
    """What is launched."""

    start: Start
    phase: Phase
    """With its templates filled."""
    child_id: str
    at: str
    before: str | None
    """Fingerprint of the tree, where `ensure: [changed]` asks for it."""


def write_launch(
    place: Place, launch: Launch, base_env: Mapping[str, str]
) -> tuple[LaunchSpec, int]:
    """Write TASK.md and the launch line.

    Returns:
        What the supervisor is told, and the locked descriptor of attempt.jsonl.

    Raises:
        OSError: The packet is not whole; opening the run removes it.
    """
    start, phase, child = launch.start, launch.phase, launch.child_id
    line = {
        "phase": start.phase,
        "attempt": start.attempt,
        "repairs": start.repairs,
        "at": launch.at,
        "argv": phase.argv,
        "before": launch.before,
    }
    task = {
        "worktree": place.worktree,
        "repairs": start.repairs,
        "argv": phase.argv,
        "title": place.run_info["issue"]["title"],
    }
    text = child_task(phase, child, place.run_dir, place.state, task)
    packet = attempts.write_packet(place.run_dir, child, text, line)
    run = {"run_dir": place.run_dir, "worktree": place.worktree, "state": place.state}
    spec = LaunchSpec(
        child_id=child,
        argv=phase.argv,
        env=body_environment(base_env, phase, child, start.attempt, run),
        cwd=os.path.join(place.worktree, phase.cwd) if phase.cwd else place.worktree,
        attempt_dir=packet.attempt_dir,
        sync_files=packet.sync_files,
        sync_dirs=packet.sync_dirs,
        timeout_s=phase.timeout_s,
        idle_timeout_s=phase.idle_timeout_s,
        ensure=tuple(each for each in phase.ensure if each[0] not in BUILTIN_ENSURE),
    )
    return spec, packet.lock_fd
