"""What a real run does to a folder, call by call, in the order of a trace of all its processes.

Source: strace(1): `-y` prints the path behind each descriptor, `-xx` all strings in hexadecimal, so
that no name or content can be mistaken for the form of a line.
"""

import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_CALLS: Final = (
    "openat", "creat", "write", "pwrite64", "rename", "renameat", "renameat2", "link", "linkat",
    "unlink", "unlinkat", "mkdir", "mkdirat", "rmdir", "ftruncate", "fsync", "fdatasync", "mknod",
    "mknodat", "writev", "pwritev", "truncate", "symlink", "symlinkat", "copy_file_range",
    "sendfile",
)  # fmt: skip
_UNKNOWN: Final = frozenset(
    {"writev", "pwritev", "truncate", "symlink", "symlinkat", "copy_file_range", "sendfile"}
)
"""Calls that adw does not make in its folder; one that is seen there stops the recording."""

_LINE: Final = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)")
_BEGUN: Final = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_ENDED: Final = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)\) += (-?\d+)")
_STRING: Final = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_FD: Final = re.compile(r"^(\d+|AT_FDCWD)<((?:\\x[0-9a-f]{2})*)>(\(deleted\))?")


@dataclass(frozen=True, slots=True)
class Op:
    """One call that took hold."""

    call: str
    """make, dir, write, cut, rename, link, remove, sync, or begin (of a sync: see `Sync`)."""
    path: str
    target: str = ""
    """New name of a rename or link."""
    offset: int = -1
    """Of a write, or the size of a cut; -1: at the end."""
    data: bytes = b""
    number: int = 0
    """Pairs the begin of a sync with its end."""


class NotUnderstood(AssertionError):
    """A call that the recording cannot follow."""


def record(command: Sequence[str], trace: Path, cwd: Path, env: dict[str, str]) -> int:
    """Run a command with everything that it starts under strace; its exit code."""
    what = ["-e", f"trace={','.join(_CALLS)}", "-e", "signal=none"]
    words = ["strace", "-f", "-q", "-y", "-xx", "-s", "40000000", "-o", str(trace), *what]
    return subprocess.run([*words, *command], cwd=cwd, env=env, check=False).returncode


def operations(trace: Path, folders: Sequence[Path]) -> list[Op]:
    """What happened to and below these folders, and when the folders above them were synced."""
    below = tuple(f"{folder}/" for folder in folders)
    itself = {str(folder) for folder in folders}
    above = {str(folder.parent) for folder in folders}

    def inside(op: Op) -> bool:
        if op.call in {"begin", "sync"} and op.path in above:
            return True
        return any(path.startswith(below) or path in itself for path in (op.path, op.target))

    return [op for op in _all(trace) if inside(op)]


def _all(trace: Path) -> Iterator[Op]:
    begun: dict[str, tuple[str, int]] = {}
    for number, line in enumerate(trace.read_text("ascii").splitlines()):
        if match := _BEGUN.match(line):
            pid, call, words = match.groups()
            begun[pid] = (words, number)
            if call in {"fsync", "fdatasync"}:
                yield Op("begin", _path_of(words), number=number)
        elif match := _ENDED.match(line):
            pid, call, rest, result = match.groups()
            words, first = begun.pop(pid)
            yield from _op(call, words + rest, int(result), first)
        elif match := _LINE.match(line):
            _, call, words, result = match.groups()
            if call in {"fsync", "fdatasync"} and int(result) == 0:
                yield Op("begin", _path_of(words), number=number)
            yield from _op(call, words, int(result), number)


def _text(escaped: str) -> bytes:
    return bytes.fromhex(escaped.replace("\\x", ""))


def _path_of(words: str) -> str:
    """Path behind the descriptor that comes first; empty for what is no file."""
    found = _FD.match(words)
    return os.fsdecode(_text(found.group(2))) if found and not found.group(3) else ""


def _paths(words: str) -> list[str]:
    """All paths of a call, absolute."""
    found = []
    folder = ""
    for part in re.findall(r'(?:\d+|AT_FDCWD)<[^>]*>|"[^"]*"', words):
        if part.startswith('"'):
            text = os.fsdecode(_text(part[1:-1]))
            found.append(os.path.normpath(os.path.join(folder, text)))
        else:
            folder = _path_of(part)
    return found


def _op(call: str, words: str, result: int, number: int) -> Iterator[Op]:
    if result < 0:
        return
    if call in {"openat", "creat"}:
        if "O_CREAT" in words or "O_TRUNC" in words or call == "creat":
            path = os.path.normpath(_paths(words)[0])
            yield Op("make", path, offset=0 if "O_TRUNC" in words else -1)
    elif call in {"write", "pwrite64"}:
        if path := _path_of(words):
            data = _text(_STRING.findall(words)[0])[:result]
            offset = -1 if call == "write" else int(words.rsplit(",", 1)[1])
            yield Op("write", path, offset=offset, data=data)
    elif call in {"fsync", "fdatasync"}:
        yield Op("sync", _path_of(words), number=number)
    elif call == "ftruncate":
        yield Op("cut", _path_of(words), offset=int(words.rsplit(",", 1)[1]))
    elif call in _UNKNOWN:
        if path := _path_of(words) or _paths(words)[-1]:
            yield Op(f"unknown {call}", path)
    else:
        yield _named(call, words)


def _named(call: str, words: str) -> Op:
    paths = _paths(words)
    if call.startswith("rename"):
        return Op("rename", paths[0], target=paths[1])
    if call.startswith("link"):
        return Op("link", paths[0], target=paths[1])
    if call.startswith("unlink") or call == "rmdir":
        return Op("remove", paths[0])
    return Op("dir" if call.startswith("mkdir") else "make", paths[0])
