"""The orchestrator's side: a pool of supervisors, and attempts of earlier orchestrators adopted.

One poll over the sockets of own supervisors, the pidfds of adopted ones and the caller's wake
descriptors; no threads. What is told over a socket only makes things quicker: everything that
must be known stands in attempt.jsonl, and is read there once a supervisor is gone.
"""

import os
import select
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Final

from adw.core.interfaces import Ended, ExitRecord, LaunchSpec, TreeEnd
from adw.errors import EnvironmentFault, StoreError, SuperviseError
from adw.store import attempts, files
from adw.supervise import frames, nursery, procs, tree
from adw.supervise.pool import NoSupervisor, Pool, Supervisor

_LOCK_POLL_S: Final = 0.2  # where there is no pidfd
_LOCK_LOOK_S: Final = 2.0  # where there is one: the lock is what counts
_LEAVE_S: Final = 2.0
_SPEC_KEYS: Final = tuple(f.name for f in fields(LaunchSpec))


class _Own:
    """An attempt that this orchestrator started."""

    def __init__(self, spec: LaunchSpec, supervisor: Supervisor) -> None:
        self.path = f"{spec.attempt_dir}/attempt.jsonl"
        self.supervisor = supervisor


class _Adopted:
    """An attempt that another one started."""

    def __init__(self, path: str, line: Mapping[str, Any], pidfd: int | None) -> None:
        self.path = path
        self.pid: int = line["pid"]
        self.start_time: int = line["start_time"]
        self.pidfd = pidfd


