"""Telling people of the end of a sitting, as `notify` of adw.yaml says.

The run's lock is free by then, so that whoever is told finds the run as it was told. What is owed is
durable before it is sent (`notices.json`); what could not be told is a `warning` in the history and
is tried again at the next end. Nothing here changes how the command ends.
"""

import json
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from adw import clock
from adw.app import reading
from adw.errors import AdwError, BusyError
from adw.store import files, runs
from adw.store.encoding import json_bytes
from adw.store.history import History
from adw.workspace import locks

FILE: Final = "notices.json"
LOCK: Final = "notices.lock"
LIMIT_S: Final = 30.0  # for all that is owed together
OWED: Final = 20  # messages that are kept to be tried again
_FILE_BYTES: Final = 1 << 20

Notice = dict[str, Any]
"""`message`, and the `ways` by which it is still to be told."""


def tell_end(
    run_dir: str, root: str, channels: Mapping[str, Any], say: Callable[[str], None]
) -> None:
    """Tell of the end of a sitting, and what could not be told before.

    Args:
        run_dir: Of the run; its lock is free.
        root: The main checkout, where a command is started.
        channels: `notify` of the run's adw.yaml.
        say: Takes one line for people.
    """
    try:
        with locks.held(os.path.join(run_dir, LOCK), LIMIT_S):
            untold = _tell(run_dir, root, channels)
        for line in untold:
            say(f"warning: {line}")
        if untold:
            _record(run_dir, untold)
    except (AdwError, OSError, ValueError, KeyError, TypeError) as error:
        words = " ".join(str(error).split())
        say(f"warning: nobody was told of the end of {os.path.basename(run_dir)}: {words}")
    except KeyboardInterrupt:
        say("warning: stopped while people were told of the end; the next end tells it again")


def _tell(run_dir: str, root: str, channels: Mapping[str, Any]) -> list[str]:
    from adw.phases.sending import ways

    path = os.path.join(run_dir, FILE)
    told, owed = _read(path)
    view = reading.status(run_dir)
    key = f"{view['adw_id']}/{view['status']}/{len(view['state']['phase_history'])}"
    if view["status"] in channels["on"] and key != told:
        told = key
        owed.append({"ways": ways(channels), "message": _message(view, key)})
    if not owed:
        return []
    owed = owed[-OWED:]
    _write(path, told, owed)
    why = _sent(root, {"channels": dict(channels), "messages": owed})
    left = [
        {**each, "ways": [way for way in each["ways"] if why[number, way] is not None]}
        for number, each in enumerate(owed)
    ]
    _write(path, told, [each for each in left if each["ways"]])
    return [
        f"the end of the run ({owed[number]['message']['status']}) is not told by {way}: {reason}"
        for (number, way), reason in why.items()
        if reason is not None
    ]


def _message(view: Mapping[str, Any], key: str) -> dict[str, Any]:
    names = ("adw_id", "workflow", "issue_number", "status", "reason", "next_action")
    message = {name: view.get(name) for name in names}
    issue = view.get("issue_number")
    about = f"{view.get('workflow')}, issue {issue}" if issue is not None else view.get("workflow")
    text = f"run {view['adw_id']} ({about}) {view['status']}"
    text += f": {view['reason']}" if view.get("reason") else ""
    text += f"\nnext: {view['next_action']}" if view.get("next_action") else ""
    return {
        "schema_version": 1,
        "kind": "end",
        "key": key,
        **message,
        "branch": view["state"].get("branch_name"),
        "at": clock.stamp(),
        "text": text,
    }


# --- what is owed ------------------------------------------------------------------------


def _read(path: str) -> tuple[str | None, list[Notice]]:
    """Key of the latest end that was taken up, and what is owed; nothing where it is damaged."""
    try:
        found = json.loads(files.read_if_exists(path, limit=_FILE_BYTES) or b"{}")
        owed = [{"ways": list(e["ways"]), "message": dict(e["message"])} for e in found["owed"]]
        return found["told"], owed
    except (ValueError, KeyError, TypeError):
        return None, []


def _write(path: str, told: str | None, owed: list[Notice]) -> None:
    files.replace(path, json_bytes({"schema_version": 1, "told": told, "owed": owed}) + b"\n")


# --- sending -----------------------------------------------------------------------------


def _sent(root: str, owed: Mapping[str, Any]) -> dict[tuple[int, str], str | None]:
    """Have a process of its own send it all; why each was not told, None where it was.

    Another process, since nothing that a remote or a command does may hold this one up.
    """
    deadline = clock.monotonic() + LIMIT_S
    found: dict[tuple[int, str], str | None] = {}
    given = os.memfd_create("owed")
    reader, writer = os.pipe()
    try:
        os.write(given, json.dumps(owed).encode())
        os.lseek(given, 0, os.SEEK_SET)
        argv = [sys.executable, "-I", "-m", "adw.phases.notify", "--ends"]
        shell = ["sh", "-c", 'cd "$0" && exec "$@"', root, *argv]
        copies = [(os.POSIX_SPAWN_DUP2, given, 0), (os.POSIX_SPAWN_DUP2, writer, 1)]
        usual = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM)
        pid = os.posix_spawnp(
            "sh", shell, os.environ, file_actions=copies, setsid=True, setsigdef=usual
        )
    finally:
        os.close(given)
        os.close(writer)
    try:
        for line in _lines(reader, deadline).splitlines():
            each = json.loads(line)
            found[each["message"], each["way"]] = each["why"]
    finally:
        os.close(reader)
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    late = clock.monotonic() >= deadline
    words = f"not done after {LIMIT_S:g} s" if late else "what should have told it was ended"
    asked = ((n, way) for n, each in enumerate(owed["messages"]) for way in each["ways"])
    return {each: found.get(each, words) for each in asked}


def _lines(reader: int, deadline: float) -> bytes:
    """All that is printed until the end, or until it is too late."""
    data = b""
    while (left := deadline - clock.monotonic()) > 0:
        if select.select([reader], [], [], left)[0]:
            more = os.read(reader, 65536)
            if not more:
                break
            data += more
    return data[: data.rfind(b"\n") + 1]


def _record(run_dir: str, untold: list[str]) -> None:
    """Add warnings to the history, unless somebody has begun to work on the run again."""
    try:
        lock = runs.open_run(run_dir)
    except BusyError:
        return
    try:
        history = History(run_dir)
        for line in untold:
            history.add("warning", {"detail": line}, entries=history.entries)
        history.flush()
    finally:
        lock.close()
