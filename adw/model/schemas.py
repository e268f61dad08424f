"""JSON Schemas of all documents: what people write, and what a run leaves on disk.

`python -m tests.docs.pages` writes them to `specs/<name>.schema.json`.
"""

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel

from adw.model.base import Document

_MODELS: Final = {
    "workflow": "workflow:WorkflowSpec",
    "config": "config:Config",
    "state": "state:ADWStateData",
    "run": "run_info:RunInfo",
    "snapshot": "snapshot:Snapshot",
    "event": "",
    "latest": "views:Latest",
    "status": "views:StatusView",
    "attempt": "attempt:AttemptLine",
    "result": "result:Result",
    "manifest": "artifact:Manifest",
    "request": "request:Request",
    "effect": "effect:EffectRecord",
}
"""Name to the model, below adw.model; the event's schema is made by hand."""

NAMES: Final = tuple(_MODELS)
_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, with the descriptions that its fields have in the source.

    Args:
        name: One of NAMES.

    Raises:
        KeyError: Another name.
    """
    if name == "event":
        from adw.model.event_schema import event_schema

        return {"$schema": _DIALECT, **event_schema()}
    module, _, title = _MODELS[name].partition(":")
    model: type[BaseModel] = getattr(importlib.import_module(f"adw.model.{module}"), title)
    found = model.model_json_schema()
    described = _descriptions()
    for part_title, part in [(title, found), *found.get("$defs", {}).items()]:
        for key, value in part.get("properties", {}).items():
            value.pop("title", None)
            if text := described.get((part_title, key)):
                value["description"] = text
    return {"$schema": _DIALECT, **_portable(found)}


def _descriptions() -> dict[tuple[str, str], str]:
    """Class and field to the string literal below the field, of all models that are loaded."""
    found: dict[tuple[str, str], str] = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("adw.model."):
            for part in ast.walk(ast.parse(inspect.getsource(module))):
                if isinstance(part, ast.ClassDef):
                    found |= {(part.name, field): text for field, text in _fields(part)}
    return _inherited(found)


def _fields(part: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for field, text in pairwise(part.body):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            literal = text.value if isinstance(text, ast.Expr) else None
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                yield field.target.id, inspect.cleandoc(literal.value)


def _inherited(found: dict[tuple[str, str], str]) -> dict[tuple[str, str], str]:
    """Fields of a base class belong to its children too; a key may have another name than its field."""
    whole = dict(found)
    kinds = [kind for base in Document.__subclasses__() for kind in [base, *base.__subclasses__()]]
    for kind in kinds:
        for base in kind.__mro__[1:]:
            for (title, field), text in found.items():
                if title == base.__name__:
                    whole.setdefault((kind.__name__, field), text)
        for field, info in kind.model_fields.items():
            if info.alias and (kind.__name__, field) in whole:
                whole[kind.__name__, info.alias] = whole[kind.__name__, field]
    return whole


def _portable(value: Any) -> Any:
    """Write patterns as JSON Schema knows them, and refuse keys that fit no pattern."""
    if isinstance(value, list):
        return [_portable(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _portable(item) for key, item in value.items() if not _openapi(key, item)}
    if isinstance(pattern := found.get("pattern"), str):
        found["pattern"] = _pattern(pattern)
    if keys := found.get("patternProperties"):
        found["patternProperties"] = {_pattern(key): item for key, item in keys.items()}
        found.setdefault("additionalProperties", False)
    return found


def _pattern(text: str) -> str:
    return re.sub(r"\\z$", "$", re.sub(r"^\\A", "^", text))


def _openapi(key: str, item: Any) -> bool:
    """A keyword of OpenAPI, which strict validators of JSON Schema refuse."""
    return key == "discriminator" and isinstance(item, dict) and "propertyName" in item