class LocalSupervision:
    """Supervision on this machine; implements `adw.core.interfaces.Supervision`.

    Args:
        start: The nursery that was forked before the heavy imports; None: one is started.
        wake_fds: Descriptors that end a `wait` when they are readable; the caller reads them.
    """

    tree_end: str

    def __init__(self, start: nursery.Nursery | None = None, wake_fds: Sequence[int] = ()) -> None:
        self._pool = Pool(start)
        self._idle: list[Supervisor] = []
        self._running: dict[str, _Own | _Adopted] = {}
        self._ended: list[Ended] = []
        self._unsynced: dict[str, _Own | _Adopted] = {}
        self._faults: dict[str, StoreError] = {}
        self._by_fd: dict[int, Supervisor | str] = {}
        self._wake_fds = frozenset(wake_fds)
        self._poll = select.poll()
        for fd in wake_fds:
            self._poll.register(fd, select.POLLIN)
        self.tree_end = "tag"
        self._idle.append(self._born())

    # --- launch ------------------------------------------------------------------------------

    def hand_over(self, spec: LaunchSpec, lock_fd: int) -> None:
        """Give an attempt, with its locked attempt.jsonl, to an idle or a new supervisor.

        The caller's descriptor is closed. Nothing runs before `go`.

        Raises:
            SuperviseError: No supervisor can be had; the descriptor is closed all the same.
        """
        message = {
            "op": "launch",
            "spec": {**{key: getattr(spec, key) for key in _SPEC_KEYS}, "env": dict(spec.env)},
        }
        try:
            while True:
                supervisor = self._free()
                if supervisor.channel.send(message, lock_fd):
                    break
                self._hear_out(supervisor)
        finally:
            os.close(lock_fd)
        supervisor.owes.append(spec.child_id)
        self._running[spec.child_id] = _Own(spec, supervisor)

    def go(self, child_id: str) -> None:
        """Let the body start.

        Raises:
            StoreError: The supervisor could not make the packet durable; no body runs.
        """
        self._raise_fault(child_id)
        attempt = self._running.get(child_id)
        if isinstance(attempt, _Own):
            attempt.supervisor.channel.send({"op": "go", "child_id": child_id})

    def _free(self) -> Supervisor:
        """A supervisor that has nothing to do, or only a sync to finish; else a new one."""
        if self._idle:
            return self._idle.pop()
        busy = {a.supervisor.pid for a in self._running.values() if isinstance(a, _Own)}
        for attempt in self._unsynced.values():
            if not isinstance(attempt, _Own) or attempt.supervisor.pid in busy:
                continue
            if attempt.supervisor.channel.fileno() >= 0:
                return attempt.supervisor
        return self._born()

    def _born(self) -> Supervisor:
        try:
            supervisor = self._pool.born()
        except NoSupervisor as error:
            raise SuperviseError(reason=error.reason) from error
        self.tree_end = supervisor.tree_end
        self._by_fd[supervisor.channel.fileno()] = supervisor
        self._poll.register(supervisor.channel.fileno(), select.POLLIN)
        return supervisor

    # --- adoption ----------------------------------------------------------------------------

    def adopt(self, child_id: str, attempt_dir: str, supervisor: Mapping[str, Any]) -> bool:
        """Watch an attempt that another orchestrator started.

        Args:
            child_id: Its name.
            attempt_dir: Its directory.
            supervisor: The supervisor line of its attempt.jsonl.

        Returns:
            False where no such supervisor lives: the caller looks at the file again.
        """
        path = f"{attempt_dir}/attempt.jsonl"
        if not files.locked(path):
            return False
        pidfd = None
        if supervisor["boot_id"] == procs.boot_id():
            pidfd = procs.open_pidfd(supervisor["pid"])
        if pidfd is not None and not procs.is_alive(supervisor["pid"], supervisor["start_time"]):
            # A stranger has that number; whoever holds the lock is waited for by the lock.
            os.close(pidfd)
            pidfd = None
        if pidfd is not None:
            self._poll.register(pidfd, select.POLLIN)
            self._by_fd[pidfd] = child_id
        self._running[child_id] = _Adopted(path, supervisor, pidfd)
        return True

    # --- waiting -----------------------------------------------------------------------------

    def wait(self, timeout_s: float | None) -> Sequence[Ended]:
        """Sleep until an attempt is over, a descriptor of `wake_fds` is readable or time is up.

        Raises:
            StoreError: A supervisor could not make a packet or an exit line durable.
        """
        ends_at = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            woken = self._hear(self._sleep_ms(ends_at))
            self._look_at_locks()
            for child_id in [c for c in self._faults if c in self._running]:
                self._raise_fault(child_id)
            over = ends_at is not None and time.monotonic() >= ends_at
            if self._ended or woken or over:
                ended, self._ended = self._ended, []
                return ended

    def _sleep_ms(self, ends_at: float | None) -> int | None:
        if self._ended:
            return 0
        spans = [] if ends_at is None else [max(0.0, ends_at - time.monotonic())]
        adopted = [a for a in self._running.values() if isinstance(a, _Adopted)]
        spans += [_LOCK_POLL_S if a.pidfd is None else _LOCK_LOOK_S for a in adopted]
        return min(int(min(spans) * 1000) + 1, frames.LONGEST_MS) if spans else None

    def _hear(self, timeout_ms: int | None) -> bool:
        """One poll; tells whether a wake descriptor is readable."""
        woken = False
        for fd, _ in self._poll.poll(timeout_ms):
            if fd in self._wake_fds:
                woken = True
                continue
            found = self._by_fd.get(fd)
            if isinstance(found, Supervisor):
                found.channel.fill()
                self._take_in(found)
            elif found is not None:
                self._adopted_over(found)
        return woken

    def _look_at_locks(self) -> None:
        for child_id, attempt in list(self._running.items()):
            if isinstance(attempt, _Adopted) and not files.locked(attempt.path):
                self._adopted_over(child_id)

    def _adopted_over(self, child_id: str) -> None:
        attempt = self._running.pop(child_id)
        assert isinstance(attempt, _Adopted)
        if attempt.pidfd is not None:
            self._poll.unregister(attempt.pidfd)
            del self._by_fd[attempt.pidfd]
            os.close(attempt.pidfd)
        self._unsynced[child_id] = attempt
        self._ended.append(Ended(child_id, _exit_record(attempt.path), adopted=True))

    def _take_in(self, supervisor: Supervisor) -> None:
        """Act on what one of ours said, or on its death."""
        while (frame := supervisor.channel.take()) is not None:
            child_id = frame["child_id"]
            if frame["op"] == "exited":
                self._own_over(child_id, ExitRecord.of(frame["record"]))
                continue
            supervisor.owes.remove(child_id)
            if frame["op"] == "failed":
                self._faults[child_id] = StoreError(
                    path=frame["path"], reason=frame["reason"], fix=None
                )
            else:
                self._unsynced.pop(child_id, None)
                if not supervisor.owes:
                    self._idle.append(supervisor)
        if supervisor.channel.eof:
            self._drop(supervisor)

    def _hear_out(self, supervisor: Supervisor) -> None:
        """Take in the last words of a supervisor that is gone: a failed sync may be among them."""
        while supervisor.channel.fileno() >= 0:
            supervisor.channel.fill()
            self._take_in(supervisor)

    def _own_over(self, child_id: str, record: ExitRecord | None) -> None:
        self._unsynced[child_id] = self._running.pop(child_id)
        self._ended.append(Ended(child_id, record))

    def _drop(self, supervisor: Supervisor) -> None:
        """Part with a supervisor that is dead; what it ran is over, and stands in the file."""
        fd = supervisor.channel.fileno()
        if fd < 0:
            return
        self._poll.unregister(fd)
        del self._by_fd[fd]
        supervisor.channel.close()
        if supervisor in self._idle:
            self._idle.remove(supervisor)
        for child_id in supervisor.owes:
            attempt = self._running.get(child_id)
            if isinstance(attempt, _Own) and child_id not in self._faults:
                _await_unlocked(attempt.path)
                self._own_over(child_id, _exit_record(attempt.path))

    # --- durability --------------------------------------------------------------------------

    def await_durable(self, child_ids: Sequence[str]) -> None:
        """Block until the exit lines of these ended attempts are on disk.

        Raises:
            StoreError: A supervisor said that its sync failed, or nobody could make them durable.
        """
        for child_id in child_ids:
            attempt = self._unsynced.get(child_id)
            if isinstance(attempt, _Own):
                supervisor = attempt.supervisor
                while child_id in self._unsynced and child_id not in self._faults:
                    if supervisor.channel.fileno() < 0:
                        break
                    supervisor.channel.fill()
                    self._take_in(supervisor)
            self._raise_fault(child_id)
            attempt = self._unsynced.pop(child_id, None)
            if attempt is not None:
                # Nobody is left who could say it: adopted, or killed after its exit line.
                attempts.write_anew(os.path.dirname(attempt.path))

    def _raise_fault(self, child_id: str) -> None:
        fault = self._faults.pop(child_id, None)
        if fault is not None:
            self._running.pop(child_id, None)
            self._unsynced.pop(child_id, None)
            raise fault

    # --- stopping ----------------------------------------------------------------------------

    def stop(self, child_id: str) -> None:
        """Ask for the end of a running attempt; `wait` tells when it is over.

        A second call ends the grace. An attempt that is over already is left alone.

        Raises:
            EnvironmentFault: An adopted supervisor that cannot be shown to be the recorded one.
        """
        attempt = self._running.get(child_id)
        if isinstance(attempt, _Own):
            supervisor = attempt.supervisor
            supervisor.channel.send({"op": "stop", "child_id": child_id})
            _wake_up(supervisor.pid, supervisor.start_time)
        elif attempt is not None and files.locked(attempt.path):
            if not procs.send(attempt.pid, attempt.start_time, signal.SIGTERM):
                if not files.locked(attempt.path):
                    return
                raise EnvironmentFault(
                    detail=f"the supervisor of `{child_id}` cannot be reached",
                    reason=f"process {attempt.pid} is not the recorded one, the lock is held",
                    fix=None,
                )
            _wake_up(attempt.pid, attempt.start_time)

    def end_tree(self, child_id: str, lines: Sequence[Mapping[str, Any]]) -> TreeEnd:
        """End what a dead supervisor left, by the lines of its attempt.jsonl."""
        del child_id
        line = _last(lines, "supervisor")
        if line is None:
            return TreeEnd(proved=True)
        ask = {"op": "end", "pid": line["pid"], "start_time": line["start_time"]}
        answer = self._pool.ask(ask) if line.get("boot_id") == procs.boot_id() else None
        if answer is not None and answer["known"]:
            return TreeEnd(proved=answer["proved"], survivors=tuple(answer["survivors"]))
        proved, survivors = tree.end_dead(dict(line), _last(lines, "body"))
        return TreeEnd(proved=proved, survivors=survivors)

    def close(self) -> None:
        """Let idle supervisors go; running attempts live on."""
        for supervisor in [s for s in self._by_fd.values() if isinstance(s, Supervisor)]:
            supervisor.channel.close()
        for attempt in self._running.values():
            if isinstance(attempt, _Adopted) and attempt.pidfd is not None:
                os.close(attempt.pidfd)
        busy = any(isinstance(a, _Own) for a in self._running.values())
        self._by_fd.clear()
        self._idle.clear()
        self._running.clear()
        self._pool.close(0 if busy else _LEAVE_S)


def _await_unlocked(path: str) -> None:
    """A dying process closes its socket an instant before the lock: wait that instant."""
    deadline = time.monotonic() + _LEAVE_S
    while files.locked(path) and time.monotonic() < deadline:
        time.sleep(0.001)


def _wake_up(pid: int, start_time: int) -> None:
    """Let a supervisor that somebody stopped go on: it could not act on what it was told."""
    seen = procs.look(pid)
    if seen is not None and seen.state == "T":
        procs.send(pid, start_time, signal.SIGCONT)


def _last(lines: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any] | None:
    found = [line for line in lines if line.get("line") == kind]
    return dict(found[-1]) if found else None


def _exit_record(path: str) -> ExitRecord | None:
    """The exit line of an attempt.jsonl, if there is one."""
    line = attempts.find(attempts.read_lines(os.path.dirname(path)), "exit")
    return ExitRecord.of(line) if line else None
