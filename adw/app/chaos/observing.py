"""What a run of the copy left: named things with their content, in a form that can be compared.

A name is a kind, a colon and what it is of:

    phase:NAME     its status                   file:PATH      of the worktree, as far as changed
    output:NAME    what was handed over         commits:SUBJECT  how many on the run's branch
    pushes:REMOTE REF  how often it moved       outside:PATH   below the copy, not in the worktree
    effect:KEY     where its receipt stands

Instants, commit ids and the numbers of attempts differ from run to run by themselves and are
blotted out.
"""

import json
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from adw.app.chaos.copying import Copy
from adw.app.effecting import listed
from adw.app.reading import status
from adw.errors import AdwError
from adw.store import files
from adw.workspace.git import ask_git

LARGEST: Final = 1 << 22  # bytes of a file that is compared as text; of larger ones size and digest
_INSTANT: Final = re.compile(rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?")
_COMMIT: Final = re.compile(rb"(?<![0-9a-f])(?:[0-9a-f]{64}|[0-9a-f]{40})(?![0-9a-f])")
_UNSEEN: Final = ("home/.gitconfig", "home/.cache", "repo/.git", "repo/agents", "repo/trees")


@dataclass(frozen=True, slots=True)
class Observed:
    """What there is at the end of a run."""

    status: str
    """Of the run; `none` where there is no run, `broken` where it cannot be read."""
    things: dict[str, bytes]
    attempts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    """Phase to its attempts, as `adw status --json` has them."""
    reason: str | None = None

    def counted(self, phase: str) -> int:
        """How many attempts a phase had."""
        return len(self.attempts.get(phase, ()))


def observe(copy: Copy, run_dir: str) -> Observed:
    """Look at a run that nobody works on any more."""
    if not os.path.isdir(run_dir):
        return Observed("none", {})
    try:
        view = status(run_dir)
    except AdwError as error:
        return Observed("broken", {}, reason=error.message)
    attempts = {each["phase"]: each["attempts"] for each in view["phases"]}
    blot = _Blot(list(attempts))
    things = {f"phase:{each['phase']}": each["status"].encode() for each in view["phases"]}
    tree = os.path.join(copy.repo, str(view["state"].get("worktree_path") or "trees/none"))
    base = _base(run_dir)
    for source in (
        _changed(tree, base, blot),
        _commits(copy.repo, base, str(view["state"].get("branch_name") or ""), blot),
        _pushes(copy),
        _outputs(run_dir, blot),
        _effects(run_dir, blot),
        _outside(copy, blot),
    ):
        things.update(source)
    return Observed(str(view["status"]), things, attempts, view.get("reason"))


class _Blot:
    """Blots out what varies by itself."""

    def __init__(self, phases: list[str]) -> None:
        names = "|".join(re.escape(name) for name in phases) or "(?!)"
        self._child = re.compile(rf"\b({names})-\d+\b".encode())

    def content(self, path: str) -> bytes:
        """A file as it is compared."""
        try:
            found = os.lstat(path)
            if stat.S_ISLNK(found.st_mode):
                return b"link to " + os.fsencode(os.readlink(path))
            if not stat.S_ISREG(found.st_mode):
                return b"no file"
            mode = b"\n(executable)" if found.st_mode & 0o100 else b""
            if found.st_size > LARGEST:
                return _digest(path) + mode
            return self.text(files.read(path, limit=LARGEST)) + mode
        except OSError as error:
            return f"unreadable: {error.strerror}".encode()

    def name(self, text: str) -> str:
        """A name as it is compared."""
        return self.text(text.encode("utf-8", "replace")).decode("utf-8", "replace")

    def text(self, data: bytes) -> bytes:
        """Bytes as they are compared."""
        data = _COMMIT.sub(b"<commit>", _INSTANT.sub(b"<instant>", data))
        return self._child.sub(rb"\1-<n>", data)


def _digest(path: str) -> bytes:
    import hashlib

    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    return f"{os.path.getsize(path)} bytes, sha256 {found}".encode()


def _base(run_dir: str) -> str:
    try:
        found = json.loads(files.read(os.path.join(run_dir, "run.json")))
    except (OSError, ValueError):
        return "HEAD"
    return str(found.get("base") or "HEAD")


def _changed(tree: str, base: str, blot: _Blot) -> Iterator[tuple[str, bytes]]:
    if not os.path.isdir(tree):
        yield "file:(the worktree)", b"gone"
        return
    against = ask_git(["diff", "--name-only", "--no-renames", "-z", base], tree, kind="read")
    new = ask_git(["ls-files", "--others", "--exclude-standard", "-z"], tree, kind="read")
    for name in sorted({*against.stdout.split(b"\0"), *new.stdout.split(b"\0")} - {b""}):
        path = os.fsdecode(name)
        full = os.path.join(tree, path)
        yield f"file:{path}", blot.content(full) if os.path.lexists(full) else b"deleted"


def _commits(repo: str, base: str, branch: str, blot: _Blot) -> Iterator[tuple[str, bytes]]:
    if not branch:
        return
    found = ask_git(["log", "--format=%s", f"{base}..refs/heads/{branch}"], repo, kind="read")
    subjects = blot.name(found.stdout.decode("utf-8", "replace")).splitlines()
    for subject in sorted(set(subjects)):
        yield f"commits:{subject}", str(subjects.count(subject)).encode()


def _pushes(copy: Copy) -> Iterator[tuple[str, bytes]]:
    remotes = os.path.join(copy.round, "remotes")
    for remote in sorted(os.listdir(remotes)):
        logs = os.path.join(remotes, remote, "logs")
        for path in _walk(os.path.join(logs, "refs")):
            count = files.read(path).count(b"\n")
            yield f"pushes:{remote} {os.path.relpath(path, logs)}", str(count).encode()


def _outputs(run_dir: str, blot: _Blot) -> Iterator[tuple[str, bytes]]:
    try:
        manifest = json.loads(files.read(os.path.join(run_dir, "artifacts", "manifest.json")))
    except (OSError, ValueError):
        return
    for name, each in sorted(manifest.items()):
        yield f"output:{name}", blot.content(os.path.join(run_dir, each["path"]))


def _effects(run_dir: str, blot: _Blot) -> Iterator[tuple[str, bytes]]:
    found: dict[str, list[str]] = {}
    for each in listed(run_dir):
        key = blot.name(f"{each['key']} of {each['phase']}, round {each['round']}")
        found.setdefault(f"effect:{key}", []).append(str(each["state"]))
    for name, states in found.items():
        yield name, " and ".join(sorted(states)).encode()


def _outside(copy: Copy, blot: _Blot) -> Iterator[tuple[str, bytes]]:
    unseen = tuple(os.path.join(copy.round, each) for each in _UNSEEN)
    for top in ("home", "repo"):
        for path in _walk(os.path.join(copy.round, top), unseen):
            yield f"outside:{os.path.relpath(path, copy.round)}", blot.content(path)


def _walk(top: str, unseen: tuple[str, ...] = ()) -> Iterator[str]:
    for folder, below, names in os.walk(top):
        below[:] = sorted(each for each in below if os.path.join(folder, each) not in unseen)
        for name in sorted(names):
            if os.path.join(folder, name) not in unseen:
                yield os.path.join(folder, name)
