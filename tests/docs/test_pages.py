"""The docs say what the code says."""

import re
from pathlib import Path
from typing import get_args

import pytest

from adw.errors import ExitCode
from adw.model.state import Reason
from tests.docs.pages import DOCS, PAGES, ROOT

MARKDOWN = sorted([*DOCS.rglob("*.md"), ROOT / "README.md", *(ROOT / "specs").rglob("*.md")])
WORDS = [
    "workflow",
    "phase",
    "run",
    "ADW_ID",
    "attempt",
    "retry",
    "repair",
    "owner",
    "target",
    "round",
    "mark",
    "resume",
    "adopt",
    "lost",
    "gate",
    "artifact",
    "promote",
    "packet",
    "exit_record",
    "receipt",
    "effect",
    "intent",
    "ledger",
    "history",
    "snapshot",
    "pin",
    "lease",
    "park",
    "nursery",
    "supervisor",
    "orchestrator",
    "request",
]


def text(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("name", PAGES)
def test_a_page_made_from_the_code_is_up_to_date(name: str) -> None:
    assert text(name) == PAGES[name](), "run: python -m tests.docs.pages"


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", text("reference/exit-codes.md"), re.MULTILINE)

    assert [int(row) for row in rows] == sorted(ExitCode)


def test_every_failure_kind_has_a_row_with_its_recovery() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \|", text("reference/failure-kinds.md"), re.MULTILINE)

    assert sorted(rows) == sorted(get_args(Reason))


def test_every_environment_variable_is_documented_and_no_other() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "adw").rglob("*.py"))
    used = set(re.findall(r"\bADW_[A-Z]+(?:_[A-Z]+)*\b", sources))
    told = set(
        re.findall(r"^\| `(ADW_[A-Z_]+)` \|", text("reference/environment.md"), re.MULTILINE)
    )

    assert used == told


def test_every_word_of_the_house_is_in_the_glossary() -> None:
    told = {
        word.strip().lower()
        for heading in re.findall(r"^\*\*(.+?)\*\*", text("glossary.md"), re.MULTILINE)
        for word in heading.split(",")
    }

    assert {word.replace("_", " ").lower() for word in WORDS} <= told


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_links_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)", path.read_text(encoding="utf-8"))

    lost = [link for link in links if "://" not in link and not (path.parent / link).exists()]
    assert lost == []


@pytest.mark.parametrize("path", MARKDOWN, ids=name_of)
def test_a_page_begins_with_its_title(path: Path) -> None:
    assert path.read_text(encoding="utf-8").startswith("# ")


@pytest.mark.parametrize(
    ("name", "limit"), [("README.md", 150), ("docs/contributing.md", 120), ("docs/decisions", 60)]
)
def test_short_pages_stay_short(name: str, limit: int) -> None:
    path = ROOT / name
    for page in path.glob("*.md") if path.is_dir() else [path]:
        assert len(page.read_text(encoding="utf-8").splitlines()) <= limit, page


def test_decisions_and_specs_are_numbered_without_gaps() -> None:
    for folder in (DOCS / "decisions", ROOT / "specs"):
        numbers = sorted(int(path.name[:4]) for path in folder.glob("[0-9]*.md"))
        assert numbers == list(range(1, len(numbers) + 1))


def test_the_readme_has_exactly_two_commands() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    commands = re.findall(r"^```sh\n(.+?)\n```$", readme, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    assert "adw demo" in commands[0]
    assert "pytest" in commands[1]


def test_ci_runs_the_commands_of_the_readme_from_a_fresh_clone() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")

    order = ["packages", "fresh_clone", "readme_command 1", "readme_command 2", "poe check"]
    places = [script.rindex(each) for each in order]
    assert places == sorted(places)
