"""Small tables in the host directory, which all runs of this user on this host share.

A table is read and replaced as a whole, under a lock that its owner holds. A damaged one is set
aside, and a new one begins.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from adw import log
from adw.store import files

_VERSION: Final = 1
_Row = TypeVar("_Row")


def host_dir(environ: Mapping[str, str] | None = None) -> str:
    """The directory that all runs of this user on this host share; it may not exist yet."""
    env = os.environ if environ is None else environ
    if env.get("ADW_HOST_DIR"):
        return os.path.abspath(env["ADW_HOST_DIR"])
    state = env.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):
        state = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local", "state")
    return os.path.join(state, "adw")


def load(table: str, key: str, row: Callable[[dict[str, Any]], _Row]) -> list[_Row]:
    """Rows of a table in their order; none where it is missing, or damaged and set aside now.

    Args:
        table: Its file.
        key: Key of the list in it.
        row: Makes a row of an object; raises ValueError, KeyError or TypeError for a wrong one.
    """
    try:
        return _read(table, key, row)
    except (ValueError, KeyError, TypeError, RecursionError, files.NotOurs) as error:
        aside = f"{table}.damaged-{os.urandom(4).hex()}"
        files.rename(table, aside)
        log.event(f"{key}.table_damaged", kept=aside, reason=str(error))
        return []


def peek(table: str, key: str, row: Callable[[dict[str, Any]], _Row]) -> list[_Row]:
    """As `load`, for readers: nothing is locked or set aside, a damaged table has no rows."""
    try:
        return _read(table, key, row)
    except (ValueError, KeyError, TypeError, RecursionError, OSError):
        return []


def save(table: str, key: str, rows: Sequence[dict[str, Any]]) -> None:
    """Replace a table durably."""
    value = {"schema_version": _VERSION, key: list(rows)}
    files.replace(table, json.dumps(value, indent=1).encode() + b"\n")


def _read(table: str, key: str, row: Callable[[dict[str, Any]], _Row]) -> list[_Row]:
    data = files.read_if_exists(table)
    if data is None:
        return []
    found = json.loads(data)
    if found["schema_version"] != _VERSION:
        message = f"schema version {found['schema_version']}"
        raise ValueError(message)
    return [row(each) for each in found[key]]
