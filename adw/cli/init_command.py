"""`adw init`."""

import click

from adw.cli.arguments import places_here
from adw.cli.layout import show


@click.command("init")
def command() -> int:
    """Write adw.yaml, a workflow and an example issue; what exists stays as it is."""
    from adw.app.initing import init

    done = init(places_here().repo.root)
    show([f"wrote  {name}" for name in done.new])
    show([f"exists {name}" for name in done.kept])
    show(["next: adw run example 1"] if done.new else ["nothing to do"])
    return 0
