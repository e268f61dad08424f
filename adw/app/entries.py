"""What one attempt leaves in the record: its history entry, its report, the word on its recovery."""

import os
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from adw import clock
from adw.app.packets import child_response
from adw.core.contracts import signature
from adw.core.decide import Live
from adw.core.interfaces import ExitRecord
from adw.core.outcome import Verdict
from adw.model.state import HistoryEntry
from adw.store import attempts


def entry_of(
    live: Live, started_at: str, verdict: Verdict, record: ExitRecord | None, tail: str
) -> HistoryEntry:
    """The entry of an attempt that is over.

    Args:
        live: The attempt.
        started_at: When it was launched.
        verdict: What was judged.
        record: What its supervisor saw; None: nothing.
        tail: The end of what it said, for the signature of the failure.
    """
    ended_at = record.ended_at if record else clock.stamp()
    not_before = mark = None
    if verdict.retry_after_s is not None:
        at = datetime.fromisoformat(ended_at).timestamp() + verdict.retry_after_s
        not_before = clock.stamp(at)
    if not verdict.success and verdict.reason is not None and record is not None:
        mark = signature(verdict.reason, record.exit_code, tail)
    return HistoryEntry.model_validate(
        {
            "phase": live.phase,
            "attempt": live.attempt,
            "success": verdict.success,
            "reason": verdict.reason,
            "started_at": (record.started_at if record else None) or started_at,
            "ended_at": ended_at,
            "not_before": not_before,
            "signature": mark,
            "repairs": live.repairs,
        }
    )


def end_events(
    entry: HistoryEntry,
    child: str,
    exit_code: int | None,
    line: Mapping[str, Any],
    effects: Mapping[str, Mapping[str, Any]],
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kinds and slots of the events that tell the end of an attempt and what it put out.

    Args:
        entry: Of the attempt.
        child: Its name.
        exit_code: The program's, where it had one.
        line: Its verdict line.
        effects: Records of the outside effects that it tried, by path.
    """
    yield (
        "child_completed",
        {
            "attempt": entry.attempt,
            "success": entry.success,
            "reason": entry.reason,
            "exit_code": exit_code,
            "commit": entry.commit,
            "detail": line["detail"],
        },
    )
    for path, record in effects.items():
        known = {name: record[name] for name in ("key", "round", "state")}
        yield "effect_recorded", {**known, "effect": path}
    for fault in line.get("faults") or ():
        if fault["optional"]:
            detail = f"optional output `{fault['name']}`: {fault['detail']}"
            yield "warning", {"detail": detail}
    if entry.success:
        for name, output in (line.get("outputs") or {}).items():
            yield promoted(child, name, output)


def promoted(child: str, name: str, output: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The event of one promoted file."""
    slots = {"logical_name": name, "artifact_path": output["path"], "producer": child}
    return "artifact_promoted", slots


def report_of(
    run_dir: str, entry: HistoryEntry, child: str, verdict: Mapping[str, Any]
) -> tuple[str, str] | None:
    """Path and text of a child's RESPONSE.md as adw writes it where the child wrote none.

    Args:
        run_dir: The state root.
        entry: Of the attempt.
        child: Its name.
        verdict: `detail` and `outputs` of its verdict line.

    Returns:
        None where the attempt has no folder, as it was never launched.
    """
    folder = attempts.child_dir(run_dir, child)
    if folder is None:
        return None
    names = (f"attempts/{child}/{name}.log" for name in ("stdout", "stderr"))
    logs = [name for name in names if os.path.exists(os.path.join(run_dir, name))]
    outputs = verdict.get("outputs") or {}
    facts = {**dict(entry), "detail": verdict["detail"], "logs": logs, "outputs": outputs}
    return os.path.join(folder, "RESPONSE.md"), child_response(entry.phase, child, facts)


def recovery_words(event: Mapping[str, Any]) -> str:
    """A `recovery_decided` event in one line."""
    what = {
        "retry": "tried again",
        "narrowed_retry": "narrowed retry, for what is missing alone",
        "rerun": "started again, as it burns no try",
        "repair": f"repair by `{event['target']}`",
        "wait": "waits until it may be tried again",
        "hold": "held for a person",
        "excuse": "left out, as it may fail",
        "give_up": "given up",
    }.get(event["action"], event["action"])
    why = f" ({event['detail']})" if event["detail"] else ""
    return f"`{event['child_id']}` failed, {event['reason']}: {what}{why}"
