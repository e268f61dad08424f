"""What pydantic found wrong, as errors of adw: the place, the words, the nearest known name."""

import difflib
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from adw.errors import NotYet, NotYetKey, WorkflowError, suggestion
from adw.model.config import BRANCH_PATTERN, GLOB_PATTERN, REMOTE_PATTERN, WEBHOOK_PATTERN
from adw.model.workflow import (
    ENV_PATTERN,
    LOGICAL_PATTERN,
    PHASE_PATTERN,
    TEXT_PATTERN,
    WORKFLOW_PATTERN,
)
from adw.source.places import Path, Source, kind_of, shown

_WANTED: Final = {
    "string_type": "a string", "int_type": "a whole number", "float_type": "a number",
    "bool_type": "true or false", "list_type": "a list", "dict_type": "a mapping",
    "model_type": "a mapping",
}  # fmt: skip
_NAMES: Final[Mapping[str, tuple[str, str | None]]] = {
    PHASE_PATTERN: ("a phase name", "use a-z, 0-9 and `_`, a letter first, at most 64 characters"),
    WORKFLOW_PATTERN: (
        "a plain name",
        "use a-z, 0-9, `_` and `-`, a letter first, at most 64 characters",
    ),
    LOGICAL_PATTERN: (
        "a logical name",
        "use a-z, 0-9 and `_`, a letter first, at most 64 characters",
    ),
    ENV_PATTERN: ("a variable name", "use letters, digits and `_`, no digit first"),
    BRANCH_PATTERN: ("a branch name", None),
    GLOB_PATTERN: ("a glob of variable names", None),
    REMOTE_PATTERN: ("the name of a remote", "see `git remote`"),
    WEBHOOK_PATTERN: ("an http or https URL without a password, or `$NAME`", None),
}

Wording = tuple[str, str | None]
"""Message and hint."""


def faults(error: ValidationError, source: Source, model: type[BaseModel]) -> list[WorkflowError]:
    """All faults that validation found, in the order of the file.

    Args:
        error: What validating `source.value` raised.
        source: The parsed file.
        model: The model it was validated against; its `not_yet` and its parts' name keys that this
            version does not run.
    """
    found = [_fault(item, source, model) for item in error.errors(include_url=False)]
    return in_order(found)


def in_order(found: Iterable[WorkflowError]) -> list[WorkflowError]:
    """Sort by place; at one place what is not supported yet comes first, as it may explain the rest."""
    return sorted(
        found, key=lambda e: (e.fields["line"], e.fields["column"], not isinstance(e, NotYet))
    )


def _fault(item: Mapping[str, Any], source: Source, model: type[BaseModel]) -> WorkflowError:
    path, value = _walk(source.value, item["loc"])
    kind: str = item["type"]
    if kind == "extra_forbidden":
        return _unknown_key(path, source, model)
    if kind == "missing":
        key = str(item["loc"][-1])
        owner = model_at(model, path)
        why = getattr(owner, "why_missing", {}).get(key)
        return source.fault(path, f"`{key}` is missing", key=True, reason=why)
    raw = source.place(path).raw
    on_key = item["loc"][-1:] == ("[key]",)
    value = item["input"] if on_key else value
    detail, fix = _words(kind, value, raw, item)
    return source.fault(path, detail, key=on_key or kind == "kind", fix=fix)


def _walk(value: Any, loc: Sequence[str | int]) -> tuple[Path, Any]:
    """Follow a location as far as the value has it; names of union members are passed over."""
    path: list[str | int] = []
    for part in loc:
        in_mapping = isinstance(value, dict) and part in value
        if in_mapping or (isinstance(value, list) and part in range(len(value))):
            value = value[part]
            path.append(part)
    return tuple(path), value


def _unknown_key(path: Path, source: Source, model: type[BaseModel]) -> WorkflowError:
    key = str(path[-1])
    owner = model_at(model, path[:-1])
    if key in getattr(owner, "not_yet", ()):
        return not_yet(source, path)
    return source.fault(
        path,
        f"unknown key `{shown(key)}`",
        key=True,
        fix=suggestion(key, [field.alias or name for name, field in owner.model_fields.items()]),
    )


def not_yet(source: Source, path: Path, name: str | None = None) -> NotYet:
    """The error for something documented that this version does not run.

    Args:
        source: The parsed file.
        path: The key that asks for it.
        name: What is not run; None: the key itself.
    """
    place = source.place(path)
    where = {"file": source.file, "line": place.key_line, "column": place.key_column}
    name = name or str(path[-1])
    if path[:1] == ("phases",):
        return NotYet(name=name, phase=path[1], **where)
    return NotYetKey(name=name, **where)


