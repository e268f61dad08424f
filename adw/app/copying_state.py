"""A copy of a run's state under the git directory, which `git clean` leaves alone.

`<git dir>/adw/<id>/` has the state, run.json, TASK.md, the pinned definitions, the receipts of
effects, applied requests and what attempts recorded: all that resuming needs. Logs and packets are
not copied. It is brought up to date after each commit, unsynced: it guards against a command that
removes the folder of runs, not against a power cut. `adw doctor --restore` reads it.

Two slots take the versions of the state in turn, written in place below a head with number and
checksum: a kill tears at most the slot that is written. A new file for each version would be as
safe and take ten times as long; renamed over the old one, a hundred times (ext4 writes it out).
"""

import contextlib
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, Final

from adw import log
from adw.app.parts import Reporter
from adw.core.view import PhaseBoard
from adw.errors import StateError
from adw.ids import child_id
from adw.model.state import ADWStateData
from adw.store import attempts, files
from adw.store.encoding import json_bytes
from adw.store.state import StateFile, check_state

ONCE: Final = ("run.json", "TASK.md")
"""Files that are written once."""
FOLDERS: Final = ("effects", "requests/applied")
"""Folders whose files are replaced or added to while a run goes on."""
DEFINITIONS: Final = "definitions"
LIMIT: Final = 64 << 20  # bytes of one file; a larger one is left out

_SLOTS: Final = ("state.0", "state.1")
_PLACE: Final = "run_dir"
_ATTEMPTS: Final = "attempts.jsonl"
_ATTEMPTS_LIMIT: Final = 1 << 30


def folder(git_dir: str, adw_id: str = "") -> str:
    """Where the copy of a run lies; without an id, where all of them lie."""
    return os.path.join(git_dir, "adw", adw_id) if adw_id else os.path.join(git_dir, "adw")


# --- reading -----------------------------------------------------------------------------


def exists(copy: str) -> bool:
    """Whether a folder has the copy of a state, whole or not."""
    return any(os.path.lexists(os.path.join(copy, name)) for name in _SLOTS)


def copied_from(copy: str) -> str | None:
    """Where the directory of the run was, absolute; None where the copy does not say."""
    try:
        return os.fsdecode(files.read(os.path.join(copy, _PLACE)))
    except OSError:
        return None


def newest(copy: str) -> tuple[ADWStateData, bytes]:
    """The newest whole version of a state that a copy has.

    Raises:
        StateError: There is none.
    """
    found = [slot for name in _SLOTS if (slot := _slot(os.path.join(copy, name))) is not None]
    if not found:
        name = os.path.basename(copy)
        reason = "it is missing, or was torn"
        raise StateError(path=copy, what="copy of a state", reason=reason, adw_id=name)
    data = max(found)[1]
    return check_state(copy, data), data


def altered(copy: str, state: ADWStateData, data: bytes) -> str | None:
    """One line where a state is not as adw wrote it: a disk that rots, or somebody's hand.

    Each version has its own `updated_at`, and the copy is made of the same bytes; a copy of
    another version tells nothing.

    Args:
        copy: `folder` of the run.
        state: What the run's file says.
        data: Its bytes.
    """
    with contextlib.suppress(StateError):
        written, kept = newest(copy)
        if written.updated_at == state.updated_at and kept != data:
            return (
                "its state is not as adw wrote it: "
                + (", ".join(_differing(written, state)) or "its bytes")
                + f" differ from the copy of {state.updated_at}"
            )
    return None


def _differing(one: ADWStateData, other: ADWStateData) -> list[str]:
    names = type(one).model_fields
    return [f"`{name}`" for name in names if getattr(one, name) != getattr(other, name)]


def _slot(path: str) -> tuple[int, bytes] | None:
    """Number and bytes of a version; None where the slot is missing or torn."""
    with contextlib.suppress(OSError, ValueError):
        head, _, data = files.read(path, limit=LIMIT).partition(b"\n")
        number, checksum = map(int, head.split())
        if zlib.crc32(data, number) == checksum:
            return number, data
    return None


