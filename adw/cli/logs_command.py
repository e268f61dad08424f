"""`adw logs`: what phases wrote, raw into a pipe, escaped on a terminal."""

import codecs
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import click

from adw.cli.arguments import complete_phase, json_option, run_argument, run_dir_of
from adw.cli.output import escaped, print_json, put, say

FOLLOW_S: Final = 0.2
_CHUNK: Final = 1 << 16

Log = tuple[str, str]
"""An attempt's child_id and the path of one of its logs."""


@click.command("logs")
@run_argument
@click.argument("phase", required=False, shell_complete=complete_phase)
@click.option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
@click.option("--attempt", type=click.IntRange(min=1), metavar="N", help="Only this attempt's.")
@json_option
def command(
    adw_id: str, phase: str | None, *, follow: bool, attempt: int | None, as_json: bool
) -> int:
    """Print what phases wrote, attempt by attempt, each attempt's stdout before its stderr.

    On a terminal control characters are escaped; into a pipe goes what is on disk.
    Of several logs each is headed by its name.
    """
    from adw.errors import UsageError

    if follow and as_json:
        raise UsageError(detail="`--follow` and `--json` exclude each other", fix=None)
    run_dir = run_dir_of(adw_id)
    found = _find(run_dir, phase, attempt)
    if not found and phase is not None:
        _check_phase(run_dir, phase)
        if attempt is not None:
            _check_attempt(run_dir, phase, attempt)
    if as_json:
        _print_json(os.path.basename(run_dir), found)
        return 0
    printer = Printer(headed=follow or len(found) > 1)
    printer.print(found)
    while follow and _lives(run_dir):
        time.sleep(FOLLOW_S)
        printer.print(_find(run_dir, phase, attempt))
    if follow:  # what came between the last look and the end
        printer.print(_find(run_dir, phase, attempt))
    printer.finish()
    if not printer.shown:
        say("nothing was written yet" if _lives(run_dir) else "nothing was written")
    return 0


def _find(run_dir: str, phase: str | None, attempt: int | None) -> list[Log]:
    from adw.app import reading

    logs = reading.logs(run_dir, phase, attempt)
    return [(child, path) for child, path in logs if os.path.getsize(path)]


def _lives(run_dir: str) -> bool:
    from adw.store.runs import alive

    return alive(run_dir)


def _check_phase(run_dir: str, phase: str) -> None:
    from adw.app import reading
    from adw.errors import UnknownName, suggestion

    known = [each["phase"] for each in reading.status(run_dir)["phases"]]
    if phase not in known:
        raise UnknownName(
            kind="phase", name=phase, suggestion=suggestion(phase, known), reason=None
        )


def _print_json(adw_id: str, found: list[Log]) -> None:
    logs = []
    for child, path in found:
        phase, _, number = child.rpartition("-")
        facts: dict[str, Any] = {"child_id": child, "phase": phase, "attempt": int(number)}
        stream = os.path.basename(path).removesuffix(".log")
        logs.append({**facts, "stream": stream, "path": path, "size_bytes": os.path.getsize(path)})
    print_json({"schema_version": 1, "adw_id": adw_id, "logs": logs})


@dataclass(slots=True)
class Printer:
    """Prints what is new in each log since the last look."""

    headed: bool
    """Name a log where its output begins or goes on."""
    shown: bool = False
    _offsets: dict[str, int] = field(default_factory=dict)
    _decoders: dict[str, codecs.IncrementalDecoder] = field(default_factory=dict)
    _last: str | None = None
    _at_line_start: bool = True

    def print(self, logs: list[Log]) -> None:
        """Print what is new."""
        for child, path in logs:
            for data in self._news(path):
                self._head(child, path)
                self._write(path, data)
        sys.stdout.flush()

    def finish(self) -> None:
        """Leave a terminal at the start of a line."""
        if sys.stdout.isatty() and not self._at_line_start:
            sys.stdout.write("\n")
            sys.stdout.flush()

    def _news(self, path: str) -> Iterator[bytes]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError:
            return
        try:
            size = os.fstat(fd).st_size
            if size < self._offsets.get(path, 0):  # its end was moved forward: it is over its cap
                self._offsets[path] = size
            while data := os.pread(fd, _CHUNK, self._offsets.get(path, 0)):
                self._offsets[path] = self._offsets.get(path, 0) + len(data)
                yield data
        finally:
            os.close(fd)

    def _head(self, child: str, path: str) -> None:
        if self.headed and self._last != path:
            start = "" if self._at_line_start else "\n"
            self._put(f"{start}==> {child} {os.path.basename(path)}\n".encode())
        self._last = path
        self.shown = True

    def _write(self, path: str, data: bytes) -> None:
        self._at_line_start = data.endswith(b"\n")
        if not sys.stdout.isatty():
            self._put(data)
            return
        decoder = self._decoders.setdefault(path, codecs.getincrementaldecoder("utf-8")("replace"))
        text = decoder.decode(data).replace("\r\n", "\n")
        put(escaped(text, keep="\n\t"))

    def _put(self, data: bytes) -> None:
        sys.stdout.flush()
        put(data)


def _check_attempt(run_dir: str, phase: str, attempt: int) -> None:
    """An attempt that was never made is not one that wrote nothing."""
    from adw.errors import UnknownName
    from adw.store import attempts

    split = [attempts.split(child) for child in attempts.child_ids(run_dir)]
    known = sorted(number for name, number in split if name == phase)
    if attempt not in known:
        made = ", ".join(map(str, known)) or "none"
        raise UnknownName(kind="attempt", name=attempt, suggestion=f"known: {made}", reason=None)
