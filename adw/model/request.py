"""`requests/<seq>-<kind>.json`: what a person asks of a run."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, RootModel

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


class TaskAdd(_Asked):
    """Add to the task of a phase."""

    kind: Literal["task_add"]
    """What is asked."""
    fields: Addendum
    """The phase and the words."""


class Request(RootModel[Annotated[Cancel | Pause | StateSet | TaskAdd, Discriminator("kind")]]):
    """One request."""
