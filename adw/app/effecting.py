"""Effects as the command line and the orchestrator see them: done by a command, listed, settled."""

import contextlib
import errno
import hashlib
import os
import re
import select
import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from adw.errors import StoreError, UnknownName, UsageError, suggestion
from adw.phases import api
from adw.store import effects, files
from adw.store.effects import NotDone, Shelf

if TYPE_CHECKING:
    from adw.app.session import Session
    from adw.store.requests import Request

NOT_STARTED: Final = 127  # as shells say it
_OPEN: Final = ("unknown", "intent")
_RECORD: Final = re.compile(r"\Aeffects/[0-9a-f]{64}\.json\Z")


# --- inside a phase ----------------------------------------------------------------------


class CommandFailed(Exception):
    """A command that did not end with 0."""

    def __init__(self, words: str, exit_code: int) -> None:
        super().__init__(words)
        self.exit_code = exit_code


class NotStarted(CommandFailed, NotDone):
    """A command that could not be started, so it did nothing."""


def perform(key: str, argv: Sequence[str], probe: str | None, *, once: bool) -> effects.Found:
    """Have the effect of a command happen once; to be called inside a phase.

    Args:
        key: What the phase calls it.
        argv: The command; what it prints on stdout is the effect's output.
        probe: Text for `sh -c`: exit 0 done, 1 not done, anything else: it cannot tell.
        once: Once in the run.

    Raises:
        CommandFailed: The command did not end with 0.
        UsageError: Not inside a phase, or no such key can be used.
        EffectUnknown, LookUpFailed, BrokenRun, StoreError: As adw.store.effects.perform.
    """
    payload = b"".join(os.fsencode(word) + b"\0" for word in argv)
    named = api.intended(api.Context.from_env(), key, once=once, payload=payload)

    def act() -> str:
        exit_code, output = _run(argv)
        if exit_code:
            raise CommandFailed(_ended("the command", exit_code), exit_code)
        return output

    def look() -> str | None:
        exit_code, output = _run(["sh", "-c", probe or ""])
        if exit_code > 1 or exit_code < 0:
            raise CommandFailed(_ended("the look-up", exit_code), exit_code)
        return output if exit_code == 0 else None

    return effects.perform(named, act, look if probe is not None else None)


def _ended(what: str, exit_code: int) -> str:
    if exit_code < 0:
        return f"{what} was ended by signal {-exit_code}"
    return f"{what} ended with exit code {exit_code}"


def _run(argv: Sequence[str]) -> tuple[int, str]:
    """Run a command to its end.

    Returns:
        Its exit code, or minus the signal; the beginning of what it printed on stdout.
    """
    reader, writer = os.pipe()
    try:
        if not argv[0]:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
        # Python ignores these two, which no command expects.
        usual = (signal.SIGPIPE, signal.SIGXFSZ)
        pid = os.posix_spawnp(
            argv[0], list(argv), os.environ, file_actions=actions, setsigdef=usual
        )
    except OSError as error:
        os.close(reader)
        words = f"`{argv[0]}` cannot be started: {error.strerror}"
        raise NotStarted(words, NOT_STARTED) from error
    finally:
        os.close(writer)
    try:
        data = _until_end(pid, reader)
    finally:
        os.close(reader)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), data.decode("utf-8", "replace")


def _until_end(pid: int, reader: int) -> bytes:
    """Read until a process is over, though something it started may keep the pipe open."""
    end = os.pidfd_open(pid)
    os.set_blocking(reader, False)
    data = bytearray()
    try:
        waiting, over = [reader, end], False
        while not over and reader in waiting:
            ready = select.select(waiting, [], [])[0]
            over = end in ready
            if not _take(reader, data):
                waiting.remove(reader)
    finally:
        os.close(end)
    return bytes(data)


def _take(reader: int, data: bytearray) -> bool:
    """Take what lies in a pipe, and keep a little more than a record takes; False at its end."""
    while True:
        try:
            chunk = os.read(reader, 1 << 16)
        except BlockingIOError:
            return True
        if not chunk:
            return False
        data += chunk[: max(0, effects.OUTPUT_BYTES + 1 - len(data))]


# --- for people --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """Which effect a person means, and their word on it."""

    key: str
    state: str
    """`done` or `not_done`."""
    phase: str | None = None
    round: int | None = None

    def takes(self, record: Mapping[str, Any]) -> bool:
        """Whether a record can be meant."""
        wanted = (self.key, self.phase or record["phase"], self.round or record["round"])
        return wanted == (record["key"], record["phase"], record["round"])


def listed(run_dir: str) -> list[dict[str, Any]]:
    """All effects of a run, in the order in which they were last tried."""
    found = [{"effect": path, **record} for path, record in Shelf().records(run_dir).items()]
    return sorted(found, key=lambda each: (each["intended_at"], each["effect"]))


