"""A repository for commands that only look."""

from pathlib import Path

import pytest

from tests.cli.handmade import repository
from tests.support.repo import Repo


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """One workflow `w`, one issue, no run."""
    return repository(tmp_path / "repo")
