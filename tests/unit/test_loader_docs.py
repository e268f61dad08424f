"""The pages on the workflow file and on adw.yaml name every key, and their examples are valid."""

import re
from pathlib import Path

import pytest
from pydantic import BaseModel

from adw.config import parse_config
from adw.core import rules, template, when
from adw.forge.local import parse_issue
from adw.loader import advice, load_bytes
from adw.model.config import Config
from adw.model.workflow import OutputSpec, PhaseSpec, RepairSpec, RetrySpec, WorkflowSpec

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
WORKFLOW = (REFERENCE / "workflow-file.md").read_text(encoding="utf-8")
CONFIGURATION = (REFERENCE / "configuration.md").read_text(encoding="utf-8")


def blocks(page: str, language: str) -> list[bytes]:
    return [b.encode() for b in re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)]


def rows(page: str) -> set[str]:
    return set(re.findall(r"^\| `([a-z_]+)` \|", page, re.MULTILINE))


@pytest.mark.parametrize(
    ("page", "models"),
    [
        (WORKFLOW, [WorkflowSpec, PhaseSpec, OutputSpec, RetrySpec, RepairSpec]),
        (CONFIGURATION, [Config]),
    ],
)
def test_every_key_has_a_row_and_every_later_key_is_named(
    page: str, models: list[type[BaseModel]]
) -> None:
    for model in models:
        assert keys(model) <= rows(page)
        assert all(f"`{key}`" in page for key in getattr(model, "not_yet", ()))
    known = {key for model in models for key in keys(model)} | {"title", "labels", "class"}
    known.update(name for names in rules.OPTIONS.values() for name in names)
    assert rows(page) <= known


def test_every_option_of_a_built_in_program_is_told() -> None:
    for program, names in rules.OPTIONS.items():
        section = WORKFLOW.partition(f"### `use: {program}`")[2].partition("\n### ")[0]
        assert section, program
        assert [name for name in names if f"`{name}`" not in section] == []


def keys(model: type[BaseModel]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def test_every_name_in_braces_and_of_when_is_told() -> None:
    assert all(f"`{{{name}}}`" in WORKFLOW for name in template.NAMES)
    assert all(f"`{name}`" in WORKFLOW for name in when.FIELDS)
    assert all(f'`"{name}"`' in WORKFLOW for name in when.OUTCOMES)


def test_the_examples_are_valid_and_raise_no_doubt() -> None:
    for name, data in zip(("sdlc", "report"), blocks(WORKFLOW, "yaml"), strict=False):
        example = load_bytes(data, f"workflows/{name}.yaml", {"skills/writer.md": b"Write."})
        assert advice(example) == []

    config = parse_config(blocks(CONFIGURATION, "yaml")[0], "adw.yaml")
    assert config.base_branch == "main"

    issue = parse_issue(blocks(CONFIGURATION, "markdown")[0], "issues/47.md", 47)
    assert issue.issue_class == "feature"


def test_the_example_of_when_is_valid() -> None:
    [line] = re.findall(r"^when: (.*)$", WORKFLOW, re.MULTILINE)

    assert when.check(line, ["test"]) is None
