"""Run directories: create by one rename, open under the run's lock, find by id, prefix or issue.

`agents/<adw_id>/` exists whole or not at all: it is built as `agents/.new-<id>-<random>/` with its
lock held, synced, and renamed. Left-over `.new-` directories whose lock is free are swept.
Readers never write and take no lock.
"""

import contextlib
import json
import os
import shlex
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adw import clock
from adw.errors import (
    AmbiguousId,
    BusyError,
    MalformedId,
    NotPrivate,
    StoreError,
    UnknownName,
)
from adw.ids import is_id
from adw.store import attempts, files, requests, waiting

LOCK: Final = "lock"
ORPHAN: Final = "an attempt that outlived its orchestrator"
"""Who is named as the holder of a run whose lock is free and whose attempt lives."""
DIRS: Final = (
    "attempts",
    "children",
    "artifacts",
    "definitions",
    "requests",
    "requests/applied",
    "state",
)
_REREAD_S: Final = 1.0  # a holder writes who it is right after locking
_POLL_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class RunLock:
    """The lock of a run, held as long as `fd` is open."""

    run_dir: str
    fd: int
    asked: frozenset[str] = frozenset()
    """Names of the requests that were there when it was taken."""

    def close(self) -> None:
        """Let the run go."""
        os.close(self.fd)


