"""The published JSON Schemas: they accept what adw accepts, and refuse the plainest mistakes."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from adw.model.schemas import NAMES, schema

SPECS = Path(__file__).parents[3] / "specs"
VALID: dict[str, list[dict[str, Any]]] = {
    "workflow": [
        {
            "schema_version": 1,
            "name": "w",
            "defaults": {"timeout": "30m", "idle_timeout": 5},
            "phases": {
                "a": {"run": ["x"], "ensure": ["changed", ["y"]], "timeout": None},
                "b": {"use": "commit", "needs": ["a"], "env": {"A": "b"}},
                "c": {"run": "x", "repair": {"phase": "f", "rounds": 2}, "retry": {"attempts": 2}},
                "f": {"run": "x"},
            },
        }
    ],
    "config": [{}, {"ports": "none", "env": {"A": "b"}, "model_sets": {"base": {"r": "m"}}}],
    "state": [
        {
            "adw_id": "cc73faf1",
            "phase_history": [{"phase": "plan", "success": True, "attempt": 1}],
        }
    ],
}
INVALID: dict[str, list[dict[str, Any]]] = {
    "workflow": [
        {},
        {"name": "w", "phases": {}},
        {"name": "w", "phases": {"A": {"run": "x"}}},
        {"name": "w", "phases": {"a": {}}},
        {"name": "w", "phases": {"a": {"run": "x", "use": "commit"}}},
        {"name": "w", "phases": {"a": {"run": "x", "ned": []}}},
        {"name": "w", "phases": {"a": {"run": "x", "timeout": "5 s"}}},
        {"name": "w", "phases": {"a": {"run": [5]}}},
        {"name": "w", "phases": {"a": {"run": "x", "repair": {"phase": "f"}}}},
    ],
    "config": [{"port": 1}, {"ports": "nope"}, {"env": {"A-B": "c"}}],
    "state": [{}, {"adw_id": "../../x"}, {"adw_id": "cc73faf1", "more": 1}],
}


@pytest.mark.parametrize("name", NAMES)
def test_a_schema_accepts_what_is_valid_and_nothing_that_is_not(name: str) -> None:
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    validator = jsonschema.Draft202012Validator(found)

    for document in VALID[name]:
        assert list(validator.iter_errors(document)) == []
    for document in INVALID[name]:
        assert not validator.is_valid(document), document


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_described_for_editors(name: str) -> None:
    found = schema(name)

    for part in (found, *found.get("$defs", {}).values()):
        for key, value in part.get("properties", {}).items():
            assert value.get("description"), key


@pytest.mark.parametrize("name", NAMES)
def test_the_published_file_knows_the_same_keys(name: str) -> None:
    """Wording may differ between versions of the generator; keys may not."""
    published = json.loads((SPECS / f"{name}.schema.json").read_text(encoding="utf-8"))
    fresh = schema(name)

    def keys(document: dict[str, Any]) -> dict[str, list[str]]:
        parts = {"": document, **document.get("$defs", {})}
        return {k: sorted(p.get("properties", {})) for k, p in parts.items()}

    assert keys(published) == keys(fresh), f"adw schema {name} > specs/{name}.schema.json"


def test_another_name_is_no_schema() -> None:
    with pytest.raises(KeyError):
        schema("nothing")
