"""Outside effects that happen once: `effects/<sha256 of the full key>.json`, intent and receipt.

What may be relied on, whatever is killed whenever:
- nothing is done before its intent is durable, and nothing is called done before its receipt is;
- a receipt means that nothing is done again: its output is returned;
- an open intent means that it may have happened: it is looked up, and where nobody can tell it
  becomes `unknown` and is not done again until a person has settled it.

So an effect happens at most once as seen from outside, if its look-up tells the truth. One key is
one at a time: an OFD lock is held from the intent to the receipt, and by what is started to act.
Standard library at import. Source: specs/0006-effects.md.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from adw import clock
from adw.errors import BrokenRun, EffectUnknown, LookUpFailed, StoreError
from adw.store import files
from adw.store.encoding import fits, json_bytes

DIR: Final = "effects"
SCHEMA_VERSION: Final = 1
OUTPUT_BYTES: Final = 64 << 10  # of UTF-8, of what the effect put out
LOOKS: Final = 3  # in a row, before nobody can tell
PAUSE_S: Final = 0.5  # after the first look that told nothing, then twice as long
_LIMIT: Final = 1 << 20  # bytes of a record: JSON makes six bytes of a control character
_NOTE_CHARS: Final = 300

Act = Callable[[], str | None]
"""Does it and returns what it put out; what it raises leaves open whether it was done."""
Probe = Callable[[], str | None]
"""Looks whether it was done: what it put out (perhaps ""), or None: it was not. What it raises
means that it cannot tell."""


class NotDone(Exception):
    """Raised by an act that knows: it was refused and has certainly not happened."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One outside effect of one round of a phase, or of the run."""

    run_dir: str
    phase: str
    round: int
    child_id: str
    key: str
    once: bool = False
    """Once in the run, whatever the phase and round."""
    payload: bytes = b""
    """What it would do, for the record; not part of its name."""
    blot: Callable[[str], str] = str
    """Takes secrets out of what is kept."""

    @property
    def path(self) -> str:
        """Its record."""
        return record_path(self.run_dir, full_key(self))


class Found(NamedTuple):
    """What came of it."""

    record: dict[str, Any]
    acted: bool
    """Whether it was done just now; else it had been done before."""


def full_key(effect: Effect) -> str:
    """What names an effect among all; also fit for a marker at the remote side."""
    scope = "run" if effect.once else f"{effect.phase}/{effect.round}"
    return f"{os.path.basename(effect.run_dir)}/{scope}/{effect.key}"


def record_path(run_dir: str, full: str) -> str:
    """Path of the record with a full key."""
    name = hashlib.sha256(full.encode("utf-8", "surrogatepass")).hexdigest()
    return os.path.join(run_dir, DIR, f"{name}.json")


def perform(effect: Effect, act: Act, probe: Probe | None = None) -> Found:
    """Have an effect happen, unless it has.

    Args:
        effect: Which.
        act: Does it.
        probe: Looks whether it was done; without it an open intent is a matter for a person.

    Raises:
        EffectUnknown: It was begun before, and nobody can tell whether it happened.
        LookUpFailed: It was never begun, and could not be looked up; nothing was done.
        BrokenRun: Its record is damaged; nothing was done.
        StoreError: A record could not be written. Where that is the receipt, the effect took
            place and is looked up next time.
        Exception: Whatever `act` raises; the intent stays, but after NotDone it begins anew.
    """
    path = effect.path
    with _writing(path):
        found = read_record(path)
        if found is not None and found["state"] == "done":
            files.sync_dir(os.path.dirname(path))  # its writer may have had no time to
            return Found(found, acted=False)
        files.make_dir(os.path.dirname(path), sync=True, exist_ok=True)
    with locked(path) as lock:
        return _perform(effect, act, probe, lock)


