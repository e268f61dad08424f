"""`adw path`: where a run's worktree is, for `cd $(adw path ID)`."""

import os

import click

from adw.cli.arguments import json_option, places_here, run_argument
from adw.cli.output import print_bytes, print_json, say


@click.command("path")
@run_argument
@json_option
def command(adw_id: str, *, as_json: bool) -> int:
    """Print where a run's worktree is."""
    from adw.app import reading

    places = places_here()
    run_dir = places.run_dir(adw_id)
    state = reading.status(run_dir)["state"]
    path = places.worktree(state["adw_id"], state.get("worktree_path"))
    exists = os.path.isdir(path)
    if as_json:
        found = {"schema_version": 1, "adw_id": state["adw_id"], "worktree": path}
        print_json({**found, "exists": exists, "run_dir": run_dir})
        return 0
    print_bytes(os.fsencode(path) + b"\n")  # since `cd` gets it
    if not exists:
        say(f"`{path}` does not exist; `adw resume {state['adw_id']}` makes it")
    return 0
