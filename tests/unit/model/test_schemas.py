"""The published JSON Schemas: they accept what adw accepts, and refuse the plainest mistakes.

What real runs leave is held against them in tests/integration/test_run_documents.py.
"""

import importlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import ValidationError

from adw.model.event import make_event
from adw.model.schemas import _MODELS, NAMES, schema

SPECS = Path(__file__).parents[3] / "specs"
NOW = "2026-03-01T12:00:00.000000Z"
ENTRY: dict[str, Any] = {
    "schema_version": 1,
    "path": "artifacts/plan/plan-1/x.md",
    "description": "The plan",
    "producer": "plan-1",
    "created_at": NOW,
    "root": "worktree",
    "source": "specs/x.md",
    "size_bytes": 3,
    "sha256": "0" * 64,
    "copied": True,
}
EVENT = make_event("correction", 2, NOW, {"entries": 0}, {"corrects": 1, "detail": "x"})
HEAD: dict[str, Any] = {
    "schema_version": 1,
    "adw_id": "cc73faf1",
    "workflow": None,
    "definition": None,
    "issue_number": None,
    "status": "running",
    "reason": None,
    "until": None,
    "next_action": "adw watch cc73faf1",
    "tree_end": None,
    "isolation": "none",
    "phases": [{"phase": "plan", "status": "pending", "attempts": []}],
}
LATEST = {**HEAD, "state_sha256": "0" * 64, "closing": None, "left": None, "updated_at": NOW}
STATUS = {**HEAD, "paused": False, "living": [], "stopped": [], "state": {"adw_id": "cc73faf1"}}
TREE = {"line": "tree", "proved": True, "survivors": []}
SETTLEMENT = {
    "effect": f"effects/{'0' * 64}.json",
    "state": "not_done",
    "seen_sha256": "0" * 64,
}
RUN = {
    "schema_version": 1,
    "adw_version": "0.1.0",
    "repository": "/x",
    "created_at": NOW,
    "base": None,
    "issue": {"number": None, "title": "x", "labels": [], "issue_class": None},
}
SNAPSHOT = {
    "format_version": 2,
    "agent_type": "adw-workflow",
    "component_rules": {"all": ["*"]},
    "files": {"x": {"content": "eA==", "component": "all", "executable": False}},
    "id": "0" * 64,
}
EFFECT = {
    "schema_version": 1,
    "key": "comment",
    "phase": "review",
    "round": 1,
    "once": False,
    "child_id": "review-1",
    "state": "intent",
    "payload_sha256": "0" * 64,
    "intended_at": NOW,
    "looked_up": 0,
    "done_at": None,
    "output": None,
    "settled_by": None,
    "note": None,
}
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
                "g": {"run": "x", "outputs": {"o": {"path": "s/*.md", "state": "plan_file"}}},
                "h": {
                    "run": "x",
                    "needs": ["g"],
                    "inputs": ["o"],
                    "secrets": ["TOKEN"],
                    "skill": "skills/h.md",
                    "outputs": {
                        "p": {
                            "path": "p.json",
                            "root": "artifacts",
                            "format": "json",
                            "optional": True,
                            "max_bytes": 5,
                            "description": "P",
                        }
                    },
                },
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
    "run": [RUN],
    "snapshot": [SNAPSHOT],
    "event": [EVENT],
    "latest": [LATEST],
    "status": [STATUS, {"schema_version": 1, "runs": []}],
    "attempt": [TREE, {"line": "adopt", "pid": 1, "at": NOW}],
    "result": [{}, {"retry_after_s": 5, "state": {"plan_file": "x.md"}}],
    "manifest": [{}, {"plan": ENTRY, "b2": {**ENTRY, "path": None, "copied": False}}],
    "request": [
        {"kind": "cancel", "entries": 0, "fields": {}},
        {"kind": "task_add", "entries": 3, "fields": {"phase": "plan", "text": "x"}},
        {"kind": "settle", "entries": 3, "fields": SETTLEMENT},
    ],
    "effect": [EFFECT, {**EFFECT, "state": "done", "done_at": NOW, "output": ""}],
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
        {"name": "w", "phases": {"a": {"run": "x", "outputs": {"O": {"path": "p"}}}}},
        {"name": "w", "phases": {"a": {"run": "x", "outputs": {"o": {}}}}},
        {"name": "w", "phases": {"a": {"run": "x", "outputs": {"o": {"path": "p", "root": "x"}}}}},
        {"name": "w", "phases": {"a": {"run": "x", "inputs": "plan"}}},
        {"name": "w", "phases": {"a": {"run": "x", "secrets": ["A-B"]}}},
    ],
    "config": [{"port": 1}, {"ports": "nope"}, {"env": {"A-B": "c"}}],
    "state": [{}, {"adw_id": "../../x"}, {"adw_id": "cc73faf1", "more": 1}],
    "run": [{}, {**RUN, "timestamp": NOW}, {**RUN, "created_at": "yesterday"}],
    "snapshot": [{}, {**SNAPSHOT, "format_version": 1}, {**SNAPSHOT, "files": {"x": "y"}}],
    "event": [
        {},
        {**EVENT, "event": "dance"},
        {**EVENT, "details": {}},
        {**EVENT, "corrects": "1"},
        {**EVENT, "corrects": True},
        {**EVENT, "ts": "2026-03-01"},
        {**EVENT, "schema_version": 2},
        {name: value for name, value in EVENT.items() if name != "stage"},
    ],
    "latest": [{}, {**LATEST, "status": "broken"}, {**LATEST, "more": 1}],
    "status": [{}, {**STATUS, "runs": []}, {**STATUS, "phases": [{"phase": "plan"}]}],
    "attempt": [{}, {"line": "dance"}, {**TREE, "pid": 1}, {**TREE, "survivors": ["1"]}],
    "result": [{"more": 1}, {"retry_after_s": -1}, {"state": {"adw_id": "x"}}],
    "manifest": [
        {"Plan": ENTRY},
        {"../x": ENTRY},
        {"plan": {**ENTRY, "path": "/etc/passwd"}},
        {"plan": {**ENTRY, "sha256": "x"}},
        {"plan": {**ENTRY, "schema_version": 2}},
        {"plan": {**ENTRY, "timestamp": NOW}},
        {"plan": {name: value for name, value in ENTRY.items() if name != "producer"}},
    ],
    "request": [
        {"kind": "dance", "entries": 0, "fields": {}},
        {"kind": "cancel", "entries": 0, "fields": {"x": 1}},
        {"kind": "task_add", "entries": 0, "fields": {"phase": "plan"}},
        {"kind": "pause", "entries": -1, "fields": {}},
        {"kind": "settle", "entries": 0, "fields": {**SETTLEMENT, "state": "unknown"}},
        {"kind": "settle", "entries": 0, "fields": {**SETTLEMENT, "effect": "effects/../x.json"}},
    ],
    "effect": [{}, {**EFFECT, "state": "tried"}, {**EFFECT, "round": 0}, {**EFFECT, "more": 1}],
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


