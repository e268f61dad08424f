"""Two runs of one workflow leave documents of equal shape: keys, value types, logical names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from adw.loader import shipped_dir
from tests.integration.test_sdlc import AGENT, SETTINGS, TEST
from tests.support.adw import Adw
from tests.support.documents import documents

Shape = dict[str, dict[str, set[str]]]
"""Kind of document, or of event or line, to its keys, each with the types of its values."""


def _sdlc(adw: Adw) -> None:
    files = {"tools/agent.sh": AGENT, "tools/test.sh": TEST, "adw.yaml": SETTINGS}
    adw.repo.commit("shop", files)


STAND_INS: Final[dict[str, Callable[[Adw], None]]] = {"sdlc": _sdlc}
"""Shipped workflow to what makes a repository in which it succeeds."""

SHIPPED: Final = sorted(path.stem for path in Path(shipped_dir()).glob("*.yaml"))


def shape_of(run_dir: Path) -> Shape:
    """What shape the documents of a run have."""
    found: Shape = {}
    for _, name, document in documents(run_dir):
        kind = f"{name} {document.get('event') or document.get('line') or ''}".strip()
        keys = found.setdefault(kind, {})
        if name == "manifest":
            keys |= {logical: {"entry"} for logical in document}
            continue
        for key, value in document.items():
            keys.setdefault(key, set()).add(type(value).__name__)
    return found


def told_of(run_dir: Path) -> list[tuple[str, str | None]]:
    """The events in order."""
    found = [document for _, name, document in documents(run_dir) if name == "event"]
    return [(event["event"], event["stage"]) for event in found]


def kinds_of_keys(run_dir: Path) -> dict[str, set[frozenset[str]]]:
    """Event kind to the key sets that its events have."""
    found: dict[str, set[frozenset[str]]] = {}
    for _, name, document in documents(run_dir):
        if name == "event":
            found.setdefault(document["event"], set()).add(frozenset(document))
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("name", SHIPPED)
def test_two_runs_of_a_shipped_workflow_have_equal_shapes_FS_13(name: str, tmp_path: Path) -> None:
    """Must-show 4."""
    adw = Adw(tmp_path).issue(47, "Add a line").issue(48, "Add another line")
    STAND_INS[name](adw)
    for number in ("47", "48"):
        adw.run("run", name, number).ok()
    first, second = (_run_of(adw, number) for number in (47, 48))

    assert told_of(first) == told_of(second)
    assert shape_of(first) == shape_of(second)
    assert all(len(keys) == 1 for keys in kinds_of_keys(first).values())
    assert kinds_of_keys(first) == kinds_of_keys(second)


def _run_of(adw: Adw, number: int) -> Path:
    for path in (adw.repo.path / "agents").glob("[!.]*"):
        state: dict[str, Any] = json.loads((path / "adw_state.json").read_bytes())
        if state["issue_number"] == number:
            return path
    raise AssertionError(number)
