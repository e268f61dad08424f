"""One attempt in its supervisor: record, sync, gate, body, `ensure`, exit line.

    supervisor line → syncs → "go" → body line … → tree over → logs synced → exit line
    → told → synced → lock closed → "durable" told

The order is the contract: no body without a durable supervisor line, no exit line while anything
of the tree lives (it names survivors), no free lock before the exit line is on disk.
"""

import contextlib
import json
import os
import time
from typing import Any, Final

from adw import failpoints
from adw.store import files
from adw.supervise import procs
from adw.supervise.body import Body, Outcome, quoted
from adw.supervise.ears import Ears
from adw.supervise.pump import CappedLog

_NO_CODE: Final[dict[str, Any]] = {"exit_code": None, "signal": None}


class Attempt:
    """One launch, from its descriptor to its exit line."""

    def __init__(self, ears: Ears, spec: dict[str, Any], fd: int) -> None:
        self._ears = ears
        self.spec = spec
        self.child_id: str = spec["child_id"]
        self.directory: str = spec["attempt_dir"]
        self.started_at: str | None = None
        self._fd = fd
        self._survivors: tuple[int, ...] = ()
        self._logs: list[CappedLog] = []
        self._fault: tuple[str, str] | None = None

    def run(self) -> bool:
        """Do it.

        Returns:
            Whether the supervisor can take another one: False after survivors.
        """
        try:
            if not self._record():
                return True
            while not (self._ears.gone_ahead or self._given_up()):
                self._ears.turn(None)
            if self._given_up():
                self._end({"reason": "interrupted", **_NO_CODE, "error": None})
            else:
                self._end(self._live())
        finally:
            os.close(self._fd)  # closed, never unlocked: this frees the attempt
        self._tell_durable()
        return not self._survivors

    def _given_up(self) -> bool:
        return bool(self._ears.stops) or (self._ears.orphaned and not self._ears.gone_ahead)

    # --- before the body -----------------------------------------------------------------

    def _record(self) -> bool:
        """Append who supervises, make the packet durable; False where the disk says no."""
        adw_id = self.spec["env"].get("ADW_ID", "")
        note = {"attempt_dir": self.directory, "adw_id": adw_id, "child_id": self.child_id}
        self._ears.note(json.dumps(note).encode())
        self._ears.tree.tag = (adw_id, self.child_id)
        path = f"{self.directory}/attempt.jsonl"
        try:
            self._append(self._identity(adw_id))
            failpoints.hit("shim.recorded")
            for path in (*self.spec["sync_files"], f"{self.directory}/attempt.jsonl"):
                files.sync_file(path)
            for path in self.spec["sync_dirs"]:
                files.sync_dir(path)
        except OSError as error:
            self._refuse(path, error)
            return False
        return True

    def _identity(self, adw_id: str) -> dict[str, Any]:
        tree = self._ears.tree
        pid, start_time = self._ears.nursery
        return {
            "line": "supervisor",
            "pid": os.getpid(),
            "start_time": self._ears.start_time,
            "boot_id": procs.boot_id(),
            "session": os.getsid(0),
            "cgroup": tree.cgroup,
            "tree_end": "cgroup" if tree.cgroup else "tag",
            "nursery": {"pid": pid, "start_time": start_time},
            "adw_id": adw_id,
            "child_id": self.child_id,
            "attempt_dir": self.directory,
        }

    def _refuse(self, path: str, error: OSError) -> None:
        """The packet is not durable: no body, and whoever waits must know why."""
        text = f"{error.strerror}"
        exit_ = {"reason": "interrupted", **_NO_CODE, "error": f"`{path}`: {text}"}
        with contextlib.suppress(OSError):
            self._append(self._exit_line(exit_))
        self._ears.told_to_leave = True
        self._ears.tell({"op": "failed", "child_id": self.child_id, "path": path, "reason": text})

    # --- the body and what must hold after it -----------------------------------------------

    def _live(self) -> dict[str, Any]:
        """Run body and `ensure`; returns what the exit line says of them."""
        spec = self.spec
        secrets = tuple(spec["redact"])
        self._logs = [
            CappedLog(f"{self.directory}/{name}", spec["head_bytes"], spec["tail_bytes"], secrets)
            for name in ("stdout.log", "stderr.log")
        ]
        self.started_at = stamp()
        limit_s = spec["timeout_s"]
        deadline = None if limit_s is None else time.monotonic() + limit_s
        body = Body(self._ears, spec, self._logs, deadline)
        outcome = body.run(spec["argv"], self._record_body)
        failpoints.hit("shim.body_ended")
        facts = {"exit_code": outcome.exit_code, "signal": outcome.signal}
        reason, error = outcome.reason(), outcome.error
        if reason is None:
            reason, error = self._ensure(body)
        self._survivors = body.survivors
        return {"reason": reason, **facts, "error": self._finish_logs(error)}

    def _record_body(self, pid: int) -> None:
        failpoints.hit("shim.body_started")
        seen = procs.look(pid)
        # For display, and for `tree`: a disk that is full by now is told of with the exit line.
        with contextlib.suppress(OSError):
            start_time = seen.start_time if seen else 0
            self._append({"line": "body", "pid": pid, "start_time": start_time})

    def _ensure(self, body: Body) -> tuple[str | None, str | None]:
        for argv in self.spec["ensure"]:
            outcome = body.run(argv, None)
            reason = outcome.reason()
            if reason is not None:
                return _blame(argv, reason, outcome)
        return None, None

    def _finish_logs(self, error: str | None) -> str | None:
        written = [log.finish() for log in self._logs]
        faults = [log.error for log in self._logs if log.error]
        if any(written):
            try:
                files.sync_dir(self.directory)
            except OSError as fault:
                faults.append(f"`{self.directory}`: {fault.strerror}")
        if not faults:
            return error
        told = "output is incomplete: " + ", ".join(faults)
        return told if error is None else f"{error}; {told}"

    # --- the end -----------------------------------------------------------------------------

    def _end(self, facts: dict[str, Any]) -> None:
        """Append the exit line, tell, sync; a disk that says no is told of in place of durable."""
        line = self._exit_line(facts)
        path = f"{self.directory}/attempt.jsonl"
        try:
            self._append(line)
            failpoints.hit("shim.exit_written")
            self._ears.tell({"op": "exited", "child_id": self.child_id, "record": line})
            files.sync_fd(self._fd)
            failpoints.hit("shim.exit_durable")
        except OSError as error:
            self._fault = (path, f"{error.strerror}")
            self._ears.told_to_leave = True

    def _tell_durable(self) -> None:
        if self._fault is None:
            self._ears.tell({"op": "durable", "child_id": self.child_id})
        else:
            path, reason = self._fault
            self._ears.tell(
                {"op": "failed", "child_id": self.child_id, "path": path, "reason": reason}
            )

    def _exit_line(self, facts: dict[str, Any]) -> dict[str, Any]:
        return {
            "line": "exit",
            "reason": facts["reason"],
            "started_at": self.started_at,
            "ended_at": stamp(),
            "exit_code": facts["exit_code"],
            "signal": facts["signal"],
            "error": facts["error"],
            "survivors": list(self._survivors),
        }

    def _append(self, line: dict[str, Any]) -> None:
        files.append(self._fd, json.dumps(line, separators=(",", ":")).encode())


def stamp() -> str:
    """This instant in UTC, as the whole of adw writes it."""
    now_us = time.time_ns() // 1000
    text = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now_us // 1_000_000))
    return f"{text}.{now_us % 1_000_000:06d}Z"


def _blame(argv: list[str], reason: str, outcome: Outcome) -> tuple[str, str | None]:
    """What the exit line says when an `ensure` command did not hold."""
    command = quoted(argv)
    if reason == "exit":
        return "contract", f"`ensure` command `{command}` exited with {outcome.exit_code}"
    if reason in {"signal", "oom"}:
        return "contract", f"`ensure` command `{command}` was ended by signal {outcome.signal}"
    if reason in {"timeout", "idle"}:
        return reason, f"in `ensure` command `{command}`"
    return reason, outcome.error
