"""What a run keeps on disk against its limit: watched while a phase runs, measured at its end.

A walk of a tree costs microseconds a file, statvfs(2) microseconds in all. So each look asks how
much is free; where that fell by more than the run may still grow, a walk follows at once, for a
program that fills a disk does so in seconds. Otherwise a walk is made now and then, the rarer the
dearer it is, in slices with long rests between, so that a tree of any size costs some hundredths of
a processor at most and output is read meanwhile.

Counted is what is allocated, a file with several names once, and nothing outside of the roots. What
is deleted and still open is not found.
"""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

_LOOK_S: Final = 0.5
_FIRST_WALK_S: Final = 1.0
_WALK_S: Final = 10.0
_REST_A_WALK: Final = 100  # times what a walk took of the processor
_HURRY_A_WALK: Final = 10  # the same, where the disk is filled by whomever
_SLICE_S: Final = 0.01
_REST_A_SLICE: Final = 20  # times what a slice took
_ENTRIES_A_STEP: Final = 256
_SHOWN: Final = 80  # characters of a name
_DEPTH: Final = 2  # names that tell where most of it is
_BLOCK: Final = 512  # bytes, whatever the file system's own unit is; stat(2)
_RESERVE: Final = 100 << 20
_RESERVE_PART: Final = 50  # of a smaller disk
_UNITS: Final = "KMGT"
_STEP: Final = 1024

Place = tuple[str, tuple[str, ...]]
"""A root's words, and the first names below it."""


class Gauge:
    """Looks at what lies below the roots; a new one for each attempt.

    Args:
        limit: Bytes that may lie there.
        reserve: Bytes that stay free on each disk that they are on; None: as `reserve_bytes`.
        roots: What each is called, and its absolute path; one may lie within another.
    """

    def __init__(self, limit: int, reserve: int | None, roots: Sequence[Sequence[str]]) -> None:
        self._limit = limit
        self._reserve = reserve
        self._roots = [(words, path) for words, path in roots]
        self._free = _free([path for _, path in self._roots])
        """Of each disk, when the latest finished walk began."""
        self._used = 0
        """By the latest finished walk."""
        self._steps: Iterator[None] | None = None
        self._begun_with = self._free
        self._found = 0
        self._parts: dict[Place, int] = {}
        self._cost_s = 0.0
        now = time.monotonic()
        self._walk_at = now + _FIRST_WALK_S
        self._hurry_at = now
        self.next_at = now + _LOOK_S
        """When `look` is to be called next, by time.monotonic."""

    def look(self) -> str | None:
        """Look, for some milliseconds at most; returns why the phase must end, if it must."""
        now = time.monotonic()
        free = _free([path for _, path in self._roots])
        if low := self._low(free):
            return low
        fell = sum(
            max(0, was - free.get(path, (was, 0))[0]) for path, (was, _) in self._free.items()
        )
        hurry = self._found > self._limit
        hurry = hurry or (fell > self._limit - self._used and now >= self._hurry_at)
        if self._steps is None and (hurry or now >= self._walk_at):
            self._begin(free)
        if self._steps is None:
            self.next_at = now + _LOOK_S
            return None
        done = self._go_on()
        after = time.monotonic()
        rest = 0.0 if hurry else min(_LOOK_S, (after - now) * _REST_A_SLICE)
        self.next_at = after + (_LOOK_S if done else rest)
        return self._over() if done else None

    def measure(self, given_up: Callable[[], bool]) -> str | None:
        """Walk to the end; returns why the phase has failed, if it has.

        Args:
            given_up: Called after each slice: whether nobody wants to know any more.
        """
        self._begin(_free([path for _, path in self._roots]))
        while not (done := self._go_on()):
            if given_up():
                break
        return self._over() if done else None

    # --- walking -----------------------------------------------------------------------------

    def _begin(self, free: Mapping[str, tuple[int, int]]) -> None:
        self._begun_with = dict(free)
        self._found, self._parts, self._cost_s = 0, {}, 0.0
        self._steps = self._walk()

    def _go_on(self) -> bool:
        """One slice; returns whether the walk is at its end."""
        assert self._steps is not None
        begun, until = time.thread_time(), time.monotonic() + _SLICE_S
        for _ in self._steps:
            if time.monotonic() >= until:
                break
        else:
            self._steps = None
        self._cost_s += time.thread_time() - begun
        if self._steps is not None:
            return False
        self._used, self._free, self._found = self._found, self._begun_with, 0
        now = time.monotonic()
        self._walk_at = now + max(_WALK_S, _REST_A_WALK * self._cost_s)
        self._hurry_at = now + _HURRY_A_WALK * self._cost_s
        return True

    def _walk(self) -> Iterator[None]:
        """Add up what lies below the roots; a step is a folder, or a part of a large one."""
        inside = {_identity(path) for _, path in self._roots}
        seen: set[tuple[int, int]] = set()
        for words, root in self._roots:
            todo: list[tuple[str, tuple[str, ...]]] = [(root, ())]
            while todo:
                path, names = todo.pop()
                place = words, names
                for count, entry in enumerate(_entries(path)):
                    if count % _ENTRIES_A_STEP == _ENTRIES_A_STEP - 1:
                        yield
                    try:
                        found = entry.stat(follow_symlinks=False)
                        folder = entry.is_dir(follow_symlinks=False)
                    except OSError:  # gone meanwhile
                        continue
                    who = found.st_dev, found.st_ino
                    if folder:
                        if who not in inside:
                            deeper = names if len(names) == _DEPTH else (*names, entry.name)
                            todo.append((entry.path, deeper))
                    elif found.st_nlink > 1:
                        if who in seen:
                            continue
                        seen.add(who)
                    size = found.st_blocks * _BLOCK
                    self._found += size
                    self._parts[place] = self._parts.get(place, 0) + size
                yield

    # --- words -------------------------------------------------------------------------------

    def _low(self, free: Mapping[str, tuple[int, int]]) -> str | None:
        for path, (left, total) in free.items():
            kept = reserve_bytes(self._reserve, total)
            if left < kept:
                return (
                    f"{size_words(left)} are free on the disk of `{path}`, and"
                    f" {size_words(kept)} are to stay free; `adw gc` removes runs that are over"
                )
        return None

    def _over(self) -> str | None:
        if self._used <= self._limit:
            return None
        size, words, names = _most(self._parts)
        where = f"`{'/'.join(map(_plain, names))}` in {words}" if names else f"{words} itself"
        return (
            f"the run keeps {size_words(self._used)} on disk, `disk` allows"
            f" {size_words(self._limit)}; {size_words(size)} of it are in {where};"
            " remove what is not needed, or raise `disk`"
        )


