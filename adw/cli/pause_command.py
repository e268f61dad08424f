"""`adw pause`."""

import click

from adw.cli.arguments import run_argument, run_dir_of
from adw.cli.layout import show


@click.command("pause")
@run_argument
def command(adw_id: str) -> int:
    """Start nothing new, let what runs finish; `adw resume ID` goes on."""
    from adw.app import asking

    show([asking.pause(run_dir_of(adw_id))])
    return 0
