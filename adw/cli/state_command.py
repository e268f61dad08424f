"""`adw state get` and `adw state set`."""

import json
from typing import Any

import click

from adw.cli.arguments import json_option, places_here, run_argument, run_dir_of
from adw.cli.layout import show
from adw.cli.output import print_bytes, print_json


@click.group("state")
def command() -> None:
    """Read or set the state of a run."""


@command.command("get")
@run_argument
@click.argument("field", required=False)
@json_option
def get(adw_id: str, field: str | None, *, as_json: bool) -> int:
    """Print the state as JSON, all fields included; or one field.

    A string is printed as it is, null as an empty line, everything else as JSON.
    With `--json` a field is always JSON.
    """
    from adw.errors import UnknownName, suggestion
    from adw.model.state import encode_head, encode_state
    from adw.store.state import load_state

    state, _ = load_state(run_dir_of(adw_id))
    entries = [entry.encode() for entry in state.phase_history]
    text = encode_state(encode_head(state), entries).decode()
    if field is None:
        print_bytes(text.encode())
        return 0
    found = json.loads(text)
    if field not in found:
        hint = suggestion(field, list(found))
        raise UnknownName(kind="state field", name=field, suggestion=hint, reason=None)
    value = found[field]
    if isinstance(value, str | None) and not as_json:
        print_bytes(f"{value or ''}\n".encode())
    else:
        print_json(value)
    return 0


@command.command("set")
@run_argument
@click.argument("pairs", nargs=-1, required=True, metavar="KEY=VALUE")
@click.pass_obj
def set_(nursery: Any, adw_id: str, pairs: tuple[str, ...]) -> int:
    """Set fields of the state by a person's word; an empty value means null.

    Fields that name what exists already, such as the branch, cannot be set.
    """
    from adw.app import asking
    from adw.cli.quiet import quiet_host
    from adw.errors import UsageError

    wanted = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            detail = f"`{pair}` is found, key=value is expected"
            raise UsageError(detail=detail, fix="adw state set ID key=value")
        wanted[name] = value
    places = places_here()
    run_dir = places.run_dir(adw_id)
    show([asking.set_fields(places, run_dir, wanted, quiet_host(nursery))])
    return 0