def _plain(name: str) -> str:
    """A file's name on one line, not too long."""
    text = "".join(c if c.isprintable() else "?" for c in name)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def _entries(path: str) -> Iterator["os.DirEntry[str]"]:
    """What lies in a folder, as far as it can be read."""
    try:
        with os.scandir(path) as found:
            yield from found
    except OSError:
        return


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _most(parts: Mapping[Place, int]) -> tuple[int, str, tuple[str, ...]]:
    """The first name below a root with most in it; the second where that has more than half."""
    first: dict[Place, int] = {}
    for (words, names), size in parts.items():
        place = words, names[:1]
        first[place] = first.get(place, 0) + size
    size, (words, names) = max((size, place) for place, size in first.items())
    within = [
        (part, place[1])
        for place, part in parts.items()
        if place[0] == words and place[1][:1] == names and len(place[1]) == _DEPTH
    ]
    deeper, deeper_names = max(within, default=(0, ()))
    return (deeper, words, deeper_names) if deeper * 2 > size else (size, words, names)


def _free(paths: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Free and total bytes of each disk that has one of the paths, by the first of them."""
    found: dict[str, tuple[int, int]] = {}
    disks = set()
    for path in paths:
        try:
            disk, seen = os.stat(path).st_dev, os.statvfs(path)
        except OSError:
            continue
        if disk not in disks and seen.f_blocks:
            disks.add(disk)
            found[path] = seen.f_bavail * seen.f_frsize, seen.f_blocks * seen.f_frsize
    return found


def reserve_bytes(setting: int | None, total: int) -> int:
    """What stays free of a disk: what is set; else 100 MiB, or a fiftieth of a smaller disk."""
    return min(_RESERVE, total // _RESERVE_PART) if setting is None else setting


def shortage(paths: Sequence[str], setting: int | None) -> tuple[str, int, int] | None:
    """The first path whose disk has less free than its reserve: path, free bytes, reserve."""
    for path, (free, total) in _free(paths).items():
        reserve = reserve_bytes(setting, total)
        if free < reserve:
            return path, free, reserve
    return None


def size_words(size: int) -> str:
    """A number of bytes as people write it, such as `1.5G`."""
    if size < _STEP:
        return f"{size} bytes"
    power = min((size.bit_length() - 1) // 10, len(_UNITS))
    text = f"{size / _STEP**power:.1f}".removesuffix(".0")
    return f"{text}{_UNITS[power - 1]}"
