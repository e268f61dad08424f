"""`effects/<sha256>.json`: one outside effect, intent and receipt in one document.

The name is the SHA-256 of the full key: `<adw_id>/<phase>/<round>/<key>`, or `<adw_id>/run/<key>`
for what happens once in a run. Source: specs/0006-effects.md.
"""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from adw.model.artifact import ChildId, Sha256
from adw.model.base import Document
from adw.model.state import Instant, Name

Key = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class EffectRecord(Document):
    """An outside effect: what was meant, whether it was done, and what it put out."""

    schema_version: Literal[1]
    """Version of this document."""
    key: Key
    """What the phase calls it."""
    phase: Name
    """The phase that tried it last."""
    round: Annotated[int, Field(ge=1)]
    """Round of that phase."""
    once: bool
    """Once in the run, whatever the phase and round."""
    child_id: ChildId
    """The attempt that tried it last."""
    state: Literal["intent", "done", "unknown", "not_done"]
    """`intent`: begun, perhaps done; `unknown`: begun, and nobody could tell; `not_done`: it has
    certainly not happened and may be done."""
    payload_sha256: Sha256
    """SHA-256 of what it does, hex: of the command's words, each ended by a NUL."""
    intended_at: Instant
    """When that attempt meant to do it."""
    looked_up: Annotated[int, Field(ge=0)]
    """How often it was looked up, over all attempts."""
    done_at: Instant | None
    """When it was known to be done."""
    output: str | None
    """What it put out; at most 65,536 bytes of UTF-8."""
    settled_by: Literal["person"] | None
    """Who said so, where nobody could tell."""
    note: str | None
    """One line for people: why it failed, or cannot be told."""