def model_at(model: type[BaseModel], path: Sequence[str | int]) -> type[BaseModel]:
    """The model that describes the mapping at `path` below `model`."""
    inside, names_next = model, False
    for part in path:
        if names_next:  # a name that the file's author chose, such as a phase's
            names_next = False
            continue
        field = inside.model_fields.get(str(part))
        if field is not None and (found := _model_in(field.annotation)):
            inside, names_next = found
    return inside


def _model_in(annotation: Any) -> tuple[type[BaseModel], bool] | None:
    """The model in an annotation, and whether it stands there under names, in a mapping."""
    for part in typing.get_args(annotation):
        if found := _model_in(part):
            return found[0], found[1] or typing.get_origin(annotation) is dict
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    return (annotation, False) if is_model else None


# --- wording -----------------------------------------------------------------------------


def _words(kind: str, value: Any, raw: str | None, item: Mapping[str, Any]) -> Wording:
    ctx: Mapping[str, Any] = item.get("ctx", {})
    if kind in _WANTED:
        return _type(kind, value, raw, item["loc"])
    if kind in _WORDING:
        return _WORDING[kind](value, ctx)
    message: str = item["msg"]
    return f"`{shown(value)}` is not valid: {message[:1].lower()}{message[1:]}", None


def _type(kind: str, value: Any, raw: str | None, loc: Sequence[str | int]) -> Wording:
    either = loc[-1:] == ("argv",)
    wanted = "a string or a list" if either else _WANTED[kind]
    found = kind_of(value)
    fix = None
    if kind == "string_type" and raw and value is not None:
        fix = f'write "{shown(raw)}" in quotes'
    elif kind == "list_type" and raw and not either:
        fix = f"write [{shown(raw)}]"
    if raw and value is not None:
        return f"`{shown(raw)}` is {found}, {wanted} is expected", fix
    return f"{found} is found, {wanted} is expected", fix


def _literal(value: Any, ctx: Mapping[str, Any]) -> Wording:
    expected: str = ctx["expected"].replace("'", "`")
    known = [part for part in ctx["expected"].split("'")[1::2] if part]
    close = difflib.get_close_matches(str(value), known, n=1)
    hint = f"did you mean `{close[0]}`?" if close else None
    return f"`{shown(value)}` is found, {expected} is expected", hint


def _pattern(value: Any, ctx: Mapping[str, Any]) -> Wording:
    if ctx["pattern"] == TEXT_PATTERN:
        return "a NUL character is found", None
    what, fix = _NAMES.get(ctx["pattern"], (f"of the form {ctx['pattern']}", None))
    return f"`{shown(value)}` is not {what}", fix


def _count(limit: float) -> str:
    return str(limit) if isinstance(limit, int) else f"{limit:g}"


_WORDING: Final[Mapping[str, Callable[[Any, Mapping[str, Any]], Wording]]] = {
    "literal_error": _literal,
    "string_pattern_mismatch": _pattern,
    "greater_than_equal": lambda v, c: (
        f"`{v}` is found, at least {_count(c['ge'])} is expected",
        None,
    ),
    "less_than_equal": lambda v, c: (
        f"`{v}` is found, at most {_count(c['le'])} is expected",
        None,
    ),
    "too_short": lambda v, _c: (
        f"{kind_of(v)} without entries is found, at least one is expected",
        None,
    ),
    "string_too_short": lambda _v, _c: ("empty text is found", None),
    "too_long": lambda v, c: (f"{len(v)} entries are found, at most {c['max_length']}", None),
    "string_too_long": lambda v, c: (
        f"{len(v)} characters are found, at most {c['max_length']} are expected",
        None,
    ),
    "kind": lambda _v, c: (f"{c['found']} found, exactly one is expected", None),
    "duration": lambda v, _c: (
        f"`{shown(v)}` is not a duration",
        "write 250ms, 5s, 30m, 2h, 1d, or a number of seconds",
    ),
    "size": lambda v, _c: (
        f"`{shown(v)}` is not a size",
        "write 512K, 512M, 2G, or a number of bytes",
    ),
    "range": lambda v, c: (f"`{shown(v)}` is found, {c['expected']}", None),
    "fault": lambda _v, c: (c["detail"], c.get("fix")),
}