def lock_agents(agents_dir: str) -> int:
    """Take the lock under which runs are created; it is held for milliseconds.

    Raises:
        HostLocked: Somebody else holds it, and keeps it.
        NotPrivate: Others may write in the folder.
    """
    files.make_dirs(agents_dir)
    refuse_shared(agents_dir)
    path = os.path.join(agents_dir, ".lock")
    fd = files.open_lock(path)
    try:
        waiting.take(fd, path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def build_run(agents_dir: str, adw_id: str, contents: Mapping[str, bytes]) -> tuple[str, RunLock]:
    """Make the whole directory of a new run under a temporary name, its lock held.

    Args:
        agents_dir: The folder that holds runs; its lock is held.
        adw_id: Id of the new run.
        contents: Relative path to bytes of each file.

    Returns:
        Path of the temporary directory, and the lock that `publish_run` gives its final name.
    """
    sweep_new(agents_dir)
    temp = os.path.join(agents_dir, f".new-{adw_id}-{os.urandom(4).hex()}")
    files.make_dir(temp)
    fd = files.open_lock(os.path.join(temp, LOCK))
    files.lock(fd)
    _sign(fd)
    for name in DIRS:
        files.make_dir(os.path.join(temp, name))
    for name, data in contents.items():
        files.create(os.path.join(temp, name), data)
    for name in DIRS:
        files.sync_dir(os.path.join(temp, name))
    files.sync_dir(temp)
    return temp, RunLock(os.path.join(agents_dir, adw_id), fd)


def publish_run(temp: str, lock: RunLock) -> None:
    """Give the run its name; from here on it exists.

    Raises:
        FileExistsError: The name is taken.
    """
    files.move_new(temp, lock.run_dir)


def refuse_shared(path: str) -> None:
    """Refuse to act by a folder or file that another user may write, as ssh(1) does.

    A folder in which everybody may only make entries of their own (sticky, as /tmp) will do, and
    so will a group that is this process's own. What is not there is refused by nobody.

    Raises:
        NotPrivate: It is so.
    """
    try:
        info = os.lstat(path)
    except OSError:
        return
    mode, me = info.st_mode, os.geteuid()
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return
    reason, fix = None, f"chmod go-w {shlex.quote(path)}"
    if info.st_uid not in {me, 0} and me != 0:
        reason, fix = f"it is owned by uid {info.st_uid}", "ADW_AGENTS_DIR names a folder for runs"
    elif mode & stat.S_IWOTH:
        reason = f"everybody may write it (mode {stat.S_IMODE(mode):04o})"
    elif mode & stat.S_IWGRP and info.st_gid != os.getegid():
        reason = f"group {info.st_gid} may write it (mode {stat.S_IMODE(mode):04o})"
    if reason is not None:
        raise NotPrivate(path=path, reason=reason, fix=fix)


def complete_dirs(run_dir: str) -> None:
    """Make folders that a run lacks: one written elsewhere, copied without empty ones, or robbed.

    Raises:
        StoreError: A link or a file stands in place of one: what is swept and written in these
            folders is only ever the run's own.
    """
    for name in DIRS:
        path = os.path.join(run_dir, name)
        try:
            kind = os.lstat(path).st_mode
        except FileNotFoundError:
            files.make_dir(path, sync=True)
            continue
        if not stat.S_ISDIR(kind):
            what = "a symbolic link" if stat.S_ISLNK(kind) else "a file"
            fix = f"put the folder back, then adw resume {os.path.basename(run_dir)}"
            raise StoreError(path=path, reason=f"{what} stands in place of the folder", fix=fix)


def sweep_new(agents_dir: str) -> None:
    """Remove half-made runs that nobody works on any more."""
    for name in os.listdir(agents_dir):
        path = os.path.join(agents_dir, name)
        if name.startswith(".new-") and not files.locked(os.path.join(path, LOCK)):
            files.remove_tree(path)


def open_run(run_dir: str) -> RunLock:
    """Take a run's lock.

    Raises:
        BusyError: Somebody else holds it; the message names the holder.
        NotPrivate: Others may write what decides here.
    """
    for path in (os.path.dirname(run_dir), run_dir, os.path.join(run_dir, "adw_state.json")):
        refuse_shared(path)
    fd = files.open_lock(os.path.join(run_dir, LOCK))
    if not files.lock(fd):
        os.close(fd)
        raise BusyError(adw_id=os.path.basename(run_dir), holder=holder(run_dir))
    # What an earlier holder renamed and had no time to sync is acted upon from here on.
    files.sync_dir(run_dir)
    files.sync_dir(os.path.dirname(run_dir))
    asked = frozenset(requests.names(run_dir))
    _sign(fd)
    return RunLock(run_dir, fd, asked)


def held(run_dir: str) -> bool:
    """Whether an orchestrator holds the run."""
    return files.locked(os.path.join(run_dir, LOCK))


def alive(run_dir: str) -> bool:
    """Whether an orchestrator or any attempt of the run lives."""
    return held(run_dir) or attempt_alive(run_dir)


def attempt_alive(run_dir: str) -> bool:
    """Whether any attempt of the run lives."""
    return any(
        attempts.alive(attempts.dir_of(run_dir, name)) for name in attempts.child_ids(run_dir)
    )


def holder(run_dir: str) -> str:
    """Who holds the run, for display: ``process 4121 (`adw run sdlc`) since …``."""
    import time

    deadline = time.monotonic() + _REREAD_S
    while True:
        found = _read_holder(run_dir)
        if found and _is_process(found):
            return f"process {found['pid']} (`adw {found['command']}`) since {found['since']}"
        if time.monotonic() > deadline:
            who = waiting.holders(os.path.join(run_dir, LOCK))
            return f"another adw (starting): {who}" if who else "another adw (starting)"
        time.sleep(_POLL_S)


def holder_pid(run_dir: str) -> int | None:
    """Process id of the holder, for display only."""
    found = _read_holder(run_dir)
    return found["pid"] if found and _is_process(found) else None


def _read_holder(run_dir: str) -> dict[str, Any] | None:
    with contextlib.suppress(OSError, ValueError):
        data = json.loads(files.read(os.path.join(run_dir, LOCK), limit=4096))
        if isinstance(data, dict) and isinstance(data.get("pid"), int):
            return data
    return None


def _is_process(found: dict[str, Any]) -> bool:
    return found.get("start_time") == start_time(found["pid"])


def start_time(pid: int) -> int | None:
    """Start of a process in clock ticks since boot; None where there is none.

    Source: proc(5), field 22 of /proc/PID/stat, counted after the last `)`.
    """
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def _sign(fd: int) -> None:
    import sys

    from adw import clock

    who = {
        "pid": os.getpid(),
        "start_time": start_time(os.getpid()),
        "host": os.uname().nodename,
        "since": clock.stamp(),
        "command": " ".join(sys.argv[1:3])[:80],
    }
    files.overwrite(fd, json.dumps(who).encode())


# --- finding -----------------------------------------------------------------------------


def list_ids(agents_dir: str) -> list[str]:
    """Ids of all runs, sorted."""
    try:
        names = os.listdir(agents_dir)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if is_id(name))


