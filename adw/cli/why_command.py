"""`adw why`: why a run or a phase is where it is, with the end of its output and what to do."""

from collections.abc import Iterator
from typing import Any

import click

from adw.cli.arguments import complete_phase, json_option, run_argument, run_dir_of
from adw.cli.layout import show, standing
from adw.cli.output import print_json


@click.command("why")
@run_argument
@click.argument("phase", required=False, shell_complete=complete_phase)
@json_option
def command(adw_id: str, phase: str | None, *, as_json: bool) -> int:
    """Explain why a run or a phase is where it is.

    Without PHASE: the phases that make the run's status what it is.
    """
    from adw.app.explaining import explain

    found = explain(run_dir_of(adw_id), phase)
    if as_json:
        print_json(found)
        return 0
    show([f"run {found['adw_id']}: {standing(found)}"])
    for each in found["phases"]:
        show(["", *_phase(each)])
    if any(each["status"] == "failed" for each in found["phases"]):
        tree = f"cd $(adw path {found['adw_id']})"
        show(["", f"mend it in the run's worktree: {tree}; the main checkout is not looked at"])
    if found["next_action"]:
        show(["", f"next: {found['next_action']}"])
    return 0


def _phase(found: dict[str, Any]) -> Iterator[str]:
    detail = f", {found['detail']}" if found["detail"] else ""
    yield f"phase {found['phase']}: {found['status']}{detail}"
    yield from (f"  {line}" for line in found["lines"])
    if found["tail"]:
        yield f"  last output of {found['child_id']}:"
        yield from (f"  | {line.expandtabs(8)}" for line in found["tail"])
    if found["logs"]:
        yield f"  logs: {found['logs']}"
