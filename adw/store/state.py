"""The state file of one run, as the holder of the run's lock sees it.

Reader's guarantee: `adw_state.json` is always one whole version; replacing it is the commit point
of everything adw does. A damaged or foreign file is refused and never written over.
A crash leaves at most a temporary file, and `adw_state.prev.json`, the version before, which is
for people: nothing falls back to it by itself, since that would repeat effects.
"""

import errno
import hashlib
import os
from collections.abc import Callable, Sequence
from typing import Any, Final

from adw import failpoints
from adw.errors import ReadError, StateError, StateVersion, StoreError
from adw.model.base import parse_json
from adw.model.state import (
    SCHEMA_VERSION,
    ADWStateData,
    HistoryEntry,
    encode_head,
    encode_state,
)
from adw.store import files

NAME = "adw_state.json"
PREVIOUS = "adw_state.prev.json"
_NOT_THE_FILES: Final = {errno.EMFILE, errno.ENFILE, errno.ENOMEM}
"""Errors of a read that say nothing of the file."""


def load_state(run_dir: str) -> tuple[ADWStateData, bytes]:
    """Read and check a run's state.

    Returns:
        The state and the bytes it was read from.

    Raises:
        StateError: The file is missing, damaged, foreign or of a newer version; it is untouched.
        ReadError: This process has no descriptor or memory left to read it.
    """
    path = os.path.join(run_dir, NAME)
    try:
        data = files.read(path)
    except OSError as error:
        if error.errno in _NOT_THE_FILES:
            raise ReadError.of(error, path) from error
        raise StateError(**_fields(run_dir, error.strerror or str(error))) from error
    return check_state(run_dir, data), data


def load_again(run_dir: str, state: ADWStateData, data: bytes) -> tuple[ADWStateData, bytes]:
    """Read a state once more, now that the run's lock is held; checked only where it changed.

    Args:
        run_dir: The run.
        state: What was read before the lock was asked for.
        data: The bytes that it was read from.

    Raises:
        StateError: As `load_state`.
    """
    try:
        if files.read(os.path.join(run_dir, NAME)) == data:
            return state, data
    except OSError:
        pass
    return load_state(run_dir)


def check_state(run_dir: str, data: bytes) -> ADWStateData:
    """Check bytes of a state file; as `load_state`."""
    path = os.path.join(run_dir, NAME)
    try:
        found = parse_json(data)
    except ValueError as error:
        raise StateError(**_fields(run_dir, _json_fault(data, error))) from error
    version = found.get("schema_version", 1) if isinstance(found, dict) else 1
    if isinstance(version, int) and version > SCHEMA_VERSION:
        raise StateVersion(path=path, found=version, supported=SCHEMA_VERSION)
    try:
        state = ADWStateData.model_validate(found)
    except ValueError as error:
        raise StateError(**_fields(run_dir, first_fault(error))) from error
    if state.adw_id != os.path.basename(run_dir) and not os.path.basename(run_dir).startswith("."):
        reason = f"it is the state of run `{state.adw_id}`"
        raise StateError(**_fields(run_dir, reason))
    return state


class StateFile:
    """The one writer of a state file. Create it only while the run's lock is held."""

    def __init__(self, run_dir: str, state: ADWStateData, data: bytes) -> None:
        self._dir = run_dir
        self._path = os.path.join(run_dir, NAME)
        self._written: Sequence[HistoryEntry] = state.phase_history
        self._encoded = [entry.encode() for entry in state.phase_history]
        self._bytes = data
        self._seen = self._stat()

    @property
    def data(self) -> bytes:
        """The bytes last written or read; another object for each version."""
        return self._bytes

    @property
    def sha256(self) -> str:
        """Hex digest of the bytes last written or read."""
        return hashlib.sha256(self._bytes).hexdigest()

    def save(self, state: ADWStateData, before_rename: Callable[[], None] | None = None) -> None:
        """Commit a state whose history goes on from the one on disk.

        Args:
            state: The new version.
            before_rename: Called when the new bytes are synced; an exception leaves the old state.

        Raises:
            StoreError: The old file is intact, except where the last sync, that of the directory,
                failed: then the new version stands and its durability is unknown.
        """
        old, new = self._written, state.phase_history
        assert len(new) >= len(old), "phase_history is append-only"
        assert all(a is b for a, b in zip(old, new, strict=False)), "phase_history is append-only"
        self._encoded.extend(entry.encode() for entry in new[len(old) :])
        self._written = new
        self._replace(encode_state(encode_head(state), self._encoded), before_rename)

    def restore(self) -> str | None:
        """Put back what was written last, if somebody changed it.

        Returns:
            Name of the file that keeps the foreign bytes, or None where nothing was changed.
        """
        if self._stat() == self._seen:
            return None
        try:
            found: bytes | None = files.read(self._path)
        except OSError:
            found = None
        if found == self._bytes:
            self._seen = self._stat()
            return None
        name = self._keep(found)
        self._replace(self._bytes, None)
        return name

    def _keep(self, found: bytes | None) -> str:
        number = 1
        while True:
            name = f"adw_state.tampered.{number}.json"
            try:
                files.create(os.path.join(self._dir, name), found or b"")
            except FileExistsError:
                number += 1
            else:
                return name

    def _replace(self, data: bytes, before_rename: Callable[[], None] | None) -> None:
        def ready() -> None:
            if before_rename:
                before_rename()
            self._link_previous()
            failpoints.hit("state.before_rename")

        try:
            if os.path.isdir(self._path) and not os.path.islink(self._path):
                files.rename(self._path, files.temp_name(self._path) + ".dir")
            files.replace(self._path, data, before_rename=ready)
        except OSError as error:
            reason = error.strerror or str(error)
            raise StoreError(path=self._path, reason=reason, fix="adw doctor") from error
        failpoints.hit("state.after_rename")
        self._bytes = data
        self._seen = self._stat()

    def _link_previous(self) -> None:
        previous = os.path.join(self._dir, PREVIOUS)
        files.unlink(previous)
        if os.path.isfile(self._path):
            files.link(self._path, previous)

    def _stat(self) -> tuple[int, int, int, int] | None:
        # ctime cannot be set by a program, so a rewrite in place that restores mtime shows too.
        try:
            info = os.lstat(self._path)
        except FileNotFoundError:
            return None
        return info.st_ino, info.st_size, info.st_ctime_ns, info.st_mode


def _fields(run_dir: str, reason: str) -> dict[str, Any]:
    return {
        "path": os.path.join(run_dir, NAME),
        "what": "state file",
        "reason": reason,
        "adw_id": os.path.basename(run_dir),
    }


def _json_fault(data: bytes, error: ValueError) -> str:
    if not data:
        return "it is empty"
    return str(error).splitlines()[0]


def first_fault(error: ValueError) -> str:
    """The first fault that pydantic found, in one line that names the field."""
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return str(error)
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"])
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        return f"unknown key `{place}`"
    return f"`{place}`: {message}" if place else message
