"""Workflows shown in documents are valid, and so are the shipped ones."""

import re
from pathlib import Path

import pytest

from adw.loader import advice, load_bytes, load_workflow, shipped_dir
from tests.docs.pages import DOCS, ROOT

SHOWN = [
    (path.relative_to(ROOT).as_posix(), text)
    for path in sorted([ROOT / "README.md", *DOCS.rglob("*.md")])
    for text in re.findall(
        r"^```yaml\n(.*?)^```$", path.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    if text.startswith("schema_version: ")
]
SHIPPED = sorted(Path(shipped_dir()).glob("*.yaml"))


def test_there_are_examples() -> None:
    assert "README.md" in {page for page, _ in SHOWN}
    assert [path.name for path in SHIPPED] == ["sdlc.yaml"]


@pytest.mark.parametrize(("page", "text"), SHOWN)
def test_a_workflow_shown_in_a_document_is_valid(page: str, text: str) -> None:
    skills = dict.fromkeys(re.findall(r"skill: (\S+\.md)", text), b"A role.")

    assert load_bytes(text.encode(), page, skills).graph.phases


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.name)
def test_a_shipped_workflow_is_valid_and_nothing_is_advised_against(path: Path) -> None:
    loaded = load_workflow(str(path))

    assert loaded.graph.name == path.stem
    assert advice(loaded) == []
