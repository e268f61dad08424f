"""What people ask of a run: durable files that the holder of the run's lock applies.

`requests/<seq>-<kind>.json`, `seq` above all in `requests/applied/` too, given under an OFD lock
on `requests/.lock`. The holder applies a request in the same rename as its entry and moves the
file to `applied/` afterwards, so a crash between the two shows in the state: then it is moved
unapplied.
"""

import contextlib
import errno
import json
import os
from dataclasses import dataclass
from typing import Any, Final

from adw import failpoints
from adw.store import files, waiting
from adw.store.encoding import json_bytes

DIR: Final = "requests"
APPLIED: Final = os.path.join(DIR, "applied")
WAKE: Final = "wake"
KINDS: Final = frozenset({"cancel", "pause", "settle", "state_set", "task_add"})
TEXT_LIMIT: Final = 256 << 10  # bytes of UTF-8 that a `task_add` carries
LIMIT: Final = 2 << 20  # bytes of one request: JSON makes six bytes of a control character


@dataclass(frozen=True, slots=True)
class Request:
    """One thing that a person asked for."""

    name: str
    """File name, which is also the order."""
    kind: str
    fields: dict[str, Any]
    entries: int
    """Length of phase_history when it was asked."""


def ask(run_dir: str, kind: str, entries: int, fields: dict[str, Any]) -> str:
    """Write a request durably and wake the holder, if there is one.

    Returns:
        Path of the request's file; it is gone when the request has been handled.

    Raises:
        OSError: Nothing was asked.
        ValueError: A field is no JSON; nothing was asked.
    """
    assert kind in KINDS, kind
    body = json_bytes({"kind": kind, "entries": entries, "fields": fields})
    folder = os.path.join(run_dir, DIR)
    lock = files.open_lock(os.path.join(folder, ".lock"))
    try:
        waiting.take(lock, os.path.join(folder, ".lock"))
        path = os.path.join(folder, f"{_next(run_dir):06d}-{kind}.json")
        files.replace(path, body)
    finally:
        os.close(lock)
    wake(run_dir)
    return path


def sweep(run_dir: str) -> None:
    """Remove what killed askers left; under their lock, since a living one may be writing."""
    folder = os.path.join(run_dir, DIR)
    lock = files.open_lock(os.path.join(folder, ".lock"))
    try:
        waiting.take(lock, os.path.join(folder, ".lock"))
        files.sweep(folder)
    finally:
        os.close(lock)


def wake(run_dir: str) -> None:
    """Write one byte into the holder's FIFO; without a holder nothing happens."""
    try:
        fd = os.open(os.path.join(run_dir, WAKE), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in {errno.ENOENT, errno.ENXIO}:
            return
        raise
    with contextlib.suppress(BlockingIOError):
        os.write(fd, b".")
    os.close(fd)


def names(run_dir: str) -> list[str]:
    """File names of the requests that wait, unread; none where the folder is missing."""
    try:
        return _names(os.path.join(run_dir, DIR))
    except FileNotFoundError:
        return []


def pending(run_dir: str) -> list[Request]:
    """Requests that wait, in order; a damaged file is left out and stays for `adw doctor`."""
    return _read(run_dir, DIR)


def applied_of(run_dir: str, kind: str) -> list[Request]:
    """All requests of a kind that were ever asked, in order: applied ones and those that wait."""
    # The waiting ones first: one that is moved between the two looks is then seen in both.
    ending = f"-{kind}.json"
    waiting = _read(run_dir, DIR, ending)
    found = {request.name: request for request in [*waiting, *_read(run_dir, APPLIED, ending)]}
    return [found[name] for name in sorted(found)]


def _read(run_dir: str, folder: str, ending: str = ".json") -> list[Request]:
    """The good requests in a folder, in order."""
    found = []
    for name in sorted(_names(os.path.join(run_dir, folder), ending)):
        try:
            data = json.loads(files.read(os.path.join(run_dir, folder, name), limit=LIMIT))
            request = Request(name, data["kind"], dict(data["fields"]), int(data["entries"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if request.kind in KINDS:
            found.append(request)
    return found


def applied(run_dir: str, request: Request) -> None:
    """Move a request that has been handled."""
    failpoints.hit("request.applied")
    source = os.path.join(run_dir, DIR, request.name)
    with contextlib.suppress(FileNotFoundError):
        files.rename(source, os.path.join(run_dir, APPLIED, request.name))
    files.sync_dir(os.path.join(run_dir, APPLIED))
    files.sync_dir(os.path.join(run_dir, DIR))
    failpoints.hit("request.moved")


def _names(folder: str, ending: str = ".json") -> list[str]:
    return [name for name in os.listdir(folder) if name.endswith(ending) and name[0] != "."]


def _next(run_dir: str) -> int:
    names = _names(os.path.join(run_dir, DIR)) + _names(os.path.join(run_dir, APPLIED))
    return 1 + max((int(name.split("-")[0]) for name in names if name[:6].isdigit()), default=0)
