"""`adw schema`: the JSON Schema of a document."""

import click

from adw.cli.output import print_json


@click.command("schema")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, hidden=True)
def command(name: str, *, as_json: bool) -> int:
    """Print the JSON Schema of a document.

    People write: workflow, config. A run keeps: state, run, snapshot (a pin), event, attempt (one
    line each), latest, manifest, request. A phase writes: result. `adw status --json` prints:
    status.
    """
    del as_json  # it is JSON anyway
    from adw.errors import UnknownName, suggestion
    from adw.model.schemas import NAMES, schema

    if name not in NAMES:
        hint = suggestion(name, list(NAMES))
        raise UnknownName(kind="schema", name=name, suggestion=hint, reason=None)
    print_json(schema(name))
    return 0