MODELLED = [name for name in NAMES if name not in {"event", "snapshot"}]
"""Those of which the model judges no more than the schema does."""


@pytest.mark.parametrize("name", MODELLED)
def test_schema_and_model_agree(name: str) -> None:
    module, _, title = _MODELS[name].partition(":")
    model = getattr(importlib.import_module(f"adw.model.{module}"), title)

    for document in VALID[name]:
        model.model_validate_json(json.dumps(document))
    for document in INVALID[name]:
        with pytest.raises(ValidationError):
            model.model_validate_json(json.dumps(document))


@pytest.mark.parametrize("name", NAMES)
def test_the_published_file_says_the_same(name: str) -> None:
    """Wording may differ between versions of the generator; what is accepted may not."""
    published = json.loads((SPECS / f"{name}.schema.json").read_text(encoding="utf-8"))

    assert shape(published) == shape(schema(name)), "run: python -m tests.docs.pages"


def test_every_published_schema_has_its_generator() -> None:
    assert sorted(path.name for path in SPECS.glob("*.schema.json")) == sorted(
        f"{name}.schema.json" for name in NAMES
    )


def shape(value: Any, *, keywords: bool = True) -> Any:
    """A schema without what only people and editors read."""
    if isinstance(value, list):
        return [shape(item) for item in value]
    if not isinstance(value, dict):
        return value
    names = {"properties", "patternProperties", "$defs"}
    noise = {"title", "description", "default"} if keywords else set()
    return {
        key: shape(item, keywords=not (keywords and key in names))
        for key, item in value.items()
        if key not in noise and not (key == "additionalProperties" and item is True)
    }


def test_another_name_is_no_schema() -> None:
    with pytest.raises(KeyError):
        schema("nothing")
