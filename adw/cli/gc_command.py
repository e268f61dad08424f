"""`adw gc`."""

from dataclasses import asdict
from typing import Any

import click

from adw.cli.arguments import json_option, places_here
from adw.cli.layout import show
from adw.cli.output import print_json


@click.command("gc")
@click.option(
    "--older-than",
    metavar="TIME",
    default="30d",
    show_default=True,
    help="Leave runs alone that changed since, such as 12h or 7d.",
)
@click.option("--purge", is_flag=True, help="Remove directories of such runs too: history, logs.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def command(older_than: str, *, purge: bool, dry_run: bool, as_json: bool) -> int:
    """Remove worktrees and branches of runs that are over, as far as nothing is lost by it.

    Of a run that succeeded, the branch goes once it is merged or pushed; trees that were kept of
    its phases go with it. Of one that failed or was cancelled, only the worktree goes: `adw resume`
    makes it again. Work that is only here is kept, whatever its age; a person gives it up, run by
    run, with `adw rm`. Ends with 4 where something could not be removed.
    """
    from adw.app.collecting import collect
    from adw.app.removing_runs import Options
    from adw.errors import ExitCode

    options = Options(purge=purge, dry_run=dry_run)
    done = collect(places_here(), options, _seconds(older_than))
    if as_json:
        runs = [asdict(each) for each in done.runs]
        others = [asdict(part) for part in done.others]
        print_json({"schema_version": 1, "dry_run": dry_run, "runs": runs, "others": others})
    else:
        show(_lines(done))
    return int(ExitCode.ENVIRONMENT) if done.failed else 0


def _seconds(text: str) -> float:
    from pydantic import TypeAdapter, ValidationError

    from adw.errors import UsageError
    from adw.model.workflow import Delay

    try:
        return TypeAdapter(Delay).validate_python(text)
    except ValidationError as error:
        detail = f"`{text}` is not a duration of 0 to 366 days"
        raise UsageError(detail=detail, fix="such as 12h, 7d or 30d") from error


def _lines(done: Any) -> list[str]:
    from adw.cli.rm_command import part_lines

    lines, bare = [], 0
    for each in done.runs:
        kinds = {(part.part, part.action) for part in each.parts}
        if kinds - {("lease", "free")} == {("directory", "kept")}:
            bare += 1  # nothing but its history is left
            continue
        lines += [f"run {each.adw_id} {each.status}", *part_lines(each.parts)]
    lines += part_lines(done.others)
    if bare:
        noun = "run has" if bare == 1 else "runs have"
        lines.append(f"{bare} {noun} nothing left but history and logs; `--purge` removes these")
    return lines or ["there is no run"]
