"""Attempt directories: the packet before launch, and the facts in `attempt.jsonl` afterwards.

`attempts/<phase>-<attempt>/attempt.jsonl` is a log of lines (launch, supervisor, body, adopt,
exit, verdict, tree) and the attempt's lock file at once: lock free means attempt over or its
supervisor dead.
Readers leave bad lines out: a full disk tears one, after a power cut the unsynced tail may be zeros.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from adw import failpoints
from adw.errors import ReadError, StoreError
from adw.ids import PHASE_NAME
from adw.store import files
from adw.store.encoding import fits, json_bytes

FILE: Final = "attempt.jsonl"
LIMIT: Final = 64 << 20  # bytes; a handful of lines, the longest is an argv
_EVIDENCE: Final = ("launch", "supervisor", "body", "exit", "verdict", "tree")


@dataclass(frozen=True, slots=True)
class Packet:
    """A complete packet, durable as soon as its supervisor has synced it."""

    child_id: str
    lock_fd: int
    attempt_dir: str
    child_dir: str
    names: tuple[str, ...]
    """Files of the packet in `child_dir`."""

    @property
    def sync_files(self) -> tuple[str, ...]:
        """What the supervisor syncs before "go"; attempt.jsonl it holds open itself."""
        return tuple(os.path.join(self.child_dir, name) for name in self.names)

    @property
    def sync_dirs(self) -> tuple[str, ...]:
        """The directories whose entries are new."""
        return (self.child_dir, self.attempt_dir)


def write_packet(
    run_dir: str,
    child_id: str,
    task: bytes,
    launch: Mapping[str, Any],
    skill: bytes | None = None,
) -> Packet:
    """Write TASK.md, SKILL.md and the launch line of a new attempt and take its lock.

    Args:
        run_dir: The run's directory.
        child_id: `<phase>-<attempt>`; must be new.
        task: Content of TASK.md.
        skill: Content of SKILL.md; None: there is none.
        launch: Facts for the launch line: phase, attempt, repairs, at …

    Raises:
        OSError: A part of the packet may be there; `open` removes it.
    """
    child_dir = os.path.join(run_dir, "children", child_id)
    attempt_dir = dir_of(run_dir, child_id)
    line = encode({"line": "launch", **launch})
    files.make_dir(child_dir)
    files.make_dir(os.path.join(child_dir, "artifacts"))
    files.make_dir(attempt_dir)
    packet = {"TASK.md": task} if skill is None else {"TASK.md": task, "SKILL.md": skill}
    for name, data in packet.items():
        files.create(os.path.join(child_dir, name), data, sync=False)
    fd = files.open_append(os.path.join(attempt_dir, FILE), new=True)
    held = files.lock(fd)
    assert held, "a new file's lock is free"
    files.append(fd, line)
    failpoints.hit("packet.written")
    return Packet(child_id, fd, attempt_dir, child_dir, tuple(packet))


def encode(line: Mapping[str, Any]) -> bytes:
    """One line without its newline."""
    return json_bytes(line)


def dir_of(run_dir: str, child_id: str) -> str:
    """Where the facts and logs of an attempt lie."""
    return os.path.join(run_dir, "attempts", child_id)


def lines_of(run_dir: str, child_id: str) -> list[dict[str, Any]]:
    """The good lines of an attempt of a run; as `read_lines`."""
    return read_lines(dir_of(run_dir, child_id))


def read_lines(attempt_dir: str) -> list[dict[str, Any]]:
    """The good lines of an attempt; [] where there is no file.

    Raises:
        ReadError: It is there and cannot be read: that never means that there is no attempt.
    """
    path = os.path.join(attempt_dir, FILE)
    try:
        data = files.read(path, limit=LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ReadError.of(error, path) from error
    return [line for _, line in _good(data)]


def _good(data: bytes) -> Iterator[tuple[bytes, dict[str, Any]]]:
    for raw in files.lines(data):
        try:
            line = json.loads(raw)
        except (ValueError, RecursionError):
            continue
        if isinstance(line, dict) and "line" in line:
            yield raw, line


def note_adoption(attempt_dir: str, at: str) -> None:
    """Append that another orchestrator took the attempt over; for display, so unsynced."""
    fd = files.open_append(os.path.join(attempt_dir, FILE))
    try:
        files.append(fd, encode({"line": "adopt", "pid": os.getpid(), "at": at}))
    finally:
        os.close(fd)


def write_anew(attempt_dir: str) -> None:
    """Make what an attempt's file says durable, whoever wrote it and failed to sync it.

    What a failed sync was to write is still read, and no later sync brings it to the disk. So the
    last line of each kind is appended once more. The file stays the same one: a supervisor that is
    about to end may hold its lock. The names of the file and of its directory are synced too.

    Raises:
        StoreError: It could not be done; the lines may be there twice.
    """
    path = os.path.join(attempt_dir, FILE)
    last: dict[str, bytes] = {}
    try:
        for raw, line in _good(files.read(path, limit=LIMIT)):
            if line["line"] in _EVIDENCE:
                last.pop(line["line"], None)  # in the order of the last ones
                last[line["line"]] = raw
        fd = files.open_append(path)
        try:
            files.append(fd, b"\n".join(last.values()), sync=True)
        finally:
            os.close(fd)
        files.sync_dir(attempt_dir)
        files.sync_dir(os.path.dirname(attempt_dir))
    except OSError as error:
        raise StoreError.of(error, error.filename or path) from error


def note_verdict(run_dir: str, child_id: str, verdict: Mapping[str, Any]) -> None:
    """Append what was judged of an attempt, durable when this returns.

    An attempt that was refused before its launch gets its folder by this.

    Args:
        run_dir: The run's directory.
        child_id: `<phase>-<attempt>`.
        verdict: `at`, `success`, `reason`, `detail`, `outputs`, `faults`.
    """
    line = encode({"line": "verdict", **verdict})
    attempt_dir = dir_of(run_dir, child_id)
    new = not os.path.isdir(attempt_dir)
    if new:
        files.make_dir(attempt_dir, sync=True)
    fd = files.open_append(os.path.join(attempt_dir, FILE))
    try:
        files.append(fd, line, sync=True)
    finally:
        os.close(fd)
    if new:
        files.sync_dir(attempt_dir)


def find(lines: list[dict[str, Any]], kind: str) -> dict[str, Any] | None:
    """The last line of a kind."""
    return next((line for line in reversed(lines) if line["line"] == kind), None)


def verdict(lines: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The last verdict line; one that is not whole counts for nothing, whoever damaged it."""
    found = find(lines, "verdict")
    if found is None or not fits(found, _VERDICT):
        return None
    sound = all(_sound(name, each) for name, each in found["outputs"].items())
    return found if sound and all(fits(each, _FAULT) for each in found["faults"]) else None


