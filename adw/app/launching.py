"""The launch of one attempt: its packet on disk, and what its supervisor is told."""

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from glob import escape
from typing import Any

from adw.app.environment import Identity, body_environment
from adw.app.keeping import Ground
from adw.app.packets import Brief, child_task
from adw.app.promoting import inputs_json, owed, with_outputs
from adw.app.verdicts import BUILTIN_ENSURE
from adw.core.decide import Start
from adw.core.graph import Phase
from adw.core.interfaces import LaunchSpec
from adw.store import attempts
from adw.store.encoding import text_bytes


class IncompletePacket(Exception):
    """A packet that names a path which is not there; says which, in one line."""


@dataclass(frozen=True, slots=True)
class Launch:
    """What is launched."""

    start: Start
    phase: Phase
    """With its templates filled."""
    child_id: str
    at: str
    round: int
    """Which round of the phase it belongs to; see adw.core.rounds."""
    before: str | None
    """Fingerprint of the tree, where `ensure: [changed]` asks for it."""
    ground: Ground
    brief: Brief
    skill: bytes | None
    secrets: Mapping[str, str]
    """Values of what the phase's `secrets` names."""


@dataclass(frozen=True, slots=True)
class Launched:
    """A packet on disk, its lock held."""

    spec: LaunchSpec
    lock_fd: int
    task_sha256: str


def write_launch(
    launch: Launch, base_env: Mapping[str, str], config: Mapping[str, Any]
) -> Launched:
    """Write TASK.md, SKILL.md and the launch line.

    Raises:
        IncompletePacket: It would name a path that is not there; nothing was written.
        OSError: The packet is not whole; opening the run removes it.
    """
    start, phase, child, brief = launch.start, launch.phase, launch.child_id, launch.brief
    for path in brief.named(phase):
        if not os.path.exists(path):
            message = f"its packet names `{path}`, which is not there"
            raise IncompletePacket(message)
    line = {
        "phase": start.phase,
        "attempt": start.attempt,
        "repairs": start.repairs,
        "round": launch.round,
        "at": launch.at,
        "argv": phase.argv,
        "before": launch.before,
        "head": launch.ground.head,
        "kept": launch.ground.kept,
    }
    if phase.outputs:
        line["outputs"] = owed(phase)
    text = text_bytes(child_task(phase, child, brief))
    packet = attempts.write_packet(brief.run_dir, child, text, line, launch.skill)
    who = Identity(brief.run_dir, brief.worktree, brief.state, child, start.attempt, launch.round)
    env = body_environment(base_env, phase, who, inputs_json(brief.inputs))
    spec = LaunchSpec(
        child_id=child,
        argv=phase.argv,
        env={**env, **launch.secrets},
        cwd=os.path.join(brief.worktree, phase.cwd) if phase.cwd else brief.worktree,
        attempt_dir=packet.attempt_dir,
        sync_files=packet.sync_files,
        sync_dirs=packet.sync_dirs,
        **_limits(phase, brief, config),
        ensure=tuple(each for each in phase.ensure if each[0] not in BUILTIN_ENSURE),
        redact=tuple(launch.secrets.values()),
    )
    return Launched(
        spec.with_log(phase.log_bytes), packet.lock_fd, hashlib.sha256(text).hexdigest()
    )


def _limits(phase: Phase, brief: Brief, config: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "timeout_s": phase.timeout_s,
        "idle_timeout_s": phase.idle_timeout_s,
        "memory_bytes": phase.memory_bytes,
        "processes": phase.processes,
        "disk_bytes": phase.disk_bytes,
        "disk_reserve": config.get("disk_reserve"),
        "disk_roots": (
            ("the worktree", brief.worktree),
            ("the run's directory", brief.run_dir),
        ),
    }


def filled(
    phase: Phase,
    values: Mapping[str, object],
    fill: Callable[[str, Mapping[str, object]], str],
    program: Callable[[str], tuple[str, ...]],
) -> Phase:
    """The phase with its templates filled: argv, options, directory, `ensure`, outputs' paths.

    Raises:
        ValueError: A name has no value yet.
    """

    def words(argv: Sequence[str]) -> tuple[str, ...]:
        if tuple(argv[:2]) == ("sh", "-euc"):
            return tuple(argv)
        return tuple(fill(word, values) for word in argv)

    plain = {name: escape(str(v)) for name, v in values.items() if v is not None}
    return replace(
        with_outputs(phase, lambda path: fill(path, plain)),
        argv=program(phase.use) if phase.use else words(phase.argv),
        options=tuple((name, fill(text, values)) for name, text in phase.options),
        cwd=None if phase.cwd is None else fill(phase.cwd, values),
        ensure=tuple(words(each) for each in phase.ensure),
    )
