"""A file system that forgets, for tests: `python -S -m tests.faults.forgetful FOLDER`, as root.

It keeps two images in memory: what processes see, and what is on its "disk". Only fsync moves
anything there: that of a file its content, that of a folder its own entries and no others'. So a
new file whose folder was never synced is gone after a cut, and a name that was synced before its
file leads to an empty one. No real disk keeps less.

A failed fsync drops what it was to write: processes still read it, no later fsync brings it to the
disk (fsync-gate), and what is appended behind it stands behind a hole of zeros. What was lost and
what was not is told apart by bytes, not by pages.

Words come in by lines of stdin, one JSON value a line goes out for each; the end of stdin unmounts:

- `cut`: from now on nothing reaches the disk, and each call is an I/O error;
- `cut-after N [CALL PART]`: the same after the N-th call from now that changes something, or the
  N-th CALL in a folder, or of a file, whose path has PART in it;
- `heal`: calls are answered again; nothing was lost by the cut;
- `mount`: mount afresh what is on the disk, nothing else;
- `fail N [PART]`: the N-th fsync from now of a file whose path has PART in it fails;
- `ignore WHAT`: take a sync for done and do nothing: of `files`, `folders`, or the folder
  with this path (`/`: of the root);
- `told`: `{"changes": calls that changed something since `cut-after` or the start, "syncs":
  [[path, descriptor] of each sync of a file since `fail` or the start], "failed": the one that failed, or null, "cut": last call or null}`.

Locks and FIFOs are left to the kernel. Source: the kernel's include/uapi/linux/fuse.h, protocol 7.31.
"""

import contextlib
import ctypes
import errno
import json
import os
import select
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

from tests.faults.forgetful_images import Images, Node, Refused

_MAX_WRITE: Final = 1 << 15
_BUFFER: Final = _MAX_WRITE + 4096
_MNT_DETACH: Final = 2
_BIG_WRITES: Final = 1 << 5


def _names(data: bytes) -> list[bytes]:
    return data.split(b"\0")[:-1]