def _sound(name: str, output: object) -> bool:
    """Whether an output is of the form that adw writes, and leads to a place inside only."""
    if not (PHASE_NAME.match(name) and fits(output, _OUTPUT)):
        return False
    assert isinstance(output, dict)
    path, known = output["path"], output["root"] in {"worktree", "artifacts"}
    copy = path is None or (path.startswith(f"artifacts/{name}/") and is_below(path))
    return known and copy and is_below(output["source"])


def is_below(path: str) -> bool:
    """Whether a path stays below the directory that it is relative to."""
    return bool(path) and not path.startswith("/") and ".." not in path.split("/")


_NONE: Final = type(None)
_VERDICT: Final = {
    "at": (str,),
    "success": (bool,),
    "reason": (str, _NONE),
    "detail": (str, _NONE),
    "outputs": (dict,),
    "faults": (list,),
}
_OUTPUT: Final = {
    "path": (str, _NONE),
    "source": (str,),
    "root": (str,),
    "description": (str,),
    "size_bytes": (int,),
    "sha256": (str,),
    "copied": (bool,),
}
_FAULT: Final = {
    "name": (str,),
    "path": (str,),
    "root": (str,),
    "kind": (str,),
    "detail": (str,),
    "optional": (bool,),
}


def exit_code(lines: list[dict[str, Any]]) -> int | None:
    """The program's exit code by the last exit line, where it had one."""
    code = (find(lines, "exit") or {}).get("exit_code")
    return code if type(code) is int else None


def alive(attempt_dir: str) -> bool:
    """Whether a supervisor, or an orchestrator on its way to one, holds the attempt."""
    return files.locked(os.path.join(attempt_dir, FILE))


def child_ids(run_dir: str) -> list[str]:
    """Names of all attempt directories, in no particular order."""
    try:
        return [name for name in os.listdir(os.path.join(run_dir, "attempts")) if "-" in name]
    except FileNotFoundError:
        return []


def split(child_id: str) -> tuple[str, int]:
    """`build-2` to (`build`, 2)."""
    phase, _, number = child_id.rpartition("-")
    return phase, int(number) if number.isdigit() else 0


def child_dir(run_dir: str, child_id: str) -> str | None:
    """The folder of an attempt's child; None where it is gone, or a link leads elsewhere."""
    path = os.path.join(run_dir, "children", child_id)
    return path if os.path.isdir(path) and not os.path.islink(path) else None


def remove(run_dir: str, child_id: str) -> None:
    """Remove a packet that never became an attempt."""
    for kind in ("children", "attempts"):
        path = os.path.join(run_dir, kind, child_id)
        if os.path.isdir(path) and not os.path.islink(path):
            files.remove_tree(path)


def log_tail(attempt_dir: str, size: int) -> str:
    """The last `size` bytes of stderr.log, or of stdout.log where it is empty.

    Where one cannot be read it says so: whoever is told of it must not think that it was empty.
    """
    for name in ("stderr.log", "stdout.log"):
        try:
            with open(os.path.join(attempt_dir, name), "rb") as file:
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - size))
                data = file.read(size)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            return f"({name} cannot be read: {error.strerror})"
        if data.strip():
            return data.decode("utf-8", "replace")
    return ""
