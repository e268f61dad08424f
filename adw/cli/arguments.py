"""Arguments that several commands share: an ID, `--json`, and what a shell may complete them with."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


def run_argument(function: _F) -> _F:
    """The argument ID, passed as `adw_id`."""
    return click.argument("adw_id", metavar="ID", shell_complete=complete_run)(function)


def json_option(function: _F) -> _F:
    """`--json`, passed as `as_json`."""
    text = "Print JSON, the only thing on stdout."
    return click.option("--json", "as_json", is_flag=True, help=text)(function)


def places_here() -> Any:
    """The repository around the working directory, and its runs."""
    from adw.app.places import find_places

    return find_places(os.getcwd())


def places_to_read() -> Any:
    """As `places_here`, for a command that only reads: runs that were copied need no repository."""
    from adw.app.places import find_places

    return find_places(os.getcwd(), reading=True)


def run_dir_of(text: str) -> str:
    """Directory of the run that an id, a prefix or `@<issue>` names; for commands that only read."""
    found: str = places_to_read().run_dir(text)
    return found


def complete_run(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """IDs of runs that begin so; nothing where there is no repository."""
    from adw.errors import AdwError
    from adw.store.runs import list_ids

    try:
        known = list_ids(places_to_read().agents_dir)
    except (AdwError, OSError):
        return []
    return [name for name in known if name.startswith(incomplete)]


def complete_workflow(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the repository's workflows that begin so."""
    from adw.errors import AdwError

    try:
        names = os.listdir(os.path.join(places_here().repo.root, "workflows"))
    except (AdwError, OSError):
        return []
    stems = {
        os.path.splitext(name)[0] for name in names if name.endswith((".yaml", ".yml", ".json"))
    }
    return sorted(stem for stem in stems if stem.startswith(incomplete))


def complete_phase(ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    """Names of the run's phases that begin so."""
    from adw.app.reading import status
    from adw.errors import AdwError

    try:
        phases = status(run_dir_of(ctx.params["adw_id"]))["phases"]
    except (AdwError, OSError, KeyError):
        return []
    return [each["phase"] for each in phases if each["phase"].startswith(incomplete)]