def recorded(copy: str) -> dict[str, bytes]:
    """What attempts recorded: child id to the bytes of its attempt.jsonl."""
    found = {}
    with contextlib.suppress(OSError):
        data = files.read(os.path.join(copy, _ATTEMPTS), limit=_ATTEMPTS_LIMIT)
        for line in files.lines(data):
            with contextlib.suppress(ValueError, KeyError, TypeError):
                each = json.loads(line)
                found[str(each["child_id"])] = each["text"].encode("utf-8", "surrogateescape")
    return found


def is_record(name: str) -> bool:
    """Whether a name is that of a whole JSON file that is not derived from another."""
    return name.endswith(".json") and not name.endswith(".graph.json") and name[0] != "."


def fill(run_dir: str, copy: str, state: ADWStateData) -> list[str]:
    """Put files back that a run lacks and its copy has; what is there is left as it is.

    Args:
        run_dir: The run, or what becomes one; its lock is held.
        copy: Folder of its copy.
        state: What counts; attempts that it does not tell of stay away.

    Returns:
        What was put back, relative to the run.
    """
    contents = {f"attempts/{k}/{attempts.FILE}": v for k, v in _tried(copy, state).items()}
    names = list(ONCE)
    for folder in (DEFINITIONS, *FOLDERS):
        names += [f"{folder}/{each}" for each in _records(os.path.join(copy, folder))]
    done = []
    for name in [*names, *contents]:
        path = os.path.join(run_dir, name)
        if os.path.lexists(path):
            continue
        data = contents.get(name)
        if data is None:
            data = files.read_if_exists(os.path.join(copy, name), limit=LIMIT)
        if data is not None:
            files.make_dirs(os.path.dirname(path))
            files.create(path, data)
            files.sync_dir(os.path.dirname(path))
            done.append(name)
    return done


def _tried(copy: str, state: ADWStateData) -> dict[str, bytes]:
    """What the attempts of the state recorded, by child id."""
    tried = {child_id(each.phase, each.attempt) for each in state.phase_history if each.attempt}
    return {child: data for child, data in recorded(copy).items() if child in tried}


def _records(folder: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(folder) if is_record(name))
    except OSError:
        return []


# --- writing -----------------------------------------------------------------------------


