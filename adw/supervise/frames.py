"""Messages between orchestrator, nursery and supervisors: JSON with a length, descriptors beside it.

    frame = length (4 bytes, big endian) + JSON object in UTF-8

A descriptor travels as SCM_RIGHTS with the first byte of its frame and is received close-on-exec:
without that flag the body would inherit the attempt's lock. The other end's death, orderly or not,
is always None from `receive` and `take`, never an exception.

Source: unix(7), recvmsg(2).
"""

import json
import socket
import struct
from typing import Any, Final

Frame = dict[str, Any]

LONGEST_MS: Final = 2**31 - 1
"""Longest sleep of one poll(2), about 24 days; whoever means more polls again."""

_HEAD: Final = struct.Struct("!I")
_FD: Final = struct.Struct("i")
_LIMIT: Final = 64 << 20  # bytes of one frame; a spec is some kilobytes
_CHUNK: Final = 1 << 16
_ANCILLARY: Final = socket.CMSG_SPACE(4 * _FD.size)


class Channel:
    """One end of a stream socket pair."""

    __slots__ = ("_buffer", "_fds", "eof", "socket")

    def __init__(self, fd: int) -> None:
        self.socket = socket.socket(fileno=fd)
        self.eof = False
        self._buffer = bytearray()
        self._fds: list[int] = []

    def fileno(self) -> int:
        """The descriptor, for poll(2)."""
        return self.socket.fileno()

    def send(self, message: Frame, fd: int | None = None) -> bool:
        """Send a frame, and a descriptor with it.

        Args:
            message: A JSON object.
            fd: Copied to the other process; the caller's own stays open.

        Returns:
            False where the other end is gone.
        """
        data = json.dumps(message, separators=(",", ":")).encode()
        data = _HEAD.pack(len(data)) + data
        rights = [] if fd is None else [(socket.SOL_SOCKET, socket.SCM_RIGHTS, _FD.pack(fd))]
        try:
            sent = self.socket.sendmsg([data], rights)
            if sent < len(data):
                self.socket.sendall(memoryview(data)[sent:])
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def fill(self) -> None:
        """Read what has arrived, at least one byte; sets `eof` where the other end is gone."""
        try:
            data, rights, _, _ = self.socket.recvmsg(_CHUNK, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:
            data, rights = b"", []
        for level, kind, packed in rights:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                whole = len(packed) - len(packed) % _FD.size
                self._fds.extend(fd for (fd,) in _FD.iter_unpack(packed[:whole]))
        if not data:
            self.eof = True
        self._buffer += data

    def take(self) -> Frame | None:
        """The next whole frame that has arrived, or None."""
        if len(self._buffer) < _HEAD.size:
            return None
        (length,) = _HEAD.unpack_from(self._buffer)
        if length > _LIMIT:
            self.eof = True
            return None
        end = _HEAD.size + length
        if len(self._buffer) < end:
            return None
        frame: Frame = json.loads(bytes(self._buffer[_HEAD.size : end]))
        del self._buffer[:end]
        return frame

    def take_fd(self) -> int | None:
        """The oldest descriptor that came and was not taken; the caller closes it."""
        return self._fds.pop(0) if self._fds else None

    def receive(self) -> Frame | None:
        """Block for the next frame; None where the other end is gone.

        Raises:
            TimeoutError: The socket has a timeout and it is over.
        """
        while True:
            frame = self.take()
            if frame is not None or self.eof:
                return frame
            self.fill()

    def close(self) -> None:
        """Close the socket, and descriptors that nobody took."""
        self.socket.close()
        while self._fds:
            import os

            os.close(self._fds.pop())
