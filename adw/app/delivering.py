"""Copies of what a run handed over, in the folder for output that its surroundings named.

`<output>/artifacts/<adw_id>/<logical name>/<file name>` is for whoever started adw and looks
nowhere else. The manifest and the run's own copies are what counts: this folder is made again from
them whenever a sitting ends, and what goes wrong here is told and fails nothing.
"""

import hashlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from adw.app.places import names_in
from adw.store import files

_PIECE: Final = 1 << 20  # bytes
_DIR_MODE: Final = 0o755  # deliverables are for others, unlike the run's own files
_FILE_MODE: Final = 0o644
_NAME: Final = re.compile(r"[a-z][a-z0-9_]*")


class _Changed(OSError):
    """The run's own copy is not what the manifest says."""


def deliver(run_dir: str, manifest: Mapping[str, Mapping[str, Any]], output_dir: str) -> list[str]:
    """Make the run's folder of deliverables hold exactly what its manifest names.

    A file appears whole or not at all, one that is right already is left alone, and what the
    manifest does not name any more is removed. Doing it again changes nothing.

    Args:
        run_dir: The run.
        manifest: Logical name to entry.
        output_dir: Absolute; made if missing.

    Returns:
        What could not be delivered, a line each.
    """
    target = os.path.join(output_dir, "artifacts", os.path.basename(run_dir))
    warnings = []
    if os.path.islink(target):
        return [f"nothing is delivered: `{target}` is a link"]
    if manifest or os.path.isdir(target):
        for name in sorted(manifest):
            warnings += _tried(name, lambda name=name: _one(run_dir, manifest[name], target, name))
        warnings += _tried("what is old", lambda: _remove_others(target, manifest))
    return warnings


def _tried(what: str, act: Any) -> list[str]:
    try:
        said: str | None = act()
    except OSError as error:
        where = f"`{error.filename}`: " if error.filename else ""
        said = f"{where}{error.strerror or error}"
    return [] if said is None else [f"{what} is not delivered: {said}"]


def _one(run_dir: str, entry: Mapping[str, Any], target: str, name: str) -> str | None:
    """Deliver one artifact; says why not, or None."""
    if entry["path"] is None:
        return f"it was too large to be copied, see `{entry['source']}`"
    if not _NAME.fullmatch(name) or ".." in entry["path"].split("/"):
        return "somebody else changed the record of it"
    source = os.path.join(run_dir, entry["path"])
    folder = os.path.join(target, name)
    path = os.path.join(folder, os.path.basename(entry["path"]))
    if os.path.islink(folder):  # what lies behind it is not ours to replace or remove
        return f"`{folder}` is a link"
    if not _is_right(path, entry):
        files.make_dirs(folder, mode=_DIR_MODE)
        files.sweep(folder)
        files.replace(path, _pieces(source, entry["sha256"]), mode=_FILE_MODE)
    return None


def _is_right(path: str, entry: Mapping[str, Any]) -> bool:
    try:
        if os.lstat(path).st_size != entry["size_bytes"]:
            return False
        for _ in _pieces(path, entry["sha256"]):
            pass
    except OSError:
        return False
    return True


def _pieces(path: str, sha256: str) -> Iterator[bytes]:
    """The content of a file, piece by piece; OSError at its end where it is not the recorded one."""
    digest = hashlib.sha256()
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb", buffering=0) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            yield piece
    if digest.hexdigest() != sha256:
        raise _Changed(0, "it is not what was handed over", path)


def _remove_others(target: str, manifest: Mapping[str, Mapping[str, Any]]) -> None:
    """Remove names, and files of a name, that the manifest has not."""
    for name in names_in(target):
        path = os.path.join(target, name)
        if name not in manifest:
            _remove(path)
            continue
        kept = os.path.basename(manifest[name]["path"] or "")
        for other in [] if os.path.islink(path) else names_in(path):
            if other != kept:
                _remove(os.path.join(path, other))


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        files.remove_tree(path)
    else:
        files.unlink(path)