class Copies:
    """Keeps the copy of one run; for the holder of the run's lock alone."""

    def __init__(self, git_dir: str, run_dir: str, state_file: StateFile) -> None:
        """Name run and repository; nothing is read or written yet.

        Args:
            git_dir: The directory that all worktrees share.
            run_dir: The run.
            state_file: Whose last written bytes are copied, whatever a phase made of the file.
        """
        self._from = run_dir
        self._to = folder(git_dir, os.path.basename(run_dir))
        self._state_file = state_file
        self._copied: bytes | None = None
        self._number = 0
        self._seen: dict[str, tuple[int, int, int]] = {}
        self._owed: list[str] = []
        self.fault: str | None = None
        """Why the copy is not up to date, in a few words; None: it is."""

    def altered(self, state: ADWStateData) -> str | None:
        """As the function `altered`, of the bytes that the state file was read from."""
        if copied_from(self._to) != self._from:
            return None
        return altered(self._to, state, self._state_file.data)

    def refresh(self, ended: Iterable[str] = ()) -> None:
        """Copy what is new; a copy that cannot be written stops nothing, and is tried again.

        Args:
            ended: Child ids of attempts that were recorded since the last time.
        """
        self._owed += ended
        try:
            if self._copied is None:
                self._begin()
            self._attempts(self._owed)
            self._owed = []
            for name in FOLDERS:
                self._changed_in(name)
            self._state()  # last: nothing that it tells of is missing then
        except OSError as error:
            self.fault = f"`{error.filename or self._to}`: {error.strerror or error}"
            log.event("state_not_copied", to=self._to, reason=self.fault)
        else:
            self.fault = None

    def _begin(self) -> None:
        files.make_dirs(self._to)  # synced: notes on a worktree that is being made lie there too
        self._forget_another()
        if copied_from(self._to) != self._from:
            place = os.path.join(self._to, _PLACE)
            files.replace(place, os.fsencode(self._from), sync=False)
        self._folder(DEFINITIONS)
        names = [f"{DEFINITIONS}/{name}" for name in os.listdir(f"{self._from}/{DEFINITIONS}")]
        for name in (*ONCE, *filter(is_record, names)):
            if not os.path.lexists(os.path.join(self._to, name)):
                self._copy(name)
        slots = [_slot(os.path.join(self._to, name)) for name in _SLOTS]
        self._number = max((slot[0] for slot in slots if slot is not None), default=0)
        tried = attempts.child_ids(self._from)
        known = recorded(self._to) if tried else {}
        self._attempts(child for child in tried if child not in known)

    def _forget_another(self) -> None:
        """Remove the copy of an earlier run of the same id, whose receipts are not this run's."""
        ours, theirs = (
            files.read_if_exists(os.path.join(place, "run.json"))
            for place in (self._from, self._to)
        )
        if ours is None or theirs is None or ours == theirs:
            return
        for name in (*FOLDERS, DEFINITIONS):
            if os.path.isdir(os.path.join(self._to, name)):
                files.remove_tree(os.path.join(self._to, name))
        for name in (_ATTEMPTS, *_SLOTS, *ONCE):
            files.unlink(os.path.join(self._to, name))

    def _state(self) -> None:
        data = self._state_file.data
        if data is self._copied:
            return
        number = self._number + 1
        head = f"{number} {zlib.crc32(data, number)}\n".encode()
        fd = files.open_log(os.path.join(self._to, _SLOTS[number % len(_SLOTS)]))
        try:
            files.write_at(fd, head + data, 0)
            files.truncate(fd, len(head) + len(data))
        finally:
            os.close(fd)
        self._copied, self._number = data, number

    def _attempts(self, children: Iterable[str]) -> None:
        lines = []
        for child in children:
            with contextlib.suppress(OSError):
                path = os.path.join(self._from, "attempts", child, attempts.FILE)
                text = files.read(path, limit=LIMIT).decode("utf-8", "surrogateescape")
                lines.append(json_bytes({"child_id": child, "text": text}))
        if lines:
            fd = files.open_append(os.path.join(self._to, _ATTEMPTS))
            try:
                files.append(fd, b"\n".join(lines))
            finally:
                os.close(fd)

    def _changed_in(self, name: str) -> None:
        try:
            with os.scandir(os.path.join(self._from, name)) as found:
                entries = [each for each in found if is_record(each.name)]
        except (FileNotFoundError, NotADirectoryError):
            return
        for each in entries:
            info = each.stat(follow_symlinks=False)
            key, seen = f"{name}/{each.name}", (info.st_ino, info.st_mtime_ns, info.st_size)
            if self._seen.get(key) != seen:
                self._folder(name)
                self._copy(key)
                self._seen[key] = seen

    def _folder(self, name: str) -> None:
        path = self._to
        for part in name.split("/"):
            path = os.path.join(path, part)
            files.make_dir(path, exist_ok=True)

    def _copy(self, name: str) -> None:
        """Copy one file; one that is missing, or no file of ours, is left out."""
        try:
            data = files.read(os.path.join(self._from, name), limit=LIMIT)
        except OSError:
            return
        files.replace(os.path.join(self._to, name), data, sync=False)


class Copying:
    """Watches a run to keep its copy up to date, for another who watches it too."""

    def __init__(self, copies: Copies, watcher: Reporter) -> None:
        self._copies = copies
        self._watcher = watcher

    def changed(self, board: PhaseBoard, news: Sequence[dict[str, Any]]) -> None:
        """A boundary was reached: the state is committed and its events are written."""
        completed = (each for each in news if each["event"] == "child_completed")
        self._copies.refresh([str(each["child_id"]) for each in completed])
        self._watcher.changed(board, news)

    def interval_s(self) -> float | None:
        """How often the other one wants to look."""
        return self._watcher.interval_s()

    def tick(self, board: PhaseBoard) -> None:
        """Let the other one look."""
        self._watcher.tick(board)
