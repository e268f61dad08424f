"""`requests/<seq>-<kind>.json`: what a person asks of a run."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel, StringConstraints

from adw.model.artifact import Sha256
from adw.model.base import Document


class _Asked(Document):
    entries: Annotated[int, Field(ge=0)]
    """Length of `phase_history` when it was asked."""


class Nothing(Document):
    """No fields."""


class Addendum(Document):
    """Words for a phase."""

    phase: str
    """Its name."""
    text: str
    """What is added to its TASK.md."""


class Cancel(_Asked):
    """End what runs, start nothing more."""

    kind: Literal["cancel"]
    """What is asked."""
    fields: Nothing
    """None."""


class Pause(_Asked):
    """Start nothing new; leave when what runs has ended."""

    kind: Literal["pause"]
    """What is asked."""
    fields: Nothing
    """None."""


class StateSet(_Asked):
    """Set fields of the state."""

    kind: Literal["state_set"]
    """What is asked."""
    fields: dict[str, Any]
    """State field to its new value."""


class Settlement(Document):
    """A person's word on an effect."""

    effect: Annotated[str, StringConstraints(pattern=r"\Aeffects/[0-9a-f]{64}\.json\z")]
    """Its record, relative to the run's directory."""
    state: Literal["done", "not_done"]
    """What it is settled as."""
    seen_sha256: Sha256
    """SHA-256 of the record that the person was shown, hex; of another one nothing is settled."""


class Settle(_Asked):
    """Say whether an effect took place."""

    kind: Literal["settle"]
    """What is asked."""
    fields: Settlement
    """The effect, and the word."""


class TaskAdd(_Asked):
    """Add to the task of a phase."""

    kind: Literal["task_add"]
    """What is asked."""
    fields: Addendum
    """The phase and the words."""


class Request(
    RootModel[Annotated[Cancel | Pause | Settle | StateSet | TaskAdd, Discriminator("kind")]]
):
    """One request."""
