"""`adw rewind`: a run's worktree as it was before an attempt."""

from typing import Any

import click

from adw.cli.arguments import complete_phase, places_here, run_argument
from adw.cli.layout import show


@click.command("rewind")
@run_argument
@click.argument("attempt", metavar="PHASE[-N]", shell_complete=complete_phase)
@click.pass_obj
def command(nursery: Any, adw_id: str, attempt: str) -> int:
    """Put worktree and branch back to what they were before an attempt; its phase starts again.

    PHASE is its latest attempt, PHASE-N that one. What is there now is kept under `refs/adw/`.
    Phases that wrote since then start again too. Ignored files and other branches stay as they
    are.
    """
    from adw.app import rewinding
    from adw.cli.quiet import quiet_host

    places = places_here()
    show(rewinding.rewind(places, places.run_dir(adw_id), attempt, quiet_host(nursery)))
    return 0
