"""What is derived from a run: whether it is what it should be, and making it again.

State, attempt files and history are the truth. latest.json, RESPONSE.md and manifest.json say it
again for readers, so that they can be lost and made again at any time.
"""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from adw.app import promoting, reading, showing
from adw.app.places import Places, names_in, refuse_inside
from adw.errors import AdwError
from adw.ids import child_id
from adw.store import attempts, files, runs

_RESPONSE: Final = "RESPONSE.md"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """What `rebuild` found to be different."""

    written: list[str]
    """Files that are new or have other content now, relative to the run's directory."""
    recovered_events: int
    """Events that the history had lost."""


class Difference(NamedTuple):
    """Something derived, or a copy, that is not what the truth says."""

    kind: str
    """derived, artifact or leftover."""
    path: str
    detail: str
    hint: str | None = None


def rebuild(places: Places, run_dir: str, host: Any) -> Rebuilt:
    """Make again all that is derived; what was asked of the run meanwhile is applied, as always.

    Args:
        places: The repository and its runs.
        run_dir: The run.
        host: As adw.app.sitting.Host.

    Raises:
        BusyError: Somebody drives the run, and so keeps all of it up to date.
        StateError: The state is damaged, so there is nothing to derive from.
    """
    refuse_inside(run_dir, "doctor --rebuild")
    from adw.app.asking import settle
    from adw.store.state import load_state

    load_state(run_dir)
    lock = runs.open_run(run_dir)
    before, events = _snapshot(run_dir), _recovered(run_dir)
    left = (reading.read_latest(run_dir) or {}).get("left")
    _distrust(run_dir)
    settle(places, lock, "doctor --rebuild", host, left=left)
    after = _snapshot(run_dir)
    written = sorted(path for path in after if after[path] != before.get(path))
    return Rebuilt(written, _recovered(run_dir) - events)


def _distrust(run_dir: str) -> None:
    """Take the view away whose digest would vouch for the rest of it."""
    path = os.path.join(run_dir, reading.LATEST)
    if os.path.isdir(path) and not os.path.islink(path):
        files.remove_tree(path)
    else:
        files.unlink(path)


def _snapshot(run_dir: str) -> dict[str, object]:
    """Content of what is derived, by relative path; the instant of its writing does not count."""
    found: dict[str, object] = {}
    names = [_RESPONSE, promoting.MANIFEST, reading.LATEST]
    names += [f"children/{child}/{_RESPONSE}" for child in _children(run_dir)]
    for name in names:
        try:
            data = files.read(os.path.join(run_dir, name))
        except OSError:
            continue
        found[name] = _without_instant(data) if name == reading.LATEST else data
    return found


def _without_instant(data: bytes) -> object:
    try:
        view = json.loads(data)
        return {key: value for key, value in view.items() if key != "updated_at"}
    except (ValueError, AttributeError):
        return data


def _children(run_dir: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(run_dir, "children")))
    except OSError:
        return []


def _recovered(run_dir: str) -> int:
    from adw.store.history import read_history

    return sum(1 for event in read_history(run_dir) if event.get("recovered"))


# --- looking -----------------------------------------------------------------------------


def differences(run_dir: str) -> Iterator[Difference]:
    """What is not as the state and the attempts have it; nothing is said of a run that is held."""
    if runs.held(run_dir):
        return
    try:
        yield from _response(run_dir)
        yield from _latest(run_dir)
        yield from _artifacts(run_dir)
    except AdwError:  # the state itself is told as damaged
        return
    except OSError as error:
        detail = f"it cannot be read: {error.strerror or error}"
        yield Difference("derived", error.filename or run_dir, detail)


def _hint(run_dir: str) -> str:
    return f"adw doctor --rebuild {os.path.basename(run_dir)}"


def _response(run_dir: str) -> Iterator[Difference]:
    path = os.path.join(run_dir, _RESPONSE)
    if not os.path.isfile(path):
        yield Difference("derived", path, "it is missing", _hint(run_dir))


def _latest(run_dir: str) -> Iterator[Difference]:
    """A view whose digest fits and whose content does not: readers would believe it."""
    path = os.path.join(run_dir, reading.LATEST)
    latest = reading.read_latest(run_dir)
    if latest is None:
        if os.path.lexists(path):
            yield Difference("derived", path, "it cannot be read", _hint(run_dir))
        return
    from adw.app.rebuilding import view_from_files

    view, _ = view_from_files(run_dir)
    if latest.get("state_sha256") != view["state_sha256"]:
        return  # of an earlier state, as readers see too
    try:
        fits = _facts(latest) == _facts(view)
    except (KeyError, TypeError, AttributeError):
        fits = False
    if not fits:
        detail = "it says something else than the state that it names"
        yield Difference("derived", path, detail, _hint(run_dir))


def _facts(view: dict[str, Any]) -> object:
    """What a view and the same view made later have in common, whatever lived or waited then."""
    phases = [
        (
            phase["phase"],
            phase["status"] if view["closing"] else None,
            [
                (each["attempt"], each["child_id"], each["success"], each["reason"])
                for each in phase["attempts"]
                if each["success"] is not None
            ],
        )
        for phase in view["phases"]
    ]
    head = [view[name] for name in ("adw_id", "workflow", "definition", "issue_number")]
    return (head, view["closing"] or None, phases)


def _artifacts(run_dir: str) -> Iterator[Difference]:
    """The manifest, the copies it names, and copies that no success stands behind."""
    manifest = promoting.read_manifest(run_dir)
    path = os.path.join(run_dir, promoting.MANIFEST)
    if _read_json(path) != manifest:
        detail = "it does not say what the attempts handed over"
        yield Difference("derived", path, detail, _hint(run_dir))
    adw_id = os.path.basename(run_dir)
    for name, entry in sorted(manifest.items()):
        if entry["path"] is None:
            continue
        found = showing.compare(run_dir, entry["path"], entry)
        if found != "ok":
            phase = attempts.split(entry["producer"])[0]
            words = {"missing": "is missing", "changed": "has changed since it was made"}[found]
            copy = os.path.join(run_dir, entry["path"])
            hint = f"adw resume {adw_id} --from {phase} makes it again"
            yield Difference("artifact", copy, f"the copy of `{name}` {words}", hint)
    yield from _strays(run_dir)


def _read_json(path: str) -> object:
    try:
        return json.loads(files.read(path))
    except (OSError, ValueError, RecursionError):
        return None


def _strays(run_dir: str) -> Iterator[Difference]:
    folder = os.path.join(run_dir, "artifacts")
    done = {
        child_id(phase, attempt) for phase, attempt, success in reading.outcomes(run_dir) if success
    }
    for name in names_in(folder):
        path = os.path.join(folder, name)
        if name == "manifest.json" or (name.startswith(".") and name.endswith(".tmp")):
            continue
        own = os.path.isdir(path) and not os.path.islink(path)
        children = names_in(path) if own else []
        for child in children:
            if child not in done:
                detail = "a copy that no attempt which succeeded has handed over"
                yield Difference("leftover", os.path.join(path, child), detail, _hint(run_dir))
        if not children:
            yield Difference("leftover", path, "a file that is no copy", "it can be removed")
