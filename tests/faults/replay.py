"""What a power cut may leave of recorded calls, by two models of a file system.

The weakest (`Disk`, `choices`):
fsync of a file keeps that file's content and size; fsync of a folder keeps that folder's entries.
Everything else may be there or not, each by itself: an entry that was made, renamed or removed;
a write, wholly, by half, as zeros, or not at all. A rename is one change, as POSIX has it.

The ordered one (`Ordered`, `prefixes`), as ext4 with its journal: changes are kept in their order,
the last one perhaps by half, and any sync keeps all changes before it. It is the kinder of the two:
what holds in the weakest model holds here.

Source: Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, the weakest of the
persistence models there; the kernel's Documentation/filesystems/ext4/journal.rst.
"""

import itertools
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tests.faults.recording import NotUnderstood, Op

HOW: Final = ("whole", "half", "zeros")
"""Ways in which a write that was not synced may be kept."""

Tree = dict[str, bytes | None]
"""What lies below the root: content of each file, None for a folder."""


@dataclass(slots=True)
class Inode:
    """A file or a folder: as it is, and as it surely is after a power cut."""

    folder: bool
    data: bytes = b""
    kept: bytes = b""
    entries: dict[str, int] = field(default_factory=dict)
    kept_entries: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that is not kept yet."""

    number: int
    inode: int = 0
    """Whose content it changes; 0: it changes entries."""
    offset: int = -1
    data: bytes | None = None
    """What was written; None: the size becomes `offset`."""
    entries: tuple[tuple[int, str, int], ...] = ()
    """Folder, name, and which inode has the name then; 0: none."""


class Disk:
    """A folder that calls are applied to; `after_cut` says what may be left of it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.inodes: dict[int, Inode] = {1: Inode(folder=True)}
        self.pending: list[Change] = []
        self._begun: dict[int, tuple[int, bytes, dict[str, int], int]] = {}
        self._count = 0

    # --- calls ---------------------------------------------------------------------------

    def apply(self, op: Op) -> None:
        """Take one call."""
        self._count += 1
        if op.call in {"make", "dir"}:
            self._make(op)
        elif op.call in {"write", "cut"}:
            self._write(op)
        elif op.call in {"rename", "link", "remove"}:
            self._named(op)
        elif op.call == "begin":
            self._begin(op)
        elif op.call == "sync":
            self._sync(op)
        else:
            raise NotUnderstood(f"{op.call} {op.path}")

    def find(self, path: str) -> int:
        """Number of the inode with this path; 0 where there is none."""
        number = 1
        inside = os.path.relpath(path, self.root)
        for name in [] if inside == "." else inside.split("/"):
            number = self.inodes[number].entries.get(name, 0)
            if not number:
                return 0
        return number

    def _place(self, path: str) -> tuple[int, str]:
        folder, name = os.path.split(path)
        number = self.find(folder)
        if not number:
            raise NotUnderstood(f"no folder for {path}")
        return number, name

    def _make(self, op: Op) -> None:
        known = self.find(op.path)
        if not known:
            number = max(self.inodes) + 1
            self.inodes[number] = Inode(folder=op.call == "dir")
            self._change_entries(((*self._place(op.path), number),))
        elif op.offset == 0:
            self._change_data(known, 0, None)

    def _write(self, op: Op) -> None:
        number = self.find(op.path)
        if number:  # else it was removed meanwhile: nobody will see it
            at_end = op.call == "write" and op.offset < 0
            offset = len(self.inodes[number].data) if at_end else op.offset
            self._change_data(number, offset, op.data if op.call == "write" else None)

    def _named(self, op: Op) -> None:
        folder, name = self._place(op.path)
        number = self.find(op.path)
        if op.call == "remove":
            self._change_entries(((folder, name, 0),))
        elif op.call == "link":
            self._change_entries(((*self._place(op.target), number),))
        elif number:
            self._change_entries(((folder, name, 0), (*self._place(op.target), number)))
        else:
            raise NotUnderstood(f"rename of {op.path}")

    def _change_data(self, number: int, offset: int, data: bytes | None) -> None:
        change = Change(self._count, number, offset, data)
        node = self.inodes[number]
        node.data = _written(node.data, change, "whole")
        self.pending.append(change)

    def _change_entries(self, entries: tuple[tuple[int, str, int], ...]) -> None:
        for folder, name, number in entries:
            _name(self.inodes[folder].entries, name, number)
        self.pending.append(Change(self._count, entries=entries))

    # --- what is kept --------------------------------------------------------------------

    def _begin(self, op: Op) -> None:
        number = self.find(op.path)
        if number:
            node = self.inodes[number]
            self._begun[op.number] = (number, node.data, dict(node.entries), self._count)

    def _sync(self, op: Op) -> None:
        if op.number not in self._begun:
            return
        number, data, entries, count = self._begun.pop(op.number)
        node = self.inodes[number]
        node.kept, node.kept_entries = data, entries
        left = []
        for change in self.pending:
            if change.number > count or not self._concerns(change, number):
                left.append(change)
                continue
            for folder, name, other in change.entries:
                if folder != number:
                    _name(self.inodes[folder].kept_entries, name, other)
        self.pending = left

    @staticmethod
    def _concerns(change: Change, number: int) -> bool:
        return change.inode == number or any(entry[0] == number for entry in change.entries)

    # --- what may be left ----------------------------------------------------------------

    def now(self) -> Tree:
        """All as it is for those who live."""
        return self._tree(
            {n: node.entries for n, node in self.inodes.items()},
            {n: node.data for n, node in self.inodes.items()},
        )

    def after_cut(self, chosen: Mapping[int, str]) -> Tree:
        """What a power cut leaves.

        Args:
            chosen: Places in `pending` of what came to be kept, and how.
        """
        entries = {n: dict(node.kept_entries) for n, node in self.inodes.items()}
        data = {n: node.kept for n, node in self.inodes.items()}
        for place in sorted(chosen):
            change = self.pending[place]
            if change.inode:
                data[change.inode] = _written(data[change.inode], change, chosen[place])
            for folder, name, number in change.entries:
                _name(entries[folder], name, number)
        return self._tree(entries, data)

    def _tree(self, entries: Mapping[int, dict[str, int]], data: Mapping[int, bytes]) -> Tree:
        found: Tree = {}
        todo = [("", 1)]
        while todo:
            path, number = todo.pop()
            for name, other in entries[number].items():
                inside = f"{path}{name}"
                folder = self.inodes[other].folder
                found[inside] = None if folder else data[other]
                if folder:
                    todo.append((f"{inside}/", other))
        return found


