"""Events and reports that a crash swallowed, told again at open from the state and the attempts.

A batch of events is one write after the commit: a crash loses it, or a part of its end.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from adw.app import handing
from adw.app.entries import end_events, promoted
from adw.app.narrowing import faults_before
from adw.app.packets import SHOWN
from adw.app.rebuilding import attempt_detail
from adw.core.recovery import blamed
from adw.ids import child_id
from adw.model.state import HistoryEntry
from adw.store import attempts, files
from adw.store.effects import Shelf

if TYPE_CHECKING:
    from adw.app.session import Session


def recover(session: "Session") -> None:
    """Bring history and reports up to the state; nothing is started."""
    _correct(session)
    entries, known = session.state.phase_history, session.parts.history.entries
    for number in range(known, len(entries)):
        _tell_entry(session, number, entries[number])
    _promotions(session)
    _decisions(session)
    session.recoveries.extend(session.parts.history.latest("recovery_decided", SHOWN))
    for entry in entries:
        if entry.attempt:
            _report(session, entry)


def tell_launch(
    session: "Session", child: str, lines: list[dict[str, Any]], before: Sequence[HistoryEntry]
) -> None:
    """Tell the packet and the launch of an attempt, where a crash left them untold.

    Args:
        session: The open run.
        child: The attempt.
        lines: Its lines.
        before: The entries that were there when it was launched.
    """
    launch = attempts.find(lines, "launch")
    if launch is None:
        return
    phase, count = launch["phase"], len(before)
    packet = f"children/{child}"
    digest = handing.task_digest(session.run_dir, child)
    if digest and not _told(session, "packet_written", phase, child):
        missing = launch["attempt"] > 1 and faults_before(session.run_dir, phase, before)
        cause = "narrowed_retry" if missing else "attempt"
        slots: dict[str, Any] = {"packet": packet, "task_sha256": digest, "cause": cause}
        _add(session, "packet_written", slots, count, phase, child)
    if attempts.find(lines, "body") and not _told(session, "child_launched", phase, child):
        slots = {"attempt": launch["attempt"], "repairs": launch.get("repairs"), "packet": packet}
        _add(session, "child_launched", slots, count, phase, child)


def _tell_entry(session: "Session", number: int, entry: HistoryEntry) -> None:
    if not entry.attempt:
        kind = "phase_skipped" if entry.reason == "skipped" else "phase_marked"
        _add(session, kind, {"reason": entry.reason or "elsewhere"}, number + 1, entry.phase, None)
        return
    child = child_id(entry.phase, entry.attempt)
    lines = _lines(session, child)
    tell_launch(session, child, lines, session.state.phase_history[:number])
    code, verdict = attempts.exit_code(lines), _verdict(entry, lines)
    tried = Shelf().of_child(session.run_dir, child)
    for kind, slots in end_events(entry, child, code, verdict, tried):
        if kind == "artifact_promoted" and _is_latest(session, slots):
            continue  # looked for below, all together
        _add(session, kind, slots, number + 1, entry.phase, child)


def _is_latest(session: "Session", slots: Mapping[str, Any]) -> bool:
    """Whether what was promoted is in the manifest still."""
    entry = session.manifest.entries.get(slots["logical_name"])
    return entry is not None and entry["producer"] == slots["producer"]


def _promotions(session: "Session") -> None:
    """No file of the manifest without its event."""
    for name, entry in session.manifest.entries.items():
        child = entry["producer"]
        phase = attempts.split(child)[0]
        events = session.parts.history.told("artifact_promoted", phase, child)
        if name not in {event["logical_name"] for event in events}:
            kind, slots = promoted(child, name, entry)
            _add(session, kind, slots, len(session.state.phase_history), phase, child)


def _decisions(session: "Session") -> None:
    """Have the next decision tell of the failures whose recovery was left untold.

    They are told in the order of the entries, so what is untold is at the end.
    """
    for entry in reversed(session.state.phase_history):
        if entry.success or not entry.attempt or entry.phase not in session.graph.phases:
            continue
        child = child_id(entry.phase, entry.attempt)
        if _told(session, "recovery_decided", entry.phase, child):
            break
        verdict = _verdict(entry, _lines(session, child))
        narrowed = bool(blamed(entry.reason, verdict["faults"]))
        session.undecided.append((entry, narrowed))
    session.undecided.reverse()


def _correct(session: "Session") -> None:
    """Put events right that tell of entries which the state has not got (any more)."""
    count = len(session.state.phase_history)
    for event in session.parts.history.beyond(count):
        detail = f"the state has {count} entries: this one was taken back or never durable"
        slots = {"corrects": event["seq"], "detail": detail}
        session.parts.history.add("correction", slots, entries=count, recovered=True)


def _report(session: "Session", entry: HistoryEntry) -> None:
    """Have a child's RESPONSE.md written where it is missing."""
    child = child_id(entry.phase, entry.attempt)
    folder = attempts.child_dir(session.run_dir, child)
    if folder is None or os.path.lexists(os.path.join(folder, "RESPONSE.md")):
        return
    files.sweep(folder)
    session.respond(entry, child, _verdict(entry, _lines(session, child)))


def _told(session: "Session", kind: str, phase: str, child: str) -> bool:
    return any(True for _ in session.parts.history.told(kind, phase, child))


def _verdict(entry: HistoryEntry, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """The verdict line that an entry was made from; what it would say where there is none."""
    found = attempts.verdict(lines)
    if found and (found["success"], found["reason"]) == (entry.success, entry.reason):
        return found
    return {"detail": attempt_detail(entry, lines), "outputs": {}, "faults": []}


def _lines(session: "Session", child: str) -> list[dict[str, Any]]:
    return attempts.lines_of(session.run_dir, child)


def _add(
    session: "Session",
    kind: str,
    slots: dict[str, Any],
    entries: int,
    phase: str,
    child: str | None,
) -> None:
    session.parts.history.add(
        kind, slots, entries=entries, stage=phase, child_id=child, recovered=True
    )
