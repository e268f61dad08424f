"""The two images of `tests/faults/forgetful.py`: what processes see, and what is on the disk."""

import errno
import os
import stat
import struct
import time
from typing import Final

_NOREPLACE: Final = 1
_TRIES_S: Final = 0.1  # a disk does not give up at once
ROOT: Final = 1
"""Number of the root's node."""


class Refused(Exception):
    """A call ends with this errno."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Node:
    """A file, folder, symbolic link or FIFO; `on_disk…` is what a cut leaves of it."""

    def __init__(self, ino: int, mode: int, owner: tuple[int, int]) -> None:
        self.ino, self.mode, self.owner = ino, mode, owner
        self.links = 2 if stat.S_ISDIR(mode) else 1
        self.rdev = 0
        self.atime = self.mtime = self.ctime = time.time_ns()
        self.data = bytearray()
        self.entries: dict[bytes, Node] = {}
        self.parent: Node | None = None
        self.name = b""
        self.unsynced: list[tuple[int, bytes | None]] = []
        """Writes at an offset, or with None the cutting to a size, in their order."""
        self.on_disk = bytearray()
        self.entries_on_disk: dict[bytes, Node] = {}
        self.mode_on_disk = mode

    def path(self) -> str:
        """From the root of the mount, where it was last seen."""
        parts, at = [], self
        while at.parent is not None:
            parts.append(at.name)
            at = at.parent
        return "/" + os.fsdecode(b"/".join(reversed(parts)))

    def touch(self) -> None:
        """Its content changed."""
        self.mtime = self.ctime = time.time_ns()

    def write(self, offset: int, data: bytes) -> None:
        """Write for those who look; for the disk it is only noted."""
        _put(self.data, offset, data)
        self.unsynced.append((offset, data))
        self.touch()

    def resize(self, size: int) -> None:
        """Cut off or fill up with zeros."""
        _cut(self.data, size)
        self.unsynced.append((size, None))
        self.touch()

    def sync(self) -> None:
        """Bring to the disk what was not yet tried to bring there."""
        self.mode_on_disk = self.mode
        if stat.S_ISDIR(self.mode):
            self.entries_on_disk = dict(self.entries)
        for offset, data in self.unsynced:
            if data is None:
                _cut(self.on_disk, offset)
            else:
                _put(self.on_disk, offset, data)
        self.unsynced.clear()

    def attr(self) -> bytes:
        """As `struct fuse_attr`."""
        size = len(self.data)
        times = [divmod(each, 10**9) for each in (self.atime, self.mtime, self.ctime)]
        return struct.pack(
            "<6Q10I", self.ino, size, -(-size // 512), *(each[0] for each in times),
            *(each[1] for each in times), self.mode, self.links, *self.owner, self.rdev, 4096, 0,
        )  # fmt: skip


def _put(image: bytearray, offset: int, data: bytes) -> None:
    if len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(data)] = data


def _cut(image: bytearray, size: int) -> None:
    del image[size:]
    image.extend(bytes(size - len(image)))


class Images:
    """Both images, and what was asked for: cuts, failures, ignored syncs."""

    def __init__(self) -> None:
        self._last = ROOT - 1
        self.root = self._new(stat.S_IFDIR | 0o700, (os.getuid(), os.getgid()))
        self.nodes = {ROOT: self.root}
        self.changes = 0
        self.cut_after: int | None = None
        self.cut_at: tuple[str, ...] = ()
        self.cut: str | None = None
        self.syncs: list[tuple[str, int]] = []
        self.fail: tuple[int, str] | None = None
        self.failed: tuple[str, int] | None = None
        self.ignored: set[str] = set()

    def _new(self, mode: int, owner: tuple[int, int]) -> Node:
        self._last += 1
        return Node(self._last, mode, owner)

    def afresh(self) -> None:
        """Let what processes see be what is on the disk."""
        seen: dict[int, Node] = {}

        def copy(old: Node) -> Node:
            if old.ino in seen:
                return seen[old.ino]
            new = seen[old.ino] = self._new(old.mode_on_disk, old.owner)
            new.rdev, new.links = old.rdev, 0
            new.data, new.on_disk = bytearray(old.on_disk), bytearray(old.on_disk)
            for name, each in old.entries_on_disk.items():
                child = copy(each)
                child.links += 1
                child.parent, child.name = new, name
                new.entries[name] = child
            new.links += stat.S_ISDIR(new.mode)
            new.entries_on_disk = dict(new.entries)
            self.nodes[new.ino] = new
            return new

        self.nodes.clear()
        self.root = copy(self.root)
        self.root.ino = ROOT
        self.nodes[ROOT] = self.root
        self.cut = self.cut_after = self.fail = None

    def add(self, parent: Node, name: bytes, mode: int, owner: tuple[int, int]) -> Node:
        """Make something new."""
        if name in parent.entries:
            raise Refused(errno.EEXIST)
        node = self._new(mode, owner)
        self.nodes[node.ino] = node
        self.enter(parent, name, node)
        return node

    def enter(self, parent: Node, name: bytes, node: Node) -> None:
        """Give a node a name, and nobody's else."""
        parent.entries[name] = node
        node.parent, node.name = parent, name
        node.ctime = time.time_ns()
        parent.touch()

    def found(self, parent: Node, name: bytes) -> Node:
        """The node with a name."""
        if name not in parent.entries:
            raise Refused(errno.ENOENT)
        return parent.entries[name]

    def drop(self, parent: Node, name: bytes) -> None:
        """Take a name away."""
        node = parent.entries.pop(name)
        node.links -= 1
        node.ctime = time.time_ns()
        parent.touch()

    def rename(self, old: tuple[Node, bytes], new: tuple[Node, bytes], flags: int) -> None:
        """As renameat2(2), without exchanges."""
        node = self.found(*old)
        there = new[0].entries.get(new[1])
        if flags & ~_NOREPLACE:
            raise Refused(errno.EINVAL)
        if there is not None and flags & _NOREPLACE:
            raise Refused(errno.EEXIST)
        if there is node:
            return
        if there is not None:
            if there.entries:
                raise Refused(errno.ENOTEMPTY)
            self.drop(*new)
        self.drop(*old)
        node.links += 1
        self.enter(*new, node)

    def sync(self, node: Node, handle: int) -> None:
        """As fsync(2) by a descriptor; fails where that was asked for."""
        path = node.path()
        if stat.S_ISDIR(node.mode):
            if not self.ignored & {"folders", path}:
                node.sync()
            return
        self.syncs.append((path, handle))
        if self.fail is not None and self.fail[1] in path:
            self.fail = (self.fail[0] - 1, self.fail[1])
            if self.fail[0] == 0:
                self.fail, self.failed = None, (path, handle)
                node.unsynced.clear()
                time.sleep(_TRIES_S)
                raise Refused(errno.EIO)
        if "files" not in self.ignored:
            node.sync()

    def changed(self, call: str, path: str) -> None:
        """Count a call; cut where it was the last."""
        if not self.cut_at or (call == self.cut_at[0] and self.cut_at[1] in path):
            self.changes += 1
            if self.changes == self.cut_after:
                self.cut = f"{call} {path}"