def _perform(effect: Effect, act: Act, probe: Probe | None, lock: int) -> Found:
    path = effect.path
    with _writing(path):
        _sweep(path)
        before = read_record(path)
    if before is not None and before["state"] == "done":
        return Found(before, acted=False)
    begun = before is not None and before["state"] != "not_done"
    record = _intent(effect, before)
    if begun and probe is None:
        _unknown(effect, record, "it was begun before, and there is no look-up")
    _save(path, record)
    if probe is not None:
        output = _look(effect, probe, record, begun=begun)
        if output is not None:
            return Found(_receipt(effect, record, output, "found by its look-up"), acted=False)
    os.set_inheritable(lock, True)  # noqa: FBT003 - what acts may outlive this process
    try:
        output = act()
    except Exception as error:
        state = "not_done" if isinstance(error, NotDone) else "intent"
        with suppress(StoreError):  # what went wrong with the act is more to the point
            _save(path, {**record, "state": state, "note": _note(effect, error)})
        raise
    finally:
        os.set_inheritable(lock, False)  # noqa: FBT003
    return Found(_receipt(effect, record, output or "", None), acted=True)


def _intent(effect: Effect, before: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        "key": effect.key,
        "phase": effect.phase,
        "round": effect.round,
        "once": effect.once,
        "child_id": effect.child_id,
        "state": "intent",
        "payload_sha256": hashlib.sha256(effect.payload).hexdigest(),
        "intended_at": clock.stamp(),
        "looked_up": before["looked_up"] if before else 0,
        "done_at": None,
        "output": None,
        "settled_by": None,
        "note": None,
    }


def _look(effect: Effect, probe: Probe, record: dict[str, Any], *, begun: bool) -> str | None:
    """Look the effect up, patiently.

    Returns:
        What it put out; None: it was not done.
    """

    def once() -> str | None:
        record["looked_up"] += 1
        return probe()

    try:
        return _patiently(once)
    except Exception as error:  # noqa: BLE001 - whatever goes wrong in a look-up: it did not tell
        why = f"{LOOKS} look-ups could not tell: {_note(effect, error)}"
    if begun:
        _unknown(effect, record, why)
    _save(effect.path, {**record, "state": "not_done", "note": why})
    raise LookUpFailed(key=effect.key, reason=why)


def _patiently(look: Probe) -> str | None:
    failed = []
    try:
        return look()
    except Exception as error:  # noqa: BLE001
        failed.append(error)
    from tenacity import Retrying, stop_after_attempt, wait_exponential, wait_random

    def again() -> str | None:
        if failed:
            raise failed.pop()
        return look()

    wait = wait_exponential(multiplier=PAUSE_S) + wait_random(0, PAUSE_S / 2)
    return Retrying(stop=stop_after_attempt(LOOKS), wait=wait, reraise=True)(again)


def _unknown(effect: Effect, record: dict[str, Any], why: str) -> None:
    _save(effect.path, {**record, "state": "unknown", "note": why})
    adw_id = os.path.basename(effect.run_dir)
    raise EffectUnknown(key=effect.key, word=shlex.quote(effect.key), adw_id=adw_id, reason=why)


def _receipt(
    effect: Effect, record: dict[str, Any], output: str, note: str | None
) -> dict[str, Any]:
    data = effect.blot(output).encode("utf-8", "replace")
    if len(data) > OUTPUT_BYTES:
        note = f"the output had more than {OUTPUT_BYTES} bytes, only these are kept"
        data = data[:OUTPUT_BYTES]
    text = data.decode("utf-8", "ignore")
    done = {**record, "state": "done", "done_at": clock.stamp(), "output": text, "note": note}
    _save(effect.path, done)
    return done


def _note(effect: Effect, error: BaseException) -> str:
    return (" ".join(effect.blot(str(error)).split()) or type(error).__name__)[:_NOTE_CHARS]


# --- records -----------------------------------------------------------------------------


def unsure(run_dir: str) -> bool:
    """Whether there is an effect that nobody could tell of, and that no person has settled."""
    with suppress(OSError):
        return any(each["state"] == "unknown" for each in Shelf().records(run_dir).values())
    return False


def read_record(path: str) -> dict[str, Any] | None:
    """Read a record; None where there is none.

    Raises:
        BrokenRun: It is damaged; it is left as it is.
        OSError: It cannot be read.
    """
    data = files.read_if_exists(path, limit=_LIMIT)
    if data is None:
        return None
    record = parse(data)
    if record is None:
        folder, name = os.path.split(path)
        raise BrokenRun(
            path=f"{DIR}/{name}",
            what="effect record",
            reason="it is damaged, or of another version",
            adw_id=os.path.basename(os.path.dirname(folder)),
        )
    return record


