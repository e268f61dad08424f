"""`adw artifacts`: what a run's phases handed over, as a table, or the path of one for `$(…)`."""

import os
from typing import Any

import click

from adw.cli.arguments import json_option, places_to_read, run_argument
from adw.cli.layout import columns, instant, show
from adw.cli.output import print_bytes, print_json, say


@click.command("artifacts")
@run_argument
@click.argument("name", required=False)
@click.option("--verify", is_flag=True, help="Hash every copy and source again.")
@json_option
def command(adw_id: str, name: str | None, *, verify: bool, as_json: bool) -> int:
    """Show what a run's phases handed over; with NAME, print the path of one.

    With `--verify` each copy and each source is `ok`, `changed` or `missing`.
    """
    from adw.app import showing

    places = places_to_read()
    run_dir = places.run_dir(adw_id)
    worktree = places.worktree_of(run_dir)
    found = [showing.artifact(run_dir, name)] if name else showing.manifest(run_dir)
    for each in found:
        each["file"] = showing.place(run_dir, worktree, each)
        if verify:
            each["verified"] = showing.verified(run_dir, worktree, each)
    if as_json:
        more = {"adw_id": os.path.basename(run_dir), "run_dir": run_dir, "artifacts": found}
        print_json({"schema_version": showing.SCHEMA_VERSION, **more})
    elif name and not verify:
        _print_path(found[0])
    else:
        show(_table(found, verify=verify))
    return 0


def _print_path(each: dict[str, Any]) -> None:
    if each["file"] is None:
        say(f"`{each['source']}` was too large to be copied, and its worktree is not known here")
        return
    print_bytes(os.fsencode(each["file"]) + b"\n")
    if not os.path.isfile(each["file"]):
        say(f"`{each['file']}` does not exist any more")


def _table(found: list[dict[str, Any]], *, verify: bool) -> list[str]:
    if not found:
        return ["no phase has handed anything over"]
    head = ["NAME", "PATH", "BYTES", "PRODUCER", "CREATED"]
    head += ["COPY", "SOURCE"] if verify else []
    rows = []
    for each in found:
        row = [
            each["name"],
            each["path"] or f"{each['source']} (not copied)",
            each["size_bytes"],
            each["producer"],
            instant(each["created_at"]),
        ]
        row += [each["verified"]["copy"], each["verified"]["source"]] if verify else []
        rows.append([*row, each["description"]])
    return columns([*head, "DESCRIPTION"], rows)
