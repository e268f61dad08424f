"""`reference/run-directory.md`: its own form, and its queries; real runs are held against it in
tests/integration/test_run_documents.py."""

import re

import pytest

from adw.model.schemas import NAMES
from tests.support.documents import PAGE, row_of, rows

KINDS = {"truth", "derived", "claim", "trail", "sign"}


def test_each_file_is_of_a_known_kind_and_has_a_known_schema_or_none() -> None:
    assert {row.kind for row in rows()} == KINDS
    named = {row.schema for row in rows() if row.schema}

    # The others are no files of a run: what people write, and what a command prints.
    assert named == set(NAMES) - {"workflow", "config", "status"}


def test_no_file_is_on_the_page_twice() -> None:
    paths = [row.path for row in rows()]

    assert len(paths) == len(set(paths))


@pytest.mark.parametrize(
    "path",
    [
        "adw_state.json.bak",
        "children/plan/TASK.md",
        "children/plan-0/TASK.md",
        "attempts/plan-1/debug.log",
        "artifacts/Plan/plan-1/x.md",
        "artifacts/plan/x.md",
        "notes.txt",
    ],
)
def test_what_is_not_on_the_page_is_found_out(path: str) -> None:
    assert row_of(path) is None


def test_the_page_links_what_it_stands_on() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert "specs/0002-run-directory.md" in text
    assert "specs/0005-artifacts-and-packets.md" in text
    assert re.findall(r"^\$ jq ", text, re.MULTILINE)
