"""`adw schema`."""

import pytest
from jsonschema import Draft202012Validator

from adw.model.schemas import NAMES
from tests.cli.handmade import call
from tests.support.repo import Repo


@pytest.mark.parametrize("name", NAMES)
def test_it_prints_a_valid_schema(repo: Repo, name: str) -> None:
    said = call(repo, "schema", name)

    assert (said.code, said.err) == (0, "")
    Draft202012Validator.check_schema(said.json())
    assert call(repo, "schema", name, "--json").out == said.out


def test_an_unknown_name_is_refused_with_the_nearest(repo: Repo) -> None:
    said = call(repo, "schema", "workflows")

    assert (said.code, said.out) == (2, "")
    assert said.err == "error: unknown schema `workflows`\n  hint: did you mean `workflow`?\n"
