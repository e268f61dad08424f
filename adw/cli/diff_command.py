"""`adw diff`: what an attempt, or the whole run, changed in the worktree."""

import os

import click

from adw.cli.arguments import complete_phase, json_option, places_here, run_argument
from adw.cli.output import print_bytes, print_json, say


@click.command("diff")
@run_argument
@click.argument("attempt", metavar="[PHASE[-N]]", required=False, shell_complete=complete_phase)
@click.option("--stat", is_flag=True, help="Only how much changed in which file.")
@json_option
def command(adw_id: str, attempt: str | None, *, stat: bool, as_json: bool) -> int:
    """Show what an attempt of a phase changed; without one, what the run changed since its base.

    PHASE is its latest attempt, PHASE-N that one.
    Untracked files are in it, ignored ones are not. It can be applied with `git apply`.
    A phase with `writes: false` is taken to have changed nothing.
    """
    from adw.app import rewinding

    places = places_here()
    run_dir = places.run_dir(adw_id)
    span = rewinding.span(places, run_dir, attempt)
    if span.note:
        say(span.note)
    if as_json:
        print_json(
            {
                "schema_version": 1,
                "adw_id": os.path.basename(run_dir),
                "phase": span.tried and span.tried.phase,
                "attempt": span.tried and span.tried.attempt,
                "from": span.old,
                "to": span.new,
                "files": [
                    {"path": os.fsdecode(each.path), "status": each.status}
                    for each in span.changed()
                ],
            }
        )
        return 0
    print_bytes(span.patch(stat=stat))
    return 0
