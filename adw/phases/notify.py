"""The program of `use: notify`, and the one that tells of the end of a run.

As a phase it tells `text` by each way that `notify` of adw.yaml names, once a round: an effect each.
What was begun and has no receipt is told again, since to hear twice is better than not at all; the
receiver can tell by the key. With `--ends` it reads what is owed from stdin and prints, for each
message and way, one line of JSON: `{"message": n, "way": …, "why": …}`, `why` null where it is told.
"""

import json
import sys
import time
from functools import partial
from typing import Any, Final

from adw.errors import AdwError, UsageError
from adw.phases.api import Context, intended, options, write_result
from adw.phases.sending import NotSent, send, ways
from adw.store import effects

ENDS_S: Final = 20.0  # nothing more is begun after that; whoever waits gives up a little later


def main() -> int:
    """Tell; exit code 0 where all was told, 1 with messages on stderr otherwise."""
    if sys.argv[1:] == ["--ends"]:
        return _ends()
    try:
        context = Context.from_env()
        untold = _phase(context)
    except AdwError as error:
        sys.stderr.write(error.render() + "\n")
        return 1
    for way, why in untold:
        sys.stderr.write(f"error: not told by {way}: {why}\n")
    return 1 if untold else 0


def _phase(context: Context) -> list[tuple[str, str]]:
    """Tell by each way; a failure of one harms no other.

    Returns:
        Way and reason of what was not told.
    """
    given = options()
    channels: dict[str, Any] = json.loads(given.get("channels") or "{}")
    if not ways(channels):
        raise UsageError(
            detail="there is nobody to notify",
            fix="say who under `notify` in adw.yaml; a run keeps the one that it began with",
        )
    text = given.get("text") or f"adw: run {context.adw_id} has come to `{context.phase}`"
    untold = []
    for way in ways(channels):
        named = intended(context, f"notify {way}", payload=text.encode())
        message = {
            "schema_version": 1,
            "kind": "phase",
            "key": effects.full_key(named),
            "adw_id": context.adw_id,
            "issue_number": context.issue_number,
            "phase": context.phase,
            "branch": context.branch,
            "text": text,
        }
        try:
            effects.perform(named, partial(_act, way, channels, message), _again)
        except NotSent as error:
            untold.append((way, str(error)))
    write_result(summary=text.splitlines()[0][:200] if text.strip() else None)
    return untold


def _act(way: str, channels: dict[str, Any], message: dict[str, Any]) -> str:
    send(way, channels, message)
    return ""


def _again() -> None:
    """Nobody can look a notification up; it counts as not told."""


def _ends() -> int:
    owed, begun = json.load(sys.stdin), time.monotonic()
    for number, each in enumerate(owed["messages"]):
        for way in each["ways"]:
            if time.monotonic() > begun + ENDS_S:
                return 1
            why = None
            try:
                send(way, owed["channels"], each["message"])
            except NotSent as error:
                why = str(error)
            sys.stdout.write(json.dumps({"message": number, "way": way, "why": why}) + "\n")
            sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main())
