"""The events of `state/task_history.jsonl`: a closed union, the same keys for a kind each time.

The history is an audit trail: `decide` never reads it. Order is `seq`; `ts` is real UTC. A wrong
line is never changed but put right by a `correction` that names its `seq`.
"""

from collections.abc import Mapping
from typing import Any, Final

SCHEMA_VERSION: Final = 1

COMMON: Final = {
    "schema_version": "int",
    "seq": "int",
    "ts": "str",
    "event": "str",
    "stage": "str|null",
    "child_id": "str|null",
    "entries": "int",
    "recovered": "bool",
}
"""Slots of every event with their types. `stage`: the phase or null; `entries`: length of
phase_history when it was written; `recovered`: written at open from state and attempt files, since
a crash swallowed it."""

KINDS: Final[dict[str, dict[str, str]]] = {
    "run_created": {"workflow": "str", "issue_number": "int|null", "base": "str|null"},
    "run_opened": {"command": "str", "pid": "int"},
    "run_queued": {"position": "int", "limit": "int"},
    "run_admitted": {"waited_s": "int"},
    "workspace_ready": {"worktree": "str|null", "branch": "str|null", "action": "str"},
    "packet_written": {"packet": "str", "task_sha256": "str", "cause": "str"},
    "input_changed": {
        "logical_name": "str",
        "path": "str",
        "recorded_sha256": "str",
        "found_sha256": "str",
    },
    "tree_kept": {"ref": "str", "commit": "str", "left_out": "list[str]"},
    "tree_reset": {"head": "str", "commit": "str|null", "cause": "str"},
    "base_updated": {"base_branch": "str", "old": "str", "new": "str", "how": "str"},
    "child_launched": {"attempt": "int", "repairs": "str|null", "packet": "str"},
    "child_adopted": {"attempt": "int", "supervisor_pid": "int"},
    "child_completed": {
        "attempt": "int",
        "success": "bool",
        "reason": "str|null",
        "exit_code": "int|null",
        "commit": "str|null",
        "detail": "str|null",
    },
    "artifact_promoted": {"logical_name": "str", "artifact_path": "str|null", "producer": "str"},
    "recovery_decided": {
        "attempt": "int",
        "reason": "str",
        "action": "str",
        "target": "str|null",
        "detail": "str|null",
    },
    "effect_recorded": {"key": "str", "round": "int", "state": "str", "effect": "str"},
    "effect_settled": {"key": "str", "round": "int", "state": "str"},
    "task_added": {"request": "str", "size_bytes": "int"},
    "phase_skipped": {"reason": "str"},
    "phase_marked": {"reason": "str"},
    "state_set": {"fields": "object"},
    "state_restored": {"evidence": "str|null"},
    "definition_changed": {"workflow": "str", "marked": "list[str]"},
    "request_applied": {"request": "str", "kind": "str"},
    "run_paused": {},
    "run_left": {"by": "str"},
    "run_closed": {"closing": "str", "reason": "str|null"},
    "warning": {"detail": "str"},
    "correction": {"corrects": "int", "detail": "str"},
}
"""Kind to its own slots, in order, with their types."""

_NONE: Final = type(None)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "str": (str,),
    "str|null": (str, _NONE),
    "int": (int,),
    "int|null": (int, _NONE),
    "bool": (bool,),
    "object": (dict,),
    "list[str]": (list,),
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
        slots: Exactly the slots of the kind, in their order.
    """
    types = KINDS[kind]
    assert list(slots) == list(types), (kind, list(slots))
    assert _misfit(slots, types) is None, (kind, _misfit(slots, types))
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
    if type(kind) is not str or kind not in KINDS:
        return f"unknown event `{kind}`"
    expected = COMMON | KINDS[kind]
    if event.keys() != expected.keys():
        odd = sorted(event.keys() ^ expected.keys())
        return f"wrong keys for `{kind}`: {', '.join(odd)}"
    name = _misfit(event, expected)
    if name is not None:
        return f"wrong type for `{name}` of `{kind}`: {expected[name]} is expected"
    if event["schema_version"] != SCHEMA_VERSION:
        return f"schema version {event['schema_version']} is found, {SCHEMA_VERSION} is expected"
    return None


def _misfit(values: Mapping[str, Any], types: Mapping[str, str]) -> str | None:
    """The first slot whose value has another type; a bool is no int."""
    for name, word in types.items():
        value = values[name]
        if type(value) not in _TYPES[word]:
            return name
        if word == "list[str]" and any(type(item) is not str for item in value):
            return name
    return None
