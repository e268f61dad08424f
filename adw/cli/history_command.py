"""`adw history`: the events of a run, in order."""

import json
import os
from collections.abc import Iterator
from typing import Any

import click

from adw.cli.arguments import json_option, run_argument, run_dir_of
from adw.cli.layout import columns, instant, show
from adw.cli.output import print_json
from adw.model.event import COMMON

Row = tuple[object, object, object, object, object]


@click.command("history")
@run_argument
@json_option
def command(adw_id: str, *, as_json: bool) -> int:
    """Show what happened in a run, event by event; damaged lines are named."""
    from adw.store.history import read_history

    run_dir = run_dir_of(adw_id)
    found = list(read_history(run_dir))
    if as_json:
        print_json(_as_json(os.path.basename(run_dir), found))
    else:
        show(columns(("SEQ", "TIME", "PHASE", "EVENT", "MORE"), _rows(found)))
    return 0


def _as_json(adw_id: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    damaged = [{"line": e["line"], "why": e["why"]} for e in found if e["event"] == "damaged"]
    events = [event for event in found if event["event"] != "damaged"]
    return {"schema_version": 1, "adw_id": adw_id, "events": events, "damaged": damaged}


def _rows(found: list[dict[str, Any]]) -> Iterator[Row]:
    for event in found:
        if event["event"] == "damaged":
            yield (None, None, None, "damaged", f"line {event['line']}: {event['why']}")
            continue
        yield (event["seq"], instant(event["ts"]), event["stage"], event["event"], _more(event))


def _more(event: dict[str, Any]) -> str:
    """What belongs to its kind, as key=value; what is null is left out."""
    slots = [(k, v) for k, v in event.items() if k not in COMMON and v is not None]
    words = [f"{key}={_word(value)}" for key, value in slots]
    return " ".join([*words, "recovered"] if event["recovered"] else words)


def _word(value: object) -> str:
    plain = isinstance(value, str) and value and not set(value) & set(" \"'=")
    return str(value) if plain else json.dumps(value, ensure_ascii=False)
