"""What a phase may say of its outputs, inputs, secrets and skill, as far as one phase shows it."""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from adw.core import template
from adw.core.rules import Found, Path

if TYPE_CHECKING:
    from adw.model.workflow import OutputSpec, PhaseSpec

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SET: Final = re.compile(r"\[!?\]?[^\]]*\]")  # as fnmatch reads it: a first `]` is a member
_ABSOLUTE: Final = frozenset({"worktree", "python"})
"""Names whose values are absolute paths."""
OWN_PREFIXES: Final = ("ADW_", "GIT_")
"""Variables that no phase inherits, whatever names them."""

_SHARED: Final = frozenset({"HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TZ", "USER"})
"""Variables that phases cannot do without: as a secret of one they would be kept from the rest."""


def faults_in(phases: Mapping[str, "PhaseSpec"]) -> Iterator[Found]:
    """Everything wrong with what single phases give and take, in declared order."""
    plan_file: str | None = None
    for name, spec in phases.items():
        at = ("phases", name)
        if spec.inputs:
            yield from _inputs(at, spec)
        if spec.secrets:
            yield from _secrets(at, spec)
        if spec.skill is not None and (detail := relative_fault(spec.skill)):
            yield Found((*at, "skill"), detail, _IN_FOLDER)
        for logical, output in spec.outputs.items():
            path = (*at, "outputs", logical)
            yield from _output(path, output, spec)
            if output.state and plan_file:
                detail = f"the output `{plan_file}` sets `{output.state}` already"
                yield Found((*path, "state"), detail, "let one output set it")
            plan_file = plan_file or (logical if output.state else None)


def relative_fault(path: str) -> str | None:
    """Why a path is not a plain one below some folder; None: it is."""
    if path.startswith("/"):
        return f"`{path}` is absolute, a relative path is expected"
    parts = path.split("/")
    if ".." in parts:
        return f"`{path}` leads out with `..`"
    if "" in parts or "." in parts:
        return f"`{path}` has an empty part or `.`"
    return "a control character is found in a path" if _CONTROL.search(path) else None


def _inputs(at: Path, spec: "PhaseSpec") -> Iterator[Found]:
    for i, name in enumerate(spec.inputs):
        path = (*at, "inputs", i)
        if name in spec.inputs[:i]:
            yield Found(path, f"`{name}` is named twice")
        elif name in spec.outputs:
            yield Found(path, f"`{name}` is an output of this phase itself")


def _secrets(at: Path, spec: "PhaseSpec") -> Iterator[Found]:
    for i, name in enumerate(spec.secrets):
        path = (*at, "secrets", i)
        if name in spec.secrets[:i]:
            yield Found(path, f"`{name}` is named twice")
        elif name.startswith(OWN_PREFIXES):
            detail = f"`{name}` is a variable that adw itself sets or keeps away from phases"
            yield Found(path, detail, "take another name")
        elif name in _SHARED:
            yield Found(path, f"`{name}` is no secret: all phases have it", "leave it out")
        elif name in spec.env:
            detail = f"`{name}` is also set in `env`, where everybody can read it"
            yield Found(path, detail, "take it out of `env`")


def _output(at: Path, output: "OutputSpec", spec: "PhaseSpec") -> Iterator[Found]:
    if fault := _pattern_fault(output.path):
        yield Found((*at, "path"), *fault)
    if output.root == "worktree" and not spec.writes:
        detail = "a phase with `writes: false` puts no file into the worktree"
        where = (*at, "root") if "root" in output.model_fields_set else at
        yield Found(where, detail, "write `root: artifacts`")
    if output.state and output.root != "worktree":
        detail = f"`{output.state}` names a file of the worktree, not of the attempt's own folder"
        yield Found((*at, "state"), detail, "leave `root` out")


def _pattern_fault(pattern: str) -> tuple[str, str | None] | None:
    """Message and hint on an output's path; None: nothing is wrong."""
    for name in template.names_in(pattern):
        if name.startswith("inputs."):
            return f"`{{{name}}}` cannot stand in the path of an output", None
        if name in _ABSOLUTE:
            return f"`{{{name}}}` is absolute, a relative path is expected", None
    if detail := relative_fault(pattern):
        return detail, f"name the file: {pattern}*" if pattern.endswith("/") else None
    if "**" in pattern:
        detail = f"`**` is found in `{pattern}`, a wildcard stays inside one folder's name"
        return detail, "write one `*` for each folder"
    for part in pattern.split("/"):
        if part.lower() == ".git":
            return f"`{pattern}` lies in `.git`, which is git's own", None
        if "[" in _SET.sub("", part):
            return f"`[` without `]` is found in `{pattern}`", "write [[] for the character itself"
    return None


_IN_FOLDER: Final = "name a file in the workflow file's folder, such as skills/reviewer.md"