class Ordered(Disk):
    """A disk with a journal: any sync keeps all that was done before it."""

    def _sync(self, op: Op) -> None:
        if op.number not in self._begun:
            return
        *_, count = self._begun.pop(op.number)
        for change in self.pending:
            if change.number <= count:
                if change.inode:
                    node = self.inodes[change.inode]
                    node.kept = _written(node.kept, change, "whole")
                for folder, name, other in change.entries:
                    _name(self.inodes[folder].kept_entries, name, other)
        self.pending = [change for change in self.pending if change.number > count]


def _name(entries: dict[str, int], name: str, number: int) -> None:
    if number:
        entries[name] = number
    else:
        entries.pop(name, None)


def _written(old: bytes, change: Change, how: str) -> bytes:
    """Content after a write or cut that was kept in this way."""
    if change.data is None:
        return old[: change.offset].ljust(change.offset, b"\0")
    new = change.data
    if how == "half":
        new = new[: len(new) // 2]
    elif how == "zeros":
        new = bytes(len(new))
    start = old[: change.offset].ljust(change.offset, b"\0")
    return start + new + old[change.offset + len(new) :]


def choices(pending: Sequence[Change], rng: random.Random, most: int) -> Iterator[dict[int, str]]:
    """What may have been kept: all combinations where they are few, else telling ones.

    These are nothing, all, each prefix, all but one, one alone, the last write torn, and samples.

    Args:
        pending: Changes that are not kept yet.
        rng: For the order and the samples.
        most: So many at the most.
    """
    count = len(pending)
    ways = [("", *HOW) if change.data is not None else ("", "whole") for change in pending]
    if math.prod(map(len, ways)) <= most:
        for each in itertools.product(*ways):
            yield {place: how for place, how in enumerate(each) if how}
        return
    every = dict.fromkeys(range(count), "whole")
    yield {}
    yield every
    told: list[dict[int, str]] = [
        {**every, place: how}
        for place, change in enumerate(pending)
        if change.data is not None
        for how in HOW[1:]
    ]
    told += [{k: "whole" for k in range(count) if k != place} for place in range(count)]
    told += [{place: "whole"} for place in range(count)]
    told += [dict.fromkeys(range(end), "whole") for end in range(1, count)]
    for _ in range(most):
        share = rng.random()
        kept = [place for place in range(count) if rng.random() < share]
        told.append({place: rng.choice(HOW) if rng.random() < 0.2 else "whole" for place in kept})
    rng.shuffle(told)
    yield from told[: max(0, most - 2)]


def prefixes(pending: Sequence[Change]) -> Iterator[dict[int, str]]:
    """What may have been kept where changes are kept in their order; the last write perhaps torn."""
    yield {}
    for end, change in enumerate(pending):
        before = dict.fromkeys(range(end), "whole")
        for how in HOW if change.data is not None else ("whole",):
            yield {**before, end: how}
