"""`adw cancel`."""

from typing import Any

import click

from adw.cli.arguments import places_here, run_argument
from adw.cli.layout import show


@click.command("cancel")
@run_argument
@click.pass_obj
def command(nursery: Any, adw_id: str) -> int:
    """End what runs of a run and record it as cancelled; returns when its processes are gone.

    Its worktree and branch stay, and `adw resume ID` goes on after all.
    """
    from adw.app import asking
    from adw.cli.quiet import quiet_host

    places = places_here()
    show([asking.cancel(places, places.run_dir(adw_id), quiet_host(nursery))])
    return 0
