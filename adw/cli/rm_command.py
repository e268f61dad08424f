"""`adw rm`."""

from dataclasses import asdict
from typing import Any

import click

from adw.cli.arguments import json_option, places_here, run_argument
from adw.cli.layout import show
from adw.cli.output import print_json


@click.command("rm")
@run_argument
@click.option("--discard", is_flag=True, help="Give up what is in no commit.")
@click.option(
    "--force", is_flag=True, help="Give up commits that are neither merged nor pushed, kept trees."
)
@click.option("--purge", is_flag=True, help="Remove the run's directory too: history, logs.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@json_option
def command(
    adw_id: str, *, discard: bool, force: bool, purge: bool, dry_run: bool, as_json: bool
) -> int:
    """Remove the worktree and the branch of a run, as far as nothing is lost by it.

    Work that is in no commit, or neither in the base branch nor on a remote, is kept, and said;
    each of the two has its own option. What lives is never removed. Ends with 0 when worktree
    and branch are gone, verified; with 2 where one is kept; with 4 where something could not be
    removed, and says what is left.
    """
    from adw.app.removing_runs import Options, remove
    from adw.errors import UnknownName

    places = places_here()
    options = Options(discard=discard, force=force, purge=purge, dry_run=dry_run)
    try:
        run_dir = places.run_dir(adw_id)
    except UnknownName:
        code = _finish(places, adw_id, dry_run=dry_run, as_json=as_json)
        if code is None:
            raise
        return code
    return _tell(remove(places, run_dir, options, {}), options, as_json=as_json)


def _finish(places: Any, adw_id: str, *, dry_run: bool, as_json: bool) -> int | None:
    """Finish a removal that was cut short after the run's name was gone; None: there is none."""
    from adw.app.collecting import finish
    from adw.app.removing_runs import Options, Removal

    done = Removal(adw_id, "gone", finish(places, adw_id, dry_run=dry_run))
    return _tell(done, Options(dry_run=dry_run), as_json=as_json) if done.parts else None


def _tell(done: Any, options: Any, *, as_json: bool) -> int:
    if as_json:
        parts = [asdict(part) for part in done.parts]
        head = {"schema_version": 1, "adw_id": done.adw_id, "status": done.status}
        print_json({**head, "dry_run": options.dry_run, "parts": parts})
    else:
        show([f"run {done.adw_id} {done.status}", *part_lines(done.parts)])
    return int(done.exit_code(options))


def part_lines(parts: list[Any]) -> list[str]:
    """A line for each part, and one for each hint."""
    lines = []
    for part in parts:
        action = "would remove" if part.action == "remove" else part.action
        lines.append(f"  {action:<12}  {part.part} {part.name}: {part.reason}")
        if part.hint and part.action != "removed":
            lines.append(f"    hint: {part.hint}")
    return lines