def parse(data: bytes) -> dict[str, Any] | None:
    """A record from its bytes; None where they are none that this version understands."""
    try:
        record = json.loads(data)
    except ValueError:
        return None
    if not fits(record, _TYPES) or record["schema_version"] != SCHEMA_VERSION:
        return None
    return record if record["state"] in STATES else None


STATES: Final = ("intent", "done", "unknown", "not_done")
_NONE: Final = type(None)
_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "schema_version": (int,),
    "key": (str,),
    "phase": (str,),
    "round": (int,),
    "once": (bool,),
    "child_id": (str,),
    "state": (str,),
    "payload_sha256": (str,),
    "intended_at": (str,),
    "looked_up": (int,),
    "done_at": (str, _NONE),
    "output": (str, _NONE),
    "settled_by": (str, _NONE),
    "note": (str, _NONE),
}


def taken_back(effect: Effect, why: str) -> None:
    """Forget a receipt whose effect is known to be there no more, so that it is done again."""
    with _writing(effect.path):
        if read_record(effect.path) is None:
            return
    with locked(effect.path):
        record = read_record(effect.path)
        if record is not None and record["state"] == "done":
            _save(effect.path, {**record, "state": "not_done", "note": why})


def write_settled(path: str, record: dict[str, Any], state: str) -> dict[str, Any]:
    """Record a person's word on an effect; call it while its lock is held.

    Args:
        path: Of the record.
        record: As it is.
        state: `done` or `not_done`.
    """
    at = clock.stamp() if state == "done" else None
    found = {**record, "state": state, "done_at": at, "settled_by": "person"}
    _save(path, found)
    return found


def _save(path: str, record: dict[str, Any]) -> None:
    with _writing(path):
        files.replace(path, json_bytes(record, indent=1) + b"\n")


@contextmanager
def _writing(path: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError.of(error, error.filename or path) from error


def _sweep(path: str) -> None:
    """Remove temporary files of this record that a crash left, sync its name; its lock is held."""
    folder, name = os.path.split(path)
    for each in os.listdir(folder):
        if each.startswith(f".{name}.") and each.endswith(".tmp"):
            files.unlink(os.path.join(folder, each))
    files.sync_dir(folder)


# --- locks -------------------------------------------------------------------------------


def lock_path(path: str) -> str:
    """The lock file of a record."""
    folder, name = os.path.split(path)
    return os.path.join(folder, f".lock-{name.removesuffix('.json')}")


@contextmanager
def locked(path: str) -> Iterator[int]:
    """Hold the lock of a record, waiting for it; gives its descriptor."""
    with _writing(path):
        fd = files.open_lock(lock_path(path))
    try:
        with _writing(path):
            files.lock(fd, wait=True)
        yield fd
    finally:
        os.close(fd)


def being_tried(path: str) -> bool:
    """Whether somebody holds the lock of a record: it is being done."""
    return files.locked(lock_path(path))


@dataclass(slots=True)
class Shelf:
    """Reads all effects of a run; a record that did not change is not read again."""

    _known: dict[str, tuple[tuple[int, int, int], dict[str, Any] | None]] = field(
        default_factory=dict
    )

    def records(self, run_dir: str) -> dict[str, dict[str, Any]]:
        """Path, relative to the run's directory, to record; damaged ones are left out."""
        found = {}
        with suppress(FileNotFoundError), os.scandir(os.path.join(run_dir, DIR)) as folder:
            for each in sorted(folder, key=lambda each: each.name):
                if each.name.endswith(".json") and not each.name.startswith("."):
                    record = self._record(each)
                    if record is not None:
                        found[f"{DIR}/{each.name}"] = record
        return found

    def of_child(self, run_dir: str, child: str) -> dict[str, dict[str, Any]]:
        """Those that an attempt was the last to try, by path; none where they cannot be read."""
        with suppress(OSError):
            found = self.records(run_dir)
            return {path: each for path, each in found.items() if each["child_id"] == child}
        return {}

    def _record(self, entry: os.DirEntry[str]) -> dict[str, Any] | None:
        with suppress(OSError):
            info = entry.stat(follow_symlinks=False)
            sign = (info.st_ino, info.st_mtime_ns, info.st_size)
            known = self._known.get(entry.name)
            if known is None or known[0] != sign:
                known = (sign, parse(files.read(entry.path, limit=_LIMIT)))
                self._known[entry.name] = known
            return known[1]
        return None