class Calls:
    """What the kernel asks for, by the names of `enum fuse_opcode`."""

    def __init__(self, images: Images) -> None:
        self.images = images
        self._handle = 0

    def _entry(self, node: Node) -> bytes:
        return struct.pack("<4Q2I", node.ino, 0, 0, 0, 0, 0) + node.attr()

    def init(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Agree on a version."""
        ahead = struct.unpack_from("<I", data, 8)[0]
        head = struct.pack("<4I2H2I", 7, 31, ahead, _BIG_WRITES, 8, 6, _MAX_WRITE, 1)
        return head + bytes(36)

    def lookup(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """A name to a node."""
        return self._entry(self.images.found(node, _names(data)[0]))

    def getattr(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As stat(2)."""
        return struct.pack("<QII", 0, 0, 0) + node.attr()

    def setattr(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Change mode, owner, size or times."""
        valid, _, _, size, _, *times = struct.unpack_from("<IIQQQQQQIII", data)
        mode, _, uid, gid = struct.unpack_from("<4I", data, 68)
        if valid & 1:
            node.mode = stat.S_IFMT(node.mode) | stat.S_IMODE(mode)
        node.owner = (uid if valid & 2 else node.owner[0], gid if valid & 4 else node.owner[1])
        if valid & 8:
            node.resize(size)
        now = time.time_ns()
        if valid & 16:
            node.atime = now if valid & 128 else times[0] * 10**9 + times[3]
        if valid & 32:
            node.mtime = now if valid & 256 else times[1] * 10**9 + times[4]
        node.ctime = now
        return self.getattr(node, owner, b"")

    def readlink(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Where a symbolic link leads."""
        return bytes(node.data)

    def symlink(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Make one; its text is with its name."""
        name, target = _names(data)
        made = self.images.add(node, name, stat.S_IFLNK | 0o777, owner)
        made.write(0, target)
        made.sync()
        return self._entry(made)

    def mknod(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Make a FIFO or a file."""
        mode, rdev = struct.unpack_from("<II", data)
        made = self.images.add(node, _names(data[16:])[0], mode, owner)
        made.rdev = rdev
        return self._entry(made)

    def mkdir(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Make a folder."""
        mode = stat.S_IFDIR | struct.unpack_from("<I", data)[0]
        return self._entry(self.images.add(node, _names(data[8:])[0], mode, owner))

    def unlink(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Take a name away."""
        name = _names(data)[0]
        self.images.found(node, name)
        self.images.drop(node, name)
        return b""

    def rmdir(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Take the name of an empty folder away."""
        name = _names(data)[0]
        if self.images.found(node, name).entries:
            raise Refused(errno.ENOTEMPTY)
        self.images.drop(node, name)
        return b""

    def rename(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As rename(2)."""
        return self._renamed(node, data, 8, 0)

    def rename2(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As renameat2(2)."""
        return self._renamed(node, data, 16, struct.unpack_from("<I", data, 8)[0])

    def _renamed(self, node: Node, data: bytes, head: int, flags: int) -> bytes:
        target = self.images.nodes[struct.unpack_from("<Q", data)[0]]
        old, new = _names(data[head:])
        self.images.rename((node, old), (target, new), flags)
        return b""

    def link(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As link(2)."""
        old, name = self.images.nodes[struct.unpack_from("<Q", data)[0]], _names(data[8:])[0]
        if name in node.entries:
            raise Refused(errno.EEXIST)
        old.links += 1
        node.entries[name] = old
        node.touch()
        old.ctime = node.ctime
        return self._entry(old)

    def open(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """A handle of its own for each descriptor, only to tell syncs apart."""
        self._handle += 1
        return struct.pack("<QQ", self._handle, 0)

    opendir = open  # noqa: A003 - a name of the protocol

    def create(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Make a file and open it."""
        mode = stat.S_IFREG | stat.S_IMODE(struct.unpack_from("<4xI", data)[0])
        made = self.images.add(node, _names(data[16:])[0], mode, owner)
        return self._entry(made) + self.open(made, owner, b"")

    def read(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As pread(2)."""
        offset, size = struct.unpack_from("<8xQI", data)
        return bytes(node.data[offset : offset + size])

    def write(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As pwrite(2)."""
        offset, size = struct.unpack_from("<8xQI", data)
        node.write(offset, data[40 : 40 + size])
        return struct.pack("<II", size, 0)

    def statfs(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Much room."""
        room = 1 << 20
        return struct.pack("<5Q4I", room, room, room, room, room, 4096, 255, 4096, 0) + bytes(24)

    def fsync(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """As fsync(2) and fdatasync(2)."""
        self.images.sync(node, struct.unpack_from("<Q", data)[0])
        return b""

    fsyncdir = fsync

    def readdir(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Entries from an offset on, as many as there is room for."""
        offset, size = struct.unpack_from("<8xQI", data)
        found = b""
        for number, (name, each) in enumerate(list(node.entries.items())[offset:], offset + 1):
            one = struct.pack("<QQII", each.ino, number, len(name), each.mode >> 12) + name
            one += bytes(-len(one) % 8)
            if len(found) + len(one) > size:
                break
            found += one
        return found

    def flush(self, node: Node, owner: tuple[int, int], data: bytes) -> bytes:
        """Nothing happens when a descriptor is closed."""
        return b""

    release = releasedir = flush


_NAMES: Final = {
    1: "lookup", 3: "getattr", 4: "setattr", 5: "readlink", 6: "symlink", 8: "mknod", 9: "mkdir",
    10: "unlink", 11: "rmdir", 12: "rename", 13: "link", 14: "open", 15: "read", 16: "write",
    17: "statfs", 18: "release", 20: "fsync", 25: "flush", 26: "init", 27: "opendir",
    28: "readdir", 29: "releasedir", 30: "fsyncdir", 35: "create", 45: "rename2",
}  # fmt: skip
_CHANGES: Final = frozenset(
    {
        "setattr", "symlink", "mknod", "mkdir", "unlink", "rmdir", "rename", "link", "write",
        "fsync", "fsyncdir", "create", "rename2",
    }
)  # fmt: skip
_SILENT: Final = frozenset({2, 36, 42})  # forget, interrupt, batch_forget: no answer is expected


class Server:
    """The mount, and whoever gives words."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._fd = -1
        self.images = Images()
        self._calls = Calls(self.images)

    def mount(self) -> None:
        """Mount; what was mounted before is cut off from whoever still has it open."""
        self.unmount()
        self._fd = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self._fd},rootmode=40700,user_id={os.getuid()},group_id={os.getgid()},"
        options += "default_permissions,allow_other"
        words = [each.encode() for each in ("forgetful", self._folder, "fuse.forgetful")]
        self._checked(self._libc.mount(*words, 0, options.encode()))

    def unmount(self) -> None:
        """Take the mount away, whoever is still there."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            self._checked(self._libc.umount2(self._folder.encode(), _MNT_DETACH))

    @staticmethod
    def _checked(result: int) -> None:
        if result != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))

    def serve(self) -> None:
        """Answer until stdin ends."""
        for word in self._words():
            print(json.dumps(self._do(*word.split())), flush=True)

    def _words(self) -> Iterator[str]:
        rest = b""
        while True:
            ready, _, _ = select.select([0, self._fd], [], [])
            if self._fd in ready:
                self._answer()
            if 0 in ready:
                chunk = os.read(0, 4096)
                if not chunk:
                    return
                *lines, rest = (rest + chunk).split(b"\n")
                yield from (line.decode() for line in lines)

    def _do(self, word: str, *more: str) -> Any:
        images = self.images
        if word == "cut":
            images.cut = images.cut or "asked"
        elif word == "cut-after":
            images.changes, images.cut_after, images.cut_at = 0, int(more[0]), more[1:]
        elif word == "heal":
            images.cut = images.cut_after = None
        elif word == "mount":
            images.afresh()
            self.mount()
        elif word == "fail":
            images.syncs, images.failed = [], None
            images.fail = (int(more[0]), more[1] if more[1:] else "")
        elif word == "ignore":
            images.ignored.add(more[0])
        known = {"changes": images.changes, "syncs": images.syncs}
        return {**known, "failed": images.failed, "cut": images.cut}

    def _answer(self) -> None:
        try:
            request = os.read(self._fd, _BUFFER)
        except OSError as error:
            if error.errno in {errno.ENOENT, errno.EINTR, errno.EAGAIN}:
                return
            raise
        length, opcode, unique, nodeid, uid, gid = struct.unpack_from("<IIQQII", request)
        if opcode in _SILENT:
            return
        code, answer = 0, b""
        try:
            answer = self._call(opcode, nodeid, (uid, gid), request[40:length])
        except Refused as refused:
            code = refused.code
        head = struct.pack("<IiQ", 16 + len(answer), -code, unique)
        with contextlib.suppress(FileNotFoundError):  # whoever asked is dead
            os.write(self._fd, head + answer)

    def _call(self, opcode: int, nodeid: int, owner: tuple[int, int], data: bytes) -> bytes:
        name = _NAMES.get(opcode)
        if name is None:
            raise Refused(errno.ENOSYS)
        images = self.images
        if images.cut is not None and name not in {"init", "flush", "release", "releasedir"}:
            raise Refused(errno.EIO)
        node = images.nodes.get(nodeid, images.root)
        call: Callable[[Node, tuple[int, int], bytes], bytes] = getattr(self._calls, name)
        try:
            return call(node, owner, data)
        finally:
            if name in _CHANGES:
                images.changed(name, node.path())


def main() -> None:
    """Mount, say so, serve, unmount."""
    server = Server(sys.argv[1])
    server.mount()
    try:
        print("{}", flush=True)
        server.serve()
    finally:
        server.unmount()


if __name__ == "__main__":
    main()
