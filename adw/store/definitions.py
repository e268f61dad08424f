"""Pinned definitions of a run: `definitions/<id>.json` in the snapshot format.

A pin is made once and never changed; which one counts is what the state's `workflow` names.
`<id>.graph.json` beside it is derived and rebuilt where it is missing or of another format.
"""

import contextlib
import json
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from adw.errors import BrokenRun
from adw.store import files

if TYPE_CHECKING:
    from adw.model.snapshot import Snapshot

RULES: Final = {
    "command": ["command.json"],
    "config": ["config.json"],
    "workflow": ["workflow/*"],
}
_SKILL: Final = "skill/"


def make_definition(
    file: str,
    source: bytes,
    config: dict[str, Any],
    command: dict[str, Any],
    resources: Mapping[str, bytes] | None = None,
) -> "Snapshot":
    """Pin a workflow file, the resolved configuration and what one command asked for.

    Args:
        file: Path of the workflow file.
        source: Its bytes.
        config: adw.yaml, resolved.
        command: What the command asked for.
        resources: Skills that the file names, by path relative to its folder.
    """
    from adw.model.snapshot import make_snapshot  # resume works from the derived form

    contents = {
        f"workflow/{os.path.basename(file)}": source,
        "config.json": _json(config),
        "command.json": _json(command),
    }
    rules = RULES
    if resources:
        rules = {**RULES, "skill": [f"{_SKILL}*"]}
        contents.update({_SKILL + path: data for path, data in resources.items()})
    return make_snapshot("adw-workflow", rules, contents)


def save_definition(run_dir: str, definition: "Snapshot") -> None:
    """Store a pin; one that is there already is the same, by its id."""
    path = _path(run_dir, definition.id)
    if os.path.lexists(path):
        files.sync_dir(os.path.dirname(path))  # a crash may have come before the sync below
        return
    temp = files.temp_name(path)
    files.create(temp, definition.encode())
    try:
        with contextlib.suppress(FileExistsError):
            files.link(temp, path)
    finally:
        files.unlink(temp)
    files.sync_dir(os.path.dirname(path))


def load_definition(run_dir: str, definition_id: str) -> "Snapshot":
    """Read and check a pin.

    Raises:
        BrokenRun: It is missing, damaged, or not the one that its name says.
    """
    from adw.model.snapshot import parse_snapshot

    path = _path(run_dir, definition_id)
    try:
        found = parse_snapshot(files.read(path))
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).splitlines()[0]
        raise _broken(run_dir, path, reason) from error
    if found.id != definition_id:
        raise _broken(run_dir, path, f"its id is `{found.id}`")
    return found


def workflow_source(definition: "Snapshot") -> tuple[str, bytes]:
    """The pinned workflow file: its name and its bytes."""
    for path, file in definition.files.items():
        if file.component == "workflow":
            return path.removeprefix("workflow/"), file.data()
    message = "a definition without workflow"
    raise ValueError(message)


def resources_of(definition: "Snapshot") -> dict[str, bytes]:
    """The pinned skills, by path as the workflow file names them."""
    return {
        path.removeprefix(_SKILL): file.data()
        for path, file in definition.files.items()
        if file.component == "skill"
    }


def resource(run_dir: str, definition_id: str, path: str) -> bytes:
    """One pinned skill.

    Raises:
        BrokenRun: As `load_definition`; or the pin does not have it.
    """
    found = load_definition(run_dir, definition_id).files.get(_SKILL + path)
    if found is None:
        raise without(run_dir, definition_id, path)
    return found.data()


def without(run_dir: str, definition_id: str, path: str) -> BrokenRun:
    """The error for a pin that lacks a skill which its workflow names."""
    return _broken(run_dir, _path(run_dir, definition_id), f"it has no skill `{path}`")


def load_json(definition: "Snapshot", name: str) -> dict[str, Any]:
    """`config.json` or `command.json` of a pin."""
    found: dict[str, Any] = json.loads(definition.files[name].data())
    return found


def load_graph_json(run_dir: str, definition_id: str) -> dict[str, Any] | None:
    """The compiled graph, command and configuration; None where it must be derived again."""
    data = files.read_if_exists(_path(run_dir, definition_id, "graph."))
    try:
        found: dict[str, Any] | None = json.loads(data) if data else None
    except ValueError:
        return None
    return found if isinstance(found, dict) and found.get("definition") == definition_id else None


def save_graph_json(run_dir: str, definition_id: str, derived: dict[str, Any]) -> None:
    """Keep what was derived from a pin; unsynced, since it can be derived again."""
    files.replace(_path(run_dir, definition_id, "graph."), graph_bytes(derived), sync=False)


def graph_bytes(derived: dict[str, Any]) -> bytes:
    """The bytes of `<id>.graph.json`.

    Args:
        derived: `definition` (the id it was derived from), `graph`, `config`, `command` …
    """
    return _json(derived)


def _path(run_dir: str, definition_id: str, infix: str = "") -> str:
    return os.path.join(run_dir, "definitions", f"{definition_id}.{infix}json")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )


def _broken(run_dir: str, path: str, reason: str) -> BrokenRun:
    adw_id = os.path.basename(run_dir)
    return BrokenRun(path=path, what="definition", reason=reason, adw_id=adw_id)
