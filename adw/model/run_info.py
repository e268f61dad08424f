"""`run.json`: what a run was made from. Written once, with the run's directory."""

from typing import Annotated, Literal

from pydantic import Field

from adw.model.base import Document
from adw.model.state import Instant, IssueClass


class RunIssue(Document):
    """The issue as it was read at creation; its body is in TASK.md only."""

    number: Annotated[int, Field(ge=1)] | None
    """Its number; null for a run of `--task`."""
    title: str
    """One line."""
    labels: list[str]
    """As the tracker has them."""
    issue_class: IssueClass | None
    """Kind of the issue, where something says it."""


class RunInfo(Document):
    """The whole document."""

    schema_version: Literal[1]
    """Version of this document."""
    adw_version: str
    """The adw that made the run; compared, never required."""
    repository: str
    """Path of the main checkout at creation, for people: a copied run opens elsewhere."""
    created_at: Instant
    """When, UTC."""
    base: str | None
    """Commit that the branch starts from."""
    issue: RunIssue
    """What the run is about."""
