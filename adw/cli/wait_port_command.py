"""`adw wait-port`."""

import os
import re
from typing import Final

import click

from adw.cli.arguments import complete_run, json_option
from adw.cli.layout import show
from adw.cli.output import print_json

_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)?\Z")
_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(_ctx: click.Context, _param: click.Parameter, value: str) -> float:
    """Seconds of 500ms, 30s, 2m; a plain number is seconds."""
    found = _DURATION.match(value)
    if not found:
        message = f"`{value}` is not a duration such as 30s or 2m"
        raise click.BadParameter(message)
    return float(found[1]) * _UNITS[found[2] or "s"]


@click.command("wait-port")
@click.argument("words", nargs=-1, metavar="[ID] [PORT]", shell_complete=complete_run)
@click.option(
    "--timeout",
    metavar="DURATION",
    callback=_seconds,
    default="60s",
    show_default=True,
    help="Longest wait.",
)
@json_option
def command(words: tuple[str, ...], *, timeout: float, as_json: bool) -> int:
    """Wait until a server of the run listens on PORT, and refuse one that is a stranger's.

    PORT is `backend` (the default), `frontend` or a number. Inside a phase, ID is the phase's own
    run; elsewhere it is needed. Ends with 4 where nothing listens in time, and with 5 where what
    listens is no process of the run; that is named and left alone.

    \b
    npm run dev &
    adw wait-port frontend --timeout 2m
    """
    from adw.app.listening import await_listener, port_of

    run_dir, word = _meant(words)
    port = port_of(run_dir, word)
    pid = await_listener(run_dir, port, timeout)
    if as_json:
        print_json({"schema_version": 1, "port": port, "pid": pid})
    else:
        show([f"port {port} is served by process {pid}"])
    return 0


def _meant(words: tuple[str, ...]) -> tuple[str, str]:
    """The run's directory, and the word for the port."""
    from adw.cli.arguments import run_dir_of
    from adw.errors import UsageError

    inside = os.environ.get("ADW_STATE_ROOT") if os.environ.get("ADW_CHILD") else None
    ports = [word for word in words if _is_port(word)]
    ids = [word for word in words if not _is_port(word)]
    if len(ports) > 1 or len(ids) > 1 or (ids and words[0] != ids[0]):
        raise UsageError(detail="one ID and one PORT are expected", fix="adw wait-port --help")
    if ids:
        return run_dir_of(ids[0]), ports[0] if ports else "backend"
    if inside is None:
        detail = "outside of a phase, the ID of a run is expected"
        raise UsageError(detail=detail, fix="adw wait-port ID backend")
    return inside, ports[0] if ports else "backend"


def _is_port(word: str) -> bool:
    """An ID has six characters at least, so that no number of five digits is one."""
    from adw.app.listening import NAMES

    return word in NAMES or (word.isascii() and word.isdigit() and len(word) <= 5)  # noqa: PLR2004
