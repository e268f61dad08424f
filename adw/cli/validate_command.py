"""`adw validate`: every fault of workflow files, with its place."""

import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from adw.cli.arguments import json_option, places_here
from adw.cli.layout import show
from adw.cli.output import escaped, print_json, say
from adw.errors import ExitCode, UsageError, WorkflowError

_ENDINGS = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be said of one file."""

    file: str
    faults: list[UsageError]
    warnings: list[Any]
    """Of adw.loader.Advice."""
    phases: int | None
    """How many phases; None where the file is no workflow, or not a valid one."""


@click.command("validate")
@click.argument("files", nargs=-1, type=click.Path(), metavar="[FILE]")
@json_option
def command(files: tuple[str, ...], *, as_json: bool) -> int:
    """Check workflow files, by default all in `workflows/`, and adw.yaml.

    Every fault is printed with file, line and column, and the exit code is 2 if there is one.
    Warnings change nothing.
    """
    verdicts = [_look_at(file) for file in files or _all_files()]
    if as_json:
        found = [_as_json(each) for each in verdicts]
        print_json({"schema_version": 1, "files": found})
    else:
        for each in verdicts:
            _print(each)
        if not verdicts:
            say("there is nothing to check: no file in `workflows/`, no adw.yaml")
    return ExitCode.USAGE if any(each.faults for each in verdicts) else ExitCode.OK


def _all_files() -> list[str]:
    root = places_here().repo.root
    folder = os.path.join(root, "workflows")
    names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    found = [os.path.join(folder, name) for name in names if name.endswith(_ENDINGS)]
    config = os.path.join(root, "adw.yaml")
    if os.path.lexists(config):
        found.append(config)
    return [os.path.relpath(path) for path in found]


def _look_at(file: str) -> Verdict:
    if os.path.basename(file) == "adw.yaml":
        return Verdict(file, _config_faults(file), [], None)
    from adw.loader import advice, load_workflow, validate_file

    setup = _setup_beside(file)
    try:
        faults: list[UsageError] = [*validate_file(file, setup)]
    except UsageError as error:
        faults = [error]
    if faults:
        return Verdict(file, faults, [], None)
    loaded = load_workflow(file)  # its own phases, without `setup`
    return Verdict(file, [], advice(loaded), len(loaded.graph.phases))


def _setup_beside(file: str) -> Any:
    """`setup` of the adw.yaml that a workflow file is used with; None where that is not valid."""
    from adw.config import load_config

    folder = os.path.dirname(os.path.abspath(file))
    root = os.path.dirname(folder) if os.path.basename(folder) == "workflows" else folder
    try:
        return load_config(root).setup
    except UsageError:
        return None


def _config_faults(file: str) -> list[UsageError]:
    from adw.config import parse_config
    from adw.source.read import read_text_file

    try:
        parse_config(read_text_file(file), file)
    except FileNotFoundError:
        return [UsageError(detail=f"cannot read `{file}`: no such file", fix=None)]
    except UsageError as error:
        return [error]
    return []


def _print(verdict: Verdict) -> None:
    for fault in verdict.faults:
        sys.stderr.write(escaped(fault.render(), keep="\n") + "\n")
    for warning in verdict.warnings:
        say(f"warning: {warning.text}")
        say(f"  at: {warning.file}:{warning.line}:{warning.column}")
        if warning.fix:
            say(f"  hint: {warning.fix}")
    if not verdict.faults:
        count = "" if verdict.phases is None else f" ({verdict.phases} phases)"
        show([f"{verdict.file}: valid{count}"])


def _as_json(verdict: Verdict) -> dict[str, Any]:
    return {
        "file": verdict.file,
        "valid": not verdict.faults,
        "phases": verdict.phases,
        "faults": [_fault_json(each) for each in verdict.faults],
        "warnings": [
            {"line": w.line, "column": w.column, "message": w.text, "hint": w.fix}
            for w in verdict.warnings
        ],
    }


def _fault_json(fault: UsageError) -> dict[str, Any]:
    placed = fault.fields if isinstance(fault, WorkflowError) else {}
    return {
        "line": placed.get("line"),
        "column": placed.get("column"),
        "code": fault.code,
        "message": fault.message,
        "why": fault.line("why"),
        "hint": fault.line("hint"),
    }
