"""`artifacts/manifest.json`: what a run's phases put out, by logical name. Derived.

It is computed from the history and the `verdict` lines of the attempts: the latest successful
attempt of a phase gives the entries of its names. Source: specs/0005-artifacts-and-packets.md.
"""

from typing import Annotated, Literal

from pydantic import Field, RootModel, StringConstraints

from adw.model.base import Document
from adw.model.state import Instant

LogicalName = Annotated[str, StringConstraints(pattern=r"\A[a-z][a-z0-9_]{0,63}\z")]
ChildId = Annotated[
    str, StringConstraints(max_length=80, pattern=r"\A[^\x00-\x1f/]{1,64}-[1-9][0-9]{0,8}\z")
]
Sha256 = Annotated[str, StringConstraints(pattern=r"\A[0-9a-f]{64}\z")]
Path = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"\A[^/\x00]")]
"""Relative, with `/` between components."""
Size = Annotated[int, Field(ge=0)]
Root = Literal["worktree", "artifacts"]


class ManifestEntry(Document):
    """One artifact."""

    schema_version: Literal[1]
    """Version of this entry's shape."""
    path: Path | None
    """The copy, relative to the run's directory; null where it was too large to copy."""
    description: str
    """What it is, from the workflow file."""
    producer: ChildId
    """The attempt that put it out."""
    created_at: Instant
    """When it was promoted, UTC."""
    root: Root
    """What `source` is relative to: the worktree, or the producer's own folder `artifacts`."""
    source: Path
    """Where the producer left it."""
    size_bytes: Size
    """Its size when it was promoted."""
    sha256: Sha256
    """SHA-256 of its bytes when it was promoted, hex."""
    copied: bool
    """Whether `path` names a copy."""


class Manifest(RootModel[dict[LogicalName, ManifestEntry]]):
    """Logical name to artifact; `{}` until something is promoted."""
