"""The snapshot format (version 2): one JSON file that holds a tree of resources, named by its id.

The id is the SHA-256 of a canonical form of everything but the id itself, so equal content has an
equal id on any machine, and one changed byte, flag, label, rule or parent gives another.
Source: specs/0003-snapshot-format.md.
"""

import base64
import binascii
import hashlib
import json
import posixpath
from fnmatch import fnmatchcase
from typing import Any, Literal

from pydantic import model_validator

from adw.model.base import Document, parse_json


class SnapshotFile(Document):
    """One file of a snapshot."""

    content: str
    """Canonical base64 of the bytes."""
    component: str
    """Label, consistent with the rules."""
    executable: bool
    """The executable bit."""

    def data(self) -> bytes:
        """The bytes."""
        return base64.b64decode(self.content, validate=True)


class Snapshot(Document):
    """A snapshot; invalid ones cannot be made."""

    format_version: Literal[2] = 2
    """Version of this format."""
    agent_type: str
    """Whose resources these are."""
    root_id: str | None = None
    """Id of the first snapshot of the lineage; null for that one."""
    parent_id: str | None = None
    """Id of the snapshot this one was derived from."""
    component_rules: dict[str, list[str]]
    """Label to path patterns."""
    files: dict[str, SnapshotFile]
    """Normalised relative path to file."""
    id: str
    """SHA-256 hex of the canonical form."""

    @model_validator(mode="after")
    def _valid(self) -> "Snapshot":
        for path, file in self.files.items():
            _check_path(path)
            _check_content(path, file.content)
            if component_of(path, self.component_rules) != file.component:
                message = f"`{path}` does not belong to component `{file.component}`"
                raise ValueError(message)
        if snapshot_id(self.model_dump()) != self.id:
            message = "the id does not fit the content"
            raise ValueError(message)
        return self

    def encode(self) -> bytes:
        """The file's bytes."""
        return json.dumps(self.model_dump(), ensure_ascii=False, indent=1, sort_keys=True).encode()


def parse_snapshot(data: bytes) -> Snapshot:
    """Read and check a snapshot file; ValueError says what is wrong."""
    return Snapshot.model_validate(parse_json(data))


def make_snapshot(
    agent_type: str,
    rules: dict[str, list[str]],
    contents: dict[str, bytes],
    parent: Snapshot | None = None,
) -> Snapshot:
    """Build a snapshot from file contents.

    Args:
        agent_type: Whose resources these are.
        rules: Label to path patterns; each path must fit one.
        contents: Normalised relative path to bytes.
        parent: What it was derived from.

    Raises:
        ValueError: A path is not normalised or fits no rule.
    """
    found: dict[str, Any] = {
        "format_version": 2,
        "agent_type": agent_type,
        "root_id": (parent.root_id or parent.id) if parent else None,
        "parent_id": parent.id if parent else None,
        "component_rules": rules,
        "files": {
            path: {
                "content": base64.b64encode(data).decode(),
                "component": component_of(path, rules),
                "executable": False,
            }
            for path, data in contents.items()
        },
    }
    return Snapshot.model_validate({**found, "id": snapshot_id(found)})


def snapshot_id(content: dict[str, Any]) -> str:
    """SHA-256 of the canonical form of everything but `id`."""
    body = {name: value for name, value in content.items() if name != "id"}
    text = json.dumps(body, ensure_ascii=True, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def component_of(path: str, rules: dict[str, list[str]]) -> str:
    """The label of a path: the first rule, by name, with a fitting pattern.

    Raises:
        ValueError: No rule fits.
    """
    for label in sorted(rules):
        if any(fnmatchcase(path, pattern) for pattern in rules[label]):
            return label
    message = f"no component rule fits `{path}`"
    raise ValueError(message)


def _check_path(path: str) -> None:
    parts = path.split("/")
    if path != posixpath.normpath(path) or path.startswith("/") or "\0" in path:
        message = f"`{path}` is not a normalised relative path"
        raise ValueError(message)
    if any(part in {"", ".", ".."} for part in parts):
        message = f"`{path}` leaves the tree"
        raise ValueError(message)


def _check_content(path: str, content: str) -> None:
    try:
        data = base64.b64decode(content, validate=True)
    except binascii.Error as error:
        message = f"the content of `{path}` is not base64"
        raise ValueError(message) from error
    if base64.b64encode(data).decode() != content:
        message = f"the content of `{path}` is not canonical base64"
        raise ValueError(message)
