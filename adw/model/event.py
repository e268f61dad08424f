"""The events of `state/task_history.jsonl`: a closed union, the same keys for a kind each time.

The history is an audit trail: `decide` never reads it. Order is `seq`; `ts` is real UTC. A wrong
line is never changed but put right by a `correction` that names its `seq`.
"""

from typing import Any, Final

SCHEMA_VERSION: Final = 1

COMMON: Final = (
    "schema_version",
    "seq",
    "ts",
    "event",
    "stage",
    "child_id",
    "entries",
    "recovered",
)
"""Slots of every event. `stage`: the phase or null; `entries`: length of phase_history when it was
written; `recovered`: written at open from state and attempt files, since a crash swallowed it."""

KINDS: Final[dict[str, tuple[str, ...]]] = {
    "run_created": ("workflow", "issue_number", "base"),
    "run_opened": ("command", "pid"),
    "workspace_ready": ("worktree", "branch", "action"),
    "child_launched": ("attempt", "repairs", "packet"),
    "child_adopted": ("attempt", "supervisor_pid"),
    "child_completed": ("attempt", "success", "reason", "exit_code", "commit", "detail"),
    "phase_skipped": ("reason",),
    "phase_marked": ("reason",),
    "state_set": ("fields",),
    "state_restored": ("evidence",),
    "definition_changed": ("workflow", "marked"),
    "request_applied": ("request", "kind"),
    "run_paused": (),
    "run_closed": ("closing", "reason"),
    "correction": ("corrects", "detail"),
}


def make_event(
    kind: str, seq: int, ts: str, common: dict[str, Any], slots: dict[str, Any]
) -> dict[str, Any]:
    """Build one event; the keys of a kind are fixed, so a wrong slot is a bug.

    Args:
        kind: One of `KINDS`.
        seq: Position in the file, from 1.
        ts: Instant of writing.
        common: `stage`, `child_id`, `entries`, `recovered`.
        slots: Exactly the slots of the kind.
    """
    assert tuple(slots) == KINDS[kind], (kind, tuple(slots))
    return {
        "schema_version": SCHEMA_VERSION,
        "seq": seq,
        "ts": ts,
        "event": kind,
        "stage": common.get("stage"),
        "child_id": common.get("child_id"),
        "entries": common["entries"],
        "recovered": common.get("recovered", False),
        **slots,
    }


def event_fault(event: object) -> str | None:
    """What is wrong with a line of the history, or None."""
    if not isinstance(event, dict):
        return "not an object"
    kind = event.get("event")
    if kind not in KINDS:
        return f"unknown event `{kind}`"
    expected = {*COMMON, *KINDS[kind]}
    if set(event) != expected:
        odd = sorted(set(event) ^ expected)
        return f"wrong keys for `{kind}`: {', '.join(odd)}"
    return None