def find_run(agents_dir: str, text: str) -> str:
    """Turn an id, a unique prefix or `@<issue>` into a run's directory.

    Raises:
        MalformedId: It can be none of these; no path was built from it.
        UnknownName: No run fits.
        AmbiguousId: Several runs fit the prefix.
    """
    if text.startswith("@") and text[1:].isascii() and text[1:].isdigit():
        return os.path.join(agents_dir, _latest(agents_dir, int(text[1:]), text))
    if not text or not all(c in "abcdefghijklmnopqrstuvwxyz0123456789-" for c in text):
        raise MalformedId(name=_shown(text))
    known = list_ids(agents_dir)
    if text in known:
        return os.path.join(agents_dir, text)
    fits = [name for name in known if name.startswith(text)]
    if len(fits) == 1:
        return os.path.join(agents_dir, fits[0])
    if fits:
        raise AmbiguousId(prefix=text, matches=", ".join(fits[:8]))
    raise UnknownName(kind="run", name=text, suggestion="adw status", reason=None)


def _latest(agents_dir: str, issue: int, text: str) -> str:
    found = list(_of_issue(agents_dir, issue))
    if not found:
        raise UnknownName(kind="run", name=text, suggestion="adw status", reason=None)
    return max(found)[1]


def peek(agents_dir: str, issue: int | None = None) -> Iterator[tuple[str, dict[str, Any]]]:
    """Ids with their state as plain JSON, unchecked; unreadable ones are left out."""
    for name in list_ids(agents_dir):
        with contextlib.suppress(OSError, ValueError):
            state = json.loads(files.read(os.path.join(agents_dir, name, "adw_state.json")))
            if isinstance(state, dict) and issue in {None, state.get("issue_number")}:
                yield name, state


def live_run_of(agents_dir: str, issue: int) -> str | None:
    """A run of the issue whose orchestrator or attempt lives."""
    for _, name in _of_issue(agents_dir, issue):
        if alive(os.path.join(agents_dir, name)):
            return name
    return None


def _of_issue(agents_dir: str, issue: int) -> Iterator[tuple[str, str]]:
    """Instant of the last change and id of each run of an issue.

    A run whose state is damaged is one of them by its run.json: if it is the latest, whoever asks
    for the latest is to hear that it is damaged, and not to meet an older one.
    """
    for name in list_ids(agents_dir):
        run_dir = os.path.join(agents_dir, name)
        try:
            state = json.loads(files.read(os.path.join(run_dir, "adw_state.json")))
            if state.get("issue_number") == issue:
                yield state.get("updated_at") or "", name
        except (OSError, ValueError, AttributeError):
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                info = json.loads(files.read(os.path.join(run_dir, "run.json")))
                if info["issue"]["number"] == issue:
                    yield _last_change(run_dir), name


def _last_change(run_dir: str) -> str:
    """When the state file was changed, or taken away: as instants are written in it."""
    path = os.path.join(run_dir, "adw_state.json")
    seen = os.stat(path if os.path.exists(path) else run_dir)
    return clock.stamp(seen.st_mtime)


def _shown(text: str) -> str:
    shown = text.encode("unicode_escape", "backslashreplace").decode()
    return shown if len(shown) <= 60 else shown[:57] + "..."  # noqa: PLR2004
