"""`state/task_history.jsonl`: append-only events, whole lines.

Written after the commit and not synced: what a crash swallows is written again at open from the
state and the attempt files, marked `recovered`. A torn last line is moved to
`task_history.jsonl.torn.<n>` before the next append.
"""

import errno
import json
import os
from collections.abc import Iterator
from typing import Any, Final

from adw import clock
from adw.model.event import event_fault, make_event
from adw.store import files
from adw.store.encoding import json_bytes

PATH: Final = os.path.join("state", "task_history.jsonl")
LIMIT: Final = 256 << 20  # bytes


class History:
    """The writer of a run's history; create it only while the run's lock is held."""

    def __init__(self, run_dir: str) -> None:
        self._path = os.path.join(run_dir, PATH)
        data = self._readable()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            self._set_aside(data[len(whole) :])
            files.replace(self._path, whole)
        last = _last(whole)
        self.seq: int = last.get("seq", whole.count(b"\n"))
        self.entries: int = last.get("entries", 0)
        """Length of phase_history that the last event knew."""
        self._fd = files.open_append(self._path)
        self._before: bytes = whole
        """What was there when it was opened; let go with the first flush."""
        self._pending: list[bytes] = []
        self._wrong: set[int] | None = None

    def add(
        self,
        kind: str,
        slots: dict[str, Any],
        *,
        entries: int,
        stage: str | None = None,
        child_id: str | None = None,
        recovered: bool = False,
    ) -> None:
        """Remember one event; `flush` appends it.

        Raises:
            ValueError: Something in it is no JSON; nothing is remembered.
        """
        common = {"stage": stage, "child_id": child_id, "entries": entries, "recovered": recovered}
        event = make_event(kind, self.seq + 1, clock.stamp(), common, slots)
        self._pending.append(json_bytes(event))
        if kind == "correction":
            self._corrected().add(slots["corrects"])
        self.seq += 1

    def flush(self) -> None:
        """Append what was added, in one write."""
        self._before = b""
        if self._pending:
            files.append(self._fd, b"\n".join(self._pending))
            self._pending.clear()

    def told(self, kind: str, stage: str, child_id: str) -> Iterator[dict[str, Any]]:
        """Events of a kind about one attempt, from before this opening; not after a flush.

        What a correction takes back was not told.
        """
        return self._valid({"event": kind, "stage": stage, "child_id": child_id})

    def latest(self, kind: str, count: int) -> list[dict[str, Any]]:
        """The last events of a kind from before this opening, oldest first; not after a flush."""
        return list(self._valid({"event": kind}))[-count:]

    def _valid(self, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        wrong = self._corrected()
        return (event for event in self._with(names) if event["seq"] not in wrong)

    def _corrected(self) -> set[int]:
        """`seq` of what was taken back."""
        if self._wrong is None:
            self._wrong = {event["corrects"] for event in self._with({"event": "correction"})}
        return self._wrong

    def beyond(self, entries: int) -> list[dict[str, Any]]:
        """Events at the end that tell of more entries than there are; not after a flush.

        Those that were taken back already are left out.
        """
        found: list[dict[str, Any]] = []
        end = len(self._before)
        while end > 0:
            start = self._before.rfind(b"\n", 0, end - 1) + 1
            event = _good(self._before[start:end])
            end = start
            if event is None or event["event"] == "correction":
                continue
            if event["entries"] <= entries:
                break
            if event["seq"] not in self._corrected():
                found.append(event)
        return found[::-1]

    def _with(self, names: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Good events with these slots, side by side in a line: found without parsing all."""
        fragment = json_bytes(names)[1:-1] + b","
        at = self._before.find(fragment)
        while at >= 0:
            start = self._before.rfind(b"\n", 0, at) + 1
            end = self._before.find(b"\n", at)
            event = _good(self._before[start:end])
            if event is not None and names.items() <= event.items():
                yield event
            at = self._before.find(fragment, end)

    def _readable(self) -> bytes:
        """What is there; what is no history at all, or too much, is moved aside: it stops no run."""
        try:
            return files.read_if_exists(self._path, limit=LIMIT) or b""
        except OSError as error:
            if not isinstance(error, files.NotOurs) and error.errno != errno.EFBIG:
                raise
            files.rename(self._path, self._free_name())
            return b""

    def _set_aside(self, torn: bytes) -> None:
        files.create(self._free_name(), torn)

    def _free_name(self) -> str:
        number = 1
        while os.path.lexists(target := f"{self._path}.torn.{number}"):
            number += 1
        return target


def read_history(run_dir: str) -> Iterator[dict[str, Any]]:
    """All good events; a bad line appears as `{"event": "damaged", "line": n, "why": …}`."""
    try:
        data = files.read_if_exists(os.path.join(run_dir, PATH), limit=LIMIT) or b""
    except files.NotOurs as error:
        yield {"event": "damaged", "line": 0, "why": error.strerror}
        return
    for number, raw in enumerate(data.split(b"\n"), 1):
        if not raw:
            continue
        try:
            event = json.loads(raw)
        except (ValueError, RecursionError):
            yield {"event": "damaged", "line": number, "why": "not JSON"}
            continue
        fault = event_fault(event)
        yield {"event": "damaged", "line": number, "why": fault} if fault else event


def _good(raw: bytes) -> dict[str, Any] | None:
    try:
        event = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return None if event_fault(event) else event


def _last(whole: bytes) -> dict[str, Any]:
    """The last good event."""
    end = len(whole)
    while end > 0:
        start = whole.rfind(b"\n", 0, end - 1) + 1
        try:
            event = json.loads(whole[start:end])
        except (ValueError, RecursionError):
            event = None
        if isinstance(event, dict) and all(type(event.get(k)) is int for k in ("seq", "entries")):
            return event
        end = start
    return {}
