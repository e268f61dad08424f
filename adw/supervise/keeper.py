"""What the nursery does: fork supervisors, reap, and end what a killed supervisor left behind.

    asked {"op": "fork"}            → {"op": "supervisor", "pid", "start_time", "tree_end"} + socket
    asked {"op": "end", "pid", "start_time"} → {"op": "ended", "known", "proved", "survivors"}

The first supervisor is sent unasked. The nursery stays until its orchestrator and its last child
are gone. It is single-threaded; an answer to "end" is given when the orphans are dead.
"""

import contextlib
import fcntl
import gc
import json
import os
import select
import signal
import socket
import time
from typing import Any, Final, NoReturn

from adw.store import files
from adw.supervise import cgroups, fence, frames, procs, shim, tree
from adw.supervise.ears import hush

_FORK_FOR_S: Final = 5.0
_PAUSE_S: Final = 0.005
_EMPTY_LOOKS: Final = 3
_NOTE_BYTES: Final = 1 << 16


class Ward:
    """A supervisor that the nursery forked."""

    __slots__ = ("group", "note_fd", "start_time")

    def __init__(self, group: str | None, note_fd: int, start_time: int) -> None:
        self.group = group
        self.start_time = start_time
        self.note_fd = note_fd

    def note(self) -> dict[str, Any] | None:
        """What it was doing when it died; None: nothing."""
        if self.note_fd < 0:
            return None
        data = os.pread(self.note_fd, _NOTE_BYTES, 0)
        text = data[4 : 4 + int.from_bytes(data[:4], "big")]
        found: dict[str, Any] | None = json.loads(text) if text else None
        return found


def main(fd: int) -> None:
    """Be the nursery on this socket; returns when nothing is left to do."""
    fd = _bare(fd)
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        with contextlib.suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    gc.collect()
    gc.freeze()  # so that a collection in a supervisor does not copy every page
    Keeper(fd).run()