def damaged(run_dir: str) -> list[str]:
    """Paths of records that are damaged, or cannot be read."""
    folder = os.path.join(run_dir, effects.DIR)
    with contextlib.suppress(OSError):
        names = [f"{effects.DIR}/{name}" for name in sorted(os.listdir(folder))]
        known = Shelf().records(run_dir)
        lost = [name for name in names if _RECORD.match(name) and name not in known]
        return [os.path.join(run_dir, name) for name in lost]
    return []


def settlement(run_dir: str, choice: Choice) -> dict[str, Any]:
    """The fields of the request that settles an effect.

    Raises:
        UnknownName: The run has no such effect.
        UsageError: It needs no settling, several are meant, or it is being done just now.
    """
    path = _chosen(run_dir, choice)
    absolute = os.path.join(run_dir, path)
    if effects.being_tried(absolute):
        raise UsageError(
            detail=f"effect `{choice.key}` is being done just now",
            fix=f"adw watch {os.path.basename(run_dir)}",
        )
    digest = hashlib.sha256(files.read(absolute)).hexdigest()
    return {"effect": path, "state": choice.state, "seen_sha256": digest}


def _chosen(run_dir: str, choice: Choice) -> str:
    records = listed(run_dir)
    adw_id = os.path.basename(run_dir)
    found = [each for each in records if choice.takes(each)]
    if not found:
        hint = suggestion(choice.key, sorted({each["key"] for each in records}))
        raise UnknownName(kind="effect", name=choice.key, suggestion=hint, reason=None)
    # A person's own word may be taken back; what was seen to happen, not.
    unsure = [e for e in found if e["state"] in _OPEN] or [e for e in found if e["settled_by"]]
    if not unsure:
        states = ", ".join(sorted({each["state"].replace("_", " ") for each in found}))
        detail = f"effect `{choice.key}` is {states}: there is nothing to settle"
        raise UsageError(detail=detail, fix=f"adw effect list {adw_id}")
    if len(unsure) > 1:
        names = "; ".join(f"--phase {e['phase']} --round {e['round']}" for e in unsure)
        detail = f"{len(unsure)} effects have the key `{choice.key}`, one is expected"
        raise UsageError(detail=detail, fix=f"say which: {names}")
    path: str = unsure[0]["effect"]
    return path


def words_on(run_dir: str, fields: Mapping[str, Any], choice: Choice) -> str:
    """One line for people after a settlement was applied.

    Raises:
        UsageError: It was overtaken.
    """
    adw_id = os.path.basename(run_dir)
    record = effects.read_record(os.path.join(run_dir, fields["effect"]))
    if record is None or (record["state"], record["settled_by"]) != (choice.state, "person"):
        detail = f"effect `{choice.key}` changed meanwhile and is not settled"
        raise UsageError(detail=detail, fix=f"adw effect list {adw_id}")
    what = "is settled as done" if choice.state == "done" else "will be done at the next try"
    where = f"`{choice.key}` of `{record['phase']}`, round {record['round']},"
    return f"effect {where} {what}; go on with `adw resume {adw_id}`"


# --- in the orchestrator -----------------------------------------------------------------


def settle(session: "Session", request: "Request", *, told: bool) -> None:
    """Settle an effect as a request asks; one that was overtaken or applied before changes nothing.

    Args:
        session: The open run.
        request: Of kind `settle`.
        told: The history has it already.

    Raises:
        StoreError: The record could not be written.
    """
    path, state = request.fields.get("effect"), request.fields.get("state")
    if not isinstance(path, str) or not _RECORD.match(path) or state not in {"done", "not_done"}:
        return
    record = _settled(os.path.join(session.run_dir, path), str(state), request.fields)
    if record is not None and not told:
        slots = {"key": record["key"], "round": record["round"], "state": state}
        session.event("effect_settled", slots, stage=record["phase"])


def _settled(path: str, state: str, fields: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record as settled by this request; None where it was overtaken."""
    try:
        lock = files.open_lock(effects.lock_path(path))
    except FileNotFoundError:
        return None
    try:
        # Held: it is being done just now, and the word came too late.
        data = files.read_if_exists(path) if files.lock(lock) else None
        record = None if data is None else effects.parse(data)
        if data is None or record is None:
            return None
        if hashlib.sha256(data).hexdigest() == fields.get("seen_sha256"):
            return effects.write_settled(path, record, state)
    except OSError as error:
        raise StoreError.of(error, path) from error
    finally:
        os.close(lock)
    return record if (record["state"], record["settled_by"]) == (state, "person") else None


def unknown_words(adw_id: str, record: Mapping[str, Any]) -> str:
    """Why an attempt is held by an effect, and what to do."""
    key = record["key"]
    command = f"adw effect settle {adw_id} {shlex.quote(key)} --done (or --not-done)"
    return f"effect `{key}` may have happened, {record['note']}; look, then {command}"
