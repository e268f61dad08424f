"""JSON Schemas of the documents that people and other programs write or read."""

import ast
import inspect
import re
import sys
from itertools import pairwise
from typing import Any, Final

from pydantic import BaseModel

NAMES: Final = ("workflow", "config", "state")

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of a document, with the descriptions that its fields have in the source.

    Args:
        name: One of NAMES.

    Raises:
        KeyError: Another name.
    """
    model = _model(name)
    found = model.model_json_schema()
    described = _descriptions(model)
    for title, part in [(model.__name__, found), *found.get("$defs", {}).items()]:
        for key, value in part.get("properties", {}).items():
            value.pop("title", None)
            if text := described.get((title, key)):
                value["description"] = text
    return {"$schema": _DIALECT, **_portable(found)}


def _model(name: str) -> type[BaseModel]:
    if name == "workflow":
        from adw.model.workflow import WorkflowSpec

        return WorkflowSpec
    if name == "config":
        from adw.model.config import Config

        return Config
    if name == "state":
        from adw.model.state import ADWStateData

        return ADWStateData
    raise KeyError(name)


def _descriptions(model: type[BaseModel]) -> dict[tuple[str, str], str]:
    """Class and field to the string literal that stands below the field."""
    tree = ast.parse(inspect.getsource(sys.modules[model.__module__]))
    found: dict[tuple[str, str], str] = {}
    for part in ast.walk(tree):
        if not isinstance(part, ast.ClassDef):
            continue
        for field, text in pairwise(part.body):
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                literal = text.value if isinstance(text, ast.Expr) else None
                if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                    found[part.name, field.target.id] = inspect.cleandoc(literal.value)
    return found


def _portable(value: Any) -> Any:
    """Write patterns as JSON Schema knows them, and refuse keys that fit no pattern."""
    if isinstance(value, list):
        return [_portable(item) for item in value]
    if not isinstance(value, dict):
        return value
    found = {key: _portable(item) for key, item in value.items()}
    pattern = found.get("pattern")
    if isinstance(pattern, str):
        found["pattern"] = re.sub(r"\\z$", "$", re.sub(r"^\\A", "^", pattern))
    if "patternProperties" in found:
        found.setdefault("additionalProperties", False)
    return found