class Keeper:
    """The nursery's loop and what it knows of its supervisors."""

    def __init__(self, fd: int) -> None:
        procs.hide()
        self._subreaper = procs.become_subreaper()
        seen = procs.look("self")
        self._identity = (os.getpid(), seen.start_time if seen else 0)
        self._base = cgroups.base()
        if self._base:
            cgroups.sweep(self._base)
        fence.sweep()
        self._channel = frames.Channel(fd)
        self._wards: dict[int, Ward] = {}
        self._buried: dict[tuple[int, int], tuple[bool, tuple[int, ...]]] = {}
        self._dead: list[tuple[int, int]] = []
        self._count = 0
        self._childless = True
        self._wake, waker = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(waker, False)
        hush()
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def run(self) -> None:
        """Serve until orchestrator and children are gone."""
        poll = select.poll()
        poll.register(self._channel.fileno(), select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        self._fork()
        while not (self._channel.eof and self._childless):
            for fd, _ in poll.poll():
                if fd == self._wake:
                    with contextlib.suppress(BlockingIOError):
                        os.read(fd, 4096)
                else:
                    self._serve()
                    if self._channel.eof:
                        poll.unregister(fd)
            self._reap()

    def _serve(self) -> None:
        self._channel.fill()
        while (frame := self._channel.take()) is not None:
            if frame["op"] == "fork":
                self._fork()
            elif frame["op"] == "end":
                self._channel.send(self._end(frame["pid"], frame["start_time"]))

    # --- birth -------------------------------------------------------------------------------

    def _fork(self) -> None:
        """Fork a supervisor and send its socket; a machine that is full is asked for 5 s."""
        give_up_at = time.monotonic() + _FORK_FOR_S
        while True:
            try:
                return self._fork_once()
            except OSError as error:
                if time.monotonic() > give_up_at:
                    self._channel.send({"op": "failed", "reason": f"{error.strerror}"})
                    return None
            time.sleep(_PAUSE_S * 10)

    def _fork_once(self) -> None:
        self._count += 1
        name = cgroups.name_of(*self._identity, self._count)
        group = cgroups.make(self._base, name) if self._base else None
        note_fd = os.memfd_create("adw") if hasattr(os, "memfd_create") else -1
        ours, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            ours.close()
            theirs.close()
            if note_fd >= 0:
                os.close(note_fd)
            if group:
                cgroups.remove(group)
            raise
        if pid == 0:
            self._raise_supervisor(theirs.detach(), group, note_fd)
        theirs.close()
        if group and not cgroups.enter(group, pid):
            cgroups.remove(group)
            group = None
        self._childless = False
        seen = procs.look(pid)
        start_time = seen.start_time if seen else 0
        self._wards[pid] = Ward(group, note_fd, start_time)
        self._channel.send(
            {
                "op": "supervisor",
                "pid": pid,
                "start_time": start_time,
                "tree_end": "cgroup" if group else "tag",
            },
            ours.fileno(),
        )
        ours.close()

    def _raise_supervisor(self, fd: int, group: str | None, note_fd: int) -> NoReturn:
        """In the child: become a supervisor, which finds its group out when it is first asked."""
        try:
            signal.set_wakeup_fd(-1)
            os.setsid()
            procs.keep_only({0, 1, 2, fd, note_fd})
            subreaper = procs.become_subreaper()
            procs.hide()
            shim.main(fd, subreaper=subreaper, group=group, note_fd=note_fd, nursery=self._identity)
            os._exit(0)
        finally:
            os._exit(1)

    # --- death -------------------------------------------------------------------------------

    def _reap(self) -> None:
        self._collect()
        while self._dead:
            self._bury(*self._dead.pop())
            self._collect()

    def _collect(self) -> None:
        """Reap what is dead; supervisors among it are put aside for `_bury`."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._childless = True
                return
            if pid == 0:
                self._childless = False
                return
            if pid in self._wards:
                self._dead.append((pid, status))

    def _bury(self, pid: int, status: int) -> None:
        """End what a supervisor left; one that left in order left nothing."""
        ward = self._wards.pop(pid)
        if status == 0:
            self._buried[pid, ward.start_time] = (True, ())
            if ward.group:
                cgroups.remove(ward.group)
        else:
            survivors = self._end_orphans(ward)
            fence.remove(cgroups.name_of(*self._identity, pid))
            proved = bool(ward.group) or self._subreaper
            self._buried[pid, ward.start_time] = (proved, survivors)
            self._leave_word(ward, proved=proved, survivors=survivors)
        if ward.note_fd >= 0:
            os.close(ward.note_fd)

    def _end_orphans(self, ward: Ward) -> tuple[int, ...]:
        left = set(cgroups.kill(ward.group)) if ward.group else set()
        deadline = time.monotonic() + tree.PATIENCE_S
        empty = 0
        while True:
            self._collect()
            found = tree.orphans(frozenset(self._wards))
            # One look misses who is born after the listing while its parents die during it; only
            # waitpid(2) is certain, and it counts other supervisors too.
            empty = 0 if found else empty + 1
            over = self._childless or (empty >= _EMPTY_LOOKS and bool(self._wards))
            if over or time.monotonic() > deadline:
                return tuple(sorted(left | set(found)))
            tree.signal_all(found, signal.SIGKILL)
            time.sleep(_PAUSE_S)

    def _leave_word(self, ward: Ward, *, proved: bool, survivors: tuple[int, ...]) -> None:
        """Tell the next adw, which cannot ask this nursery, what became of the tree."""
        note = ward.note()
        path = f"{note['attempt_dir']}/attempt.jsonl" if note else ""
        if not os.path.exists(path):
            return
        line = {"line": "tree", "proved": proved, "survivors": list(survivors)}
        with contextlib.suppress(OSError):
            fd = files.open_append(path)
            try:
                files.append(fd, json.dumps(line, separators=(",", ":")).encode())
            finally:
                os.close(fd)

    def _end(self, pid: int, start_time: int) -> frames.Frame:
        """Answer whether the tree of a supervisor is over, once it is."""
        deadline = time.monotonic() + tree.PATIENCE_S
        while (alive := self._is_ward(pid, start_time)) and time.monotonic() < deadline:
            self._reap()
            time.sleep(_PAUSE_S / 5)
        proved, survivors = self._buried.get((pid, start_time), (False, ()))
        known = alive or (pid, start_time) in self._buried
        survivors = (pid,) if alive else survivors
        return {"op": "ended", "known": known, "proved": proved, "survivors": list(survivors)}

    def _is_ward(self, pid: int, start_time: int) -> bool:
        return pid in self._wards and self._wards[pid].start_time == start_time


def _bare(fd: int) -> int:
    """Close all but the socket, and put /dev/null where a terminal was."""
    procs.keep_only({fd})
    old, fd = fd, fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    os.close(old)
    null = os.open("/dev/null", os.O_RDWR)
    for number in {0, 1, 2} - {null}:
        os.dup2(null, number)
    if null in {0, 1, 2}:
        os.set_inheritable(null, True)  # noqa: FBT003 - the body's standard input is this one
    else:
        os.close(null)
    return fd
