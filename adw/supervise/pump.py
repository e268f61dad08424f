"""A body's output: secrets blotted out, the beginning and the end kept, memory flat.

A log that grew over `head + 2 * tail` bytes reads

    first `head` bytes | a line that says how many bytes were left out | the end, `tail` or more

The end is moved forward in the file whenever it has doubled, so a reader sees current output all
the time, the file stays below `head + 2 * tail` and a little, and a flood is written twice at
most. A log that cannot be written (full disk) never stops the body: its output is read and
dropped, and `error` says so.
"""

import binascii
import os
from typing import Final

from adw.store import files

BLOT: Final = b"[redacted]"
CHUNK: Final = 1 << 16
_MARK_BYTES: Final = 64
_ENCODED_FROM: Final = 6  # bytes; shorter secrets would blot out innocent text when encoded


class Redactor:
    """Replaces secrets in a stream that arrives in pieces cut anywhere."""

    __slots__ = ("_forms", "_held", "_longest")

    def __init__(self, secrets: tuple[str, ...]) -> None:
        found = {form for secret in secrets for form in forms(secret)}
        self._forms = sorted(found, key=len, reverse=True)
        self._longest = len(self._forms[0]) if self._forms else 0
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Take a piece; returns what can be shown now: all but what may begin a secret."""
        if not self._forms:
            return data
        data = self._held + data
        cut = self._cut(data)
        self._held = data[cut:]
        shown = data[:cut]
        for form in self._forms:
            shown = shown.replace(form, BLOT)
        return shown

    def rest(self) -> bytes:
        """What is still held back when the stream has ended."""
        held, self._held = self._held, b""
        for form in self._forms:
            held = held.replace(form, BLOT)
        return held

    def _cut(self, data: bytes) -> int:
        """Where the earliest possible beginning of a secret at the end of `data` starts."""
        cut = len(data)
        for form in self._forms:
            at = data.find(form[:1], max(0, len(data) - len(form) + 1))
            while 0 <= at < cut:
                if form.startswith(data[at:]):
                    cut = at
                at = data.find(form[:1], at + 1)
        # A whole secret that lies across the cut is shown, blotted, at once.
        moved = cut < len(data)
        while moved:
            moved = False
            for form in self._forms:
                at = data.find(form, max(0, cut - len(form) + 1), cut + len(form) - 1)
                if 0 <= at < cut < at + len(form):
                    cut, moved = at + len(form), True
        return cut


class CappedLog:
    """One log file, made when its first byte comes."""

    __slots__ = ("_fd", "_head", "_left_out", "_path", "_redactor", "_size", "_tail", "error")

    def __init__(self, path: str, head: int, tail: int, secrets: tuple[str, ...]) -> None:
        self._path = path
        self._head = head
        self._tail = tail
        self._redactor = Redactor(secrets)
        self._fd = -1
        self._size = 0
        self._left_out = 0
        self.error: str | None = None

    def write(self, data: bytes) -> None:
        """Take a piece of output; never raises for the disk's sake."""
        self._store(self._redactor.feed(data))

    def finish(self, *, sync: bool = True) -> bool:
        """Write what was held back, cut the file to its cap, sync and close it.

        Returns:
            Whether there is such a file.
        """
        self._store(self._redactor.rest())
        if self._fd < 0:
            return False
        try:
            if self._size - self._start() > self._tail + _MARK_BYTES:
                self._drop()
            if sync:
                files.sync_fd(self._fd)
        except OSError as error:
            self._fail(error)
        os.close(self._fd)
        self._fd = -1
        return True

    def _store(self, data: bytes) -> None:
        if not data or self.error:
            return
        try:
            if self._fd < 0:
                self._fd = files.open_log(self._path)
            files.write_at(self._fd, data, self._size)
            self._size += len(data)
            if self._size - self._start() > 2 * self._tail + CHUNK:
                self._drop()
        except OSError as error:
            self._fail(error)

    def _start(self) -> int:
        return self._head + (_MARK_BYTES if self._left_out else 0)

    def _drop(self) -> None:
        """Move the last `tail` bytes up to the mark and cut the file behind them."""
        source, start = self._size - self._tail, self._start()
        self._left_out += source - start
        target = self._head + _MARK_BYTES
        text = f"\n[adw: {self._left_out} bytes left out here]"
        files.write_at(self._fd, text.ljust(_MARK_BYTES - 1).encode() + b"\n", self._head)
        while source < self._size:
            piece = os.pread(self._fd, CHUNK, source)
            if not piece:
                break
            files.write_at(self._fd, piece, target)
            source, target = source + len(piece), target + len(piece)
        files.truncate(self._fd, target)
        self._size = target

    def _fail(self, error: OSError) -> None:
        self.error = f"`{os.path.basename(self._path)}`: {error.strerror}"


def forms(secret: str) -> set[bytes]:
    """A secret as it may appear: plain, hex, base64 at any alignment, url-encoded."""
    plain = os.fsencode(secret)
    if len(plain) < _ENCODED_FROM:
        return {plain} - {b""}
    found = {plain, binascii.hexlify(plain), binascii.hexlify(plain).upper()}
    for shift, lead in ((0, 0), (1, 2), (2, 3)):
        coded = binascii.b2a_base64(b"\0" * shift + plain, newline=False).rstrip(b"=")
        # The first and last character of a shifted piece hold bits of its neighbours.
        whole = coded[lead:] if (shift + len(plain)) % 3 == 0 else coded[lead:-1]
        found.add(whole)
        found.add(whole.replace(b"+", b"-").replace(b"/", b"_"))
    kept = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-~"
    for safe in (kept, kept + b"/"):
        found.add(b"".join(bytes((c,)) if c in safe else b"%%%02X" % c for c in plain))
    return found
