"""`adw task show` and `adw task add`: what a phase is told to do."""

import os
import sys
from typing import Any

import click

from adw.cli.arguments import complete_phase, json_option, places_here, run_argument, run_dir_of
from adw.cli.layout import show
from adw.cli.output import print_bytes, print_json


@click.group("task")
def command() -> None:
    """Read what a phase was told to do, or add to it."""


@command.command("show")
@run_argument
@click.argument("phase", required=False, shell_complete=complete_phase)
@click.option("--attempt", type=click.IntRange(1), metavar="N", help="By default the latest.")
@json_option
def show_(adw_id: str, phase: str | None, attempt: int | None, *, as_json: bool) -> int:
    """Print TASK.md of a run, or of an attempt of PHASE, byte for byte."""
    from adw.app.showing import task_file
    from adw.errors import UsageError
    from adw.store import files

    if phase is None and attempt is not None:
        raise UsageError(
            detail="`--attempt` needs a phase", fix="adw task show ID PHASE --attempt N"
        )
    run_dir = run_dir_of(adw_id)
    path = task_file(run_dir, phase, attempt)
    data = files.read(path)
    if as_json:
        text = data.decode("utf-8", "surrogateescape")
        more = {"adw_id": os.path.basename(run_dir), "path": path, "text": text}
        print_json({"schema_version": 1, **more})
        return 0
    print_bytes(data)
    return 0


@command.command("add")
@run_argument
@click.argument("phase", shell_complete=complete_phase)
@click.option(
    "--file", "path", required=True, metavar="F", help="The text; `-` takes it from stdin."
)
@click.pass_obj
def add(nursery: Any, adw_id: str, phase: str, path: str) -> int:
    """Add a text to the task of PHASE: for the attempt that is running, and for all later ones.

    \b
    echo "Keep the old flag working." | adw task add ID build --file -
    """
    from adw.app import asking
    from adw.cli.quiet import quiet_host

    places = places_here()
    run_dir = places.run_dir(adw_id)
    show([asking.add_to_task(places, run_dir, phase, _text(path), quiet_host(nursery))])
    return 0


def _text(path: str) -> bytes:
    """The bytes of a file, or of stdin; one more than are taken, so that too many are seen."""
    from adw.errors import UsageError
    from adw.store.requests import TEXT_LIMIT

    if path == "-":
        return sys.stdin.buffer.read(TEXT_LIMIT + 1)
    try:
        with open(os.path.abspath(path), "rb") as file:
            return file.read(TEXT_LIMIT + 1)
    except OSError as error:
        detail = f"cannot read `{path}`: {error.strerror}"
        raise UsageError(detail=detail, fix=None) from error
