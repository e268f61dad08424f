"""The JSON Schema of an event, and what each of its slots means; loaded by nobody who only reads."""

from typing import Any, Final, get_args

from adw.model.event import COMMON, KINDS, SCHEMA_VERSION
from adw.model.state import Reason

CHOICES: Final[dict[tuple[str, str], tuple[str, ...]]] = {
    ("packet_written", "cause"): ("attempt", "narrowed_retry", "addendum"),
    ("tree_reset", "cause"): ("on_retry", "rewind"),
    ("base_updated", "how"): ("merged", "fast_forward"),
    ("recovery_decided", "reason"): get_args(Reason),
    ("recovery_decided", "action"): (
        "retry", "narrowed_retry", "rerun", "repair", "wait", "hold", "excuse", "give_up",
    ),
    ("effect_recorded", "state"): ("intent", "done", "unknown", "not_done"),
    ("effect_settled", "state"): ("done", "not_done"),
}  # fmt: skip
"""Slots whose values are a closed list."""

MEANING: Final[dict[str, str]] = {
    "run_created": "The run's directory was made.",
    "run_opened": "An orchestrator took the run's lock.",
    "run_queued": "As many runs work as may at once; this one waits for its turn.",
    "run_admitted": "A run that was queued has its turn.",
    "workspace_ready": "The worktree is there.",
    "packet_written": "The TASK.md of an attempt was written, or added to.",
    "input_changed": "A file that the attempt reads is not the one that was promoted; it is used as"
    " it is.",
    "tree_kept": "What lies in the worktree was kept as a commit.",
    "tree_reset": "The worktree and its branch were put back to what they were before an attempt.",
    "base_updated": "The base branch's tip was brought into the run's branch.",
    "child_launched": "An attempt was let go.",
    "child_adopted": "An attempt that outlived its orchestrator was taken over.",
    "child_completed": "An attempt is over and recorded.",
    "artifact_promoted": "An output was copied and is in the manifest.",
    "recovery_decided": "What follows a failure.",
    "effect_recorded": "What an attempt left of an outside effect.",
    "effect_settled": "A person said whether an outside effect took place.",
    "task_added": "A person added to the task of a phase.",
    "phase_skipped": "A phase's `when` did not hold.",
    "phase_marked": "A phase starts again, or was cancelled before it started.",
    "state_set": "A person set fields of the state.",
    "state_restored": "Somebody else had changed the state file; the last written one was put back.",
    "definition_changed": "Another workflow or version of it counts from here on.",
    "request_applied": "A person's request was applied.",
    "run_paused": "A person paused the run.",
    "run_left": "Its orchestrator left a run that is not over, and why: a pause, a signal, a rewind or a full disk.",
    "run_closed": "The run is over, or stands still.",
    "warning": "Something that stops nothing and that a person should know.",
    "correction": "An earlier event is wrong.",
}
"""What a kind tells."""

SLOTS: Final[dict[str, str]] = {
    "by": "What made it leave: pause, SIGINT, SIGTERM or no_place.",
    "schema_version": "Version of all events.",
    "seq": "Position in the file, from 1; the order of events.",
    "ts": "The moment of writing, UTC.",
    "event": "Its kind.",
    "stage": "The phase, or null.",
    "child_id": "The attempt, or null.",
    "entries": "Length of `phase_history` when the event was written.",
    "recovered": "Whether a crash had swallowed it and the next `adw resume` wrote it.",
    "workflow": "`<name>@<definition id>`.",
    "issue_number": "Number of the issue.",
    "base": "Commit that the branch starts from.",
    "command": "The command that opened the run.",
    "pid": "Process id of the orchestrator.",
    "position": "Its place among those that wait; 1 is the next.",
    "limit": "How many runs of the repository may work at once.",
    "waited_s": "Seconds that it waited.",
    "worktree": "Path of the worktree, relative to the main checkout.",
    "branch": "Branch of the run.",
    "action": "What was done.",
    "packet": "The attempt's folder, relative to the run's directory.",
    "task_sha256": "SHA-256 of TASK.md as it is now, hex.",
    "cause": "Why it was written.",
    "logical_name": "Logical name of the artifact.",
    "path": "The file that was read.",
    "recorded_sha256": "SHA-256 at its promotion, hex.",
    "found_sha256": "SHA-256 now, hex.",
    "ref": "The ref that names the commit.",
    "left_out": "Paths that are not in the commit, each with the reason.",
    "head": "Commit that the branch names now.",
    "base_branch": "Name of the base branch.",
    "old": "Commit that the run's branch named before.",
    "new": "Commit that it names now.",
    "how": "How that was done.",
    "attempt": "Number of the attempt.",
    "repairs": "With a repair phase: the owner that called it.",
    "supervisor_pid": "Process id of its supervisor.",
    "success": "Whether the phase is done by this attempt.",
    "reason": "Why; a failure kind where an attempt failed.",
    "exit_code": "Exit code of its command.",
    "commit": "A commit: HEAD of the worktree afterwards, or the kept tree; null: none.",
    "detail": "One line for people.",
    "artifact_path": "The copy, relative to the run's directory; null where nothing was copied.",
    "producer": "The attempt that put it out.",
    "target": "With `repair`: the repair phase.",
    "key": "What the phase calls the effect.",
    "round": "Round of the phase.",
    "state": "What is known of the effect.",
    "effect": "Its record, relative to the run's directory.",
    "request": "File name of the request.",
    "size_bytes": "Bytes that were added.",
    "fields": "State field to its new value.",
    "evidence": "File with what was found, in the run's directory; null: the state was missing.",
    "marked": "Phases whose definition is another one now.",
    "kind": "What was asked.",
    "closing": "How it ended.",
    "corrects": "`seq` of the wrong event.",
}

_INSTANT: Final = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$"
_TYPES: Final[dict[str, dict[str, Any]]] = {
    "str": {"type": "string"},
    "str|null": {"type": ["string", "null"]},
    "int": {"type": "integer"},
    "int|null": {"type": ["integer", "null"]},
    "bool": {"type": "boolean"},
    "object": {"type": "object"},
    "list[str]": {"type": "array", "items": {"type": "string"}},
}


def event_schema() -> dict[str, Any]:
    """One line of `state/task_history.jsonl`: exactly one of the kinds."""
    return {
        "title": "Event",
        "description": "One line of state/task_history.jsonl.",
        "oneOf": [{"$ref": f"#/$defs/{kind}"} for kind in KINDS],
        "$defs": {kind: _kind(kind) for kind in KINDS},
    }


def _kind(kind: str) -> dict[str, Any]:
    slots = COMMON | KINDS[kind]
    return {
        "type": "object",
        "description": MEANING[kind],
        "properties": {name: _slot(kind, name, word) for name, word in slots.items()},
        "required": list(slots),
        "additionalProperties": False,
    }


def _slot(kind: str, name: str, word: str) -> dict[str, Any]:
    found = {**_TYPES[word], "description": SLOTS[name]}
    if name == "event":
        return {"const": kind, "description": SLOTS[name]}
    if name == "schema_version":
        return {**found, "const": SCHEMA_VERSION}
    if name == "ts":
        return {**found, "pattern": _INSTANT}
    if name in {"seq", "corrects"}:
        return {**found, "minimum": 1}
    if choices := CHOICES.get((kind, name)):
        return {**found, "enum": list(choices)}
    return found
