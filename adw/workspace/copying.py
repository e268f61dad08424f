"""Ignored files of the main checkout (`copy:` of adw.yaml) in a run's worktree.

What a reader may rely on:
- No file that is there is overwritten, whoever made it, and none that git tracks is made again.
- A copy is whole or not there: it is made beside and renamed.
- git ignores every copy, so that neither a phase nor adw commits one. Where the project does not
  ignore it, the repository's own exclude file does; what cannot be ignored is not copied.

What came along is noted in `<git dir>/adw/<id>/copied.json`, so that a file which a phase removed
comes back only in a worktree that was made again.
"""

import contextlib
import errno
import json
import os
import posixpath
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from adw.store import files
from adw.workspace import locks, mending, registration
from adw.workspace.git import Outcome, ask_git, failure, last_lines, on_one_line, run_git
from adw.workspace.registration import Place
from adw.workspace.repository import Repository, exclude, pattern

_NOTE: Final = "copied.json"
_CHUNK: Final = 1 << 20
_MANY: Final = 100  # files of one folder that are not ignored; more are not hidden one by one


@dataclass(slots=True)
class _Note:
    """What was brought into the worktree so far."""

    names: list[str] = field(default_factory=list)
    """As `copy:` lists them, normalised."""
    files: list[str] = field(default_factory=list)
    """Relative to the worktree."""


def bring(repo: Repository, place: Place, names: Sequence[str], *, fresh: bool) -> list[str]:
    """Copy what is missing; nothing works in the worktree meanwhile.

    Args:
        repo: As located.
        place: The worktree, complete.
        names: Files and folders, relative to the top of the main checkout.
        fresh: The worktree was made just now, so that everything is missing.

    Returns:
        A line for each thing that could not be copied, or that adw had to hide from git.

    Raises:
        GitError: git refused.
        StoreError: The disk is full, or the worktree cannot be written.
        HostLocked: Another adw kept the repository's lock for too long.
    """
    note = _Note() if fresh else _read_note(place)
    wanted = dict.fromkeys(posixpath.normpath(name) for name in names)
    wanted_now = [
        n
        for n in wanted
        if n not in note.names
        or (not _there(place, n) and os.path.lexists(os.path.join(repo.root, n)))
    ]
    if not wanted_now:
        return []
    told: list[str] = []
    tracked = _tracked(place, wanted_now)
    with mending.scratch(place) as room:
        for name in wanted_now:
            found = [f for f in _files_of(repo, place, name, told) if f not in tracked]
            missing = [f for f in found if not _there(place, f) and _free(place, f, told)]
            ready = _ignored(repo, place, name, missing, told)
            note.files += _copy(repo, place, ready, room, told)
            note.names.append(name)
    note.names = list(dict.fromkeys(note.names))
    note.files = list(dict.fromkeys(note.files))
    _write_note(place, note)
    return told


def copied(git_dir: str, adw_id: str) -> list[str]:
    """The files that a run's worktree was given, relative to its top.

    Args:
        git_dir: The directory that all worktrees share.
        adw_id: The run.
    """
    return _read_note(Place(git_dir, os.path.join(git_dir, adw_id), "")).files


def copied_into(worktree: str) -> list[str]:
    """As `copied`, told by the worktree's path; empty where that is no worktree."""
    admin = registration.admin_of(worktree)
    common = registration.common_of(admin) if admin else None
    return copied(common, os.path.basename(worktree)) if common else []


# --- what there is to copy ---------------------------------------------------------------


def _files_of(repo: Repository, place: Place, name: str, told: list[str]) -> Iterator[str]:
    """The files of a listed name, relative to the top; what cannot be one is told."""
    source = os.path.join(repo.root, name)
    if f"{place.path}/".startswith(f"{source}/"):
        told.append(f"`{on_one_line(name)}` holds the worktrees of runs: not copied")
    elif not os.path.lexists(source):
        told.append(
            f"`{on_one_line(name)}` of `copy` is not in the main checkout: nothing is copied"
        )
    elif not os.path.isdir(source):
        if _inside(repo, name, told):
            yield name
    elif _inside(repo, name, told):
        for folder, folders, entries in os.walk(source):
            folders[:] = sorted(each for each in folders if each.lower() != ".git")
            below = os.path.relpath(folder, repo.root)
            links = (os.path.join(below, each) for each in folders)
            told += [
                f"`{on_one_line(link)}` is a link to a folder: not copied"
                for link in links
                if os.path.islink(os.path.join(repo.root, link))
            ]
            for entry in sorted(entries):
                file = os.path.join(below, entry)
                if entry.lower() != ".git" and _inside(repo, file, told):
                    yield file


def _inside(repo: Repository, name: str, told: list[str]) -> bool:
    """Whether a name leads to something in the main checkout, through whatever links."""
    real = os.path.realpath(os.path.join(repo.root, name))
    root = os.path.realpath(repo.root)
    inside = real.startswith(root + os.sep) and not real.startswith(repo.git_dir + os.sep)
    if not inside:
        told.append(f"`{on_one_line(name)}` leads out of the repository: not copied")
    return inside


def _tracked(place: Place, names: Sequence[str]) -> set[str]:
    specs = [f":(top,literal){name}" for name in names]
    args = place.explicit(["ls-files", "-z", "--", *specs])
    found = run_git(args, place.path, kind="read", timeout_s=None)
    return {os.fsdecode(each) for each in found.split(b"\0") if each}


def _free(place: Place, file: str, told: list[str]) -> bool:
    """Whether the folders on the way are folders, so that the copy lands where it seems to."""
    here = place.path
    for part in file.split(os.sep)[:-1]:
        here = os.path.join(here, part)
        if not os.path.lexists(here):
            return True
        if os.path.islink(here) or not os.path.isdir(here):
            within = os.path.relpath(here, place.path)
            told.append(
                f"`{on_one_line(file)}` is not copied: `{on_one_line(within)}` is no folder there"
            )
            return False
    return True


def _there(place: Place, name: str) -> bool:
    return os.path.lexists(os.path.join(place.path, name))


# --- keeping copies out of git -----------------------------------------------------------


def _ignored(
    repo: Repository, place: Place, name: str, missing: list[str], told: list[str]
) -> list[str]:
    """Those of the files that git ignores, where needed after adw told it to."""
    if not missing:
        return []
    have = _check_ignore(place, missing, told)
    if have is None:
        return []
    bare = [file for file in missing if file not in have]
    if bare:
        lines = _lines(place, name, bare, whole=len(bare) == len(missing))
        if lines and exclude(repo, lines):
            told.append(
                f"`{on_one_line(name)}` is not ignored by git: adw hides it in info/exclude"
            )
        have = _check_ignore(place, missing, told) or set()
    told += [
        f"`{on_one_line(file)}` is not copied: git does not ignore it"
        for file in missing
        if file not in have
    ]
    return [file for file in missing if file in have]


def _check_ignore(place: Place, paths: Sequence[str], told: list[str]) -> set[str] | None:
    args = place.explicit(["check-ignore", "-z", "--stdin"])
    data = b"".join(os.fsencode(path) + b"\0" for path in paths)
    done: Outcome = ask_git(args, place.path, kind="read", stdin=data)
    if done.exit_code in {0, 1}:
        return {os.fsdecode(each) for each in done.stdout.split(b"\0") if each}
    if b"submodule" not in done.stderr and b"symbolic link" not in done.stderr:
        raise failure(args, done)
    told.append(f"`{on_one_line(paths[0])}` is not copied: {last_lines(done.stderr)}")
    return None


def _lines(place: Place, name: str, bare: list[str], *, whole: bool) -> list[bytes]:
    """Lines for the exclude file: of the folder, where nothing in it is anything else."""
    if whole and bare != [name] and not _there(place, name):
        return [pattern(os.fsencode(name)) + b"/"]
    fit = [file for file in bare if "\n" not in file]
    return [pattern(os.fsencode(file)) for file in fit] if len(fit) <= _MANY else []


# --- copying -----------------------------------------------------------------------------


def _copy(
    repo: Repository, place: Place, names: Sequence[str], room: str, told: list[str]
) -> list[str]:
    """Make copies, durably: all written, then all synced, which a disk does faster, then named."""
    temps: dict[str, str] = {}
    for name in names:
        temp = os.path.join(room, f"copy-{len(temps)}")
        if line := _read_into(temp, os.path.join(repo.root, name), name):
            told.append(line)
        else:
            temps[name] = temp
    for temp in temps.values():
        with locks.storing(temp):
            files.sync_file(temp)
    folders = set()
    for name, temp in temps.items():
        target = os.path.join(place.path, name)
        folders.add(os.path.dirname(target))
        with locks.storing(target):
            files.make_dirs(os.path.dirname(target), mode=0o755)
            _put(temp, target)
            files.unlink(temp)
    for folder in folders:
        with locks.storing(folder):
            files.sync_dir(folder)
    return list(temps)


def _read_into(temp: str, source: str, file: str) -> str | None:
    """Copy one file to `temp`, not durably yet; a line where it cannot be read."""
    try:
        fd = os.open(source, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return f"`{on_one_line(file)}` is not copied: {(error.strerror or str(error)).lower()}"
    with open(fd, "rb") as original:
        info = os.fstat(fd)
        if not stat.S_ISREG(info.st_mode):
            return f"`{on_one_line(file)}` is not copied: it is no regular file"
        with locks.storing(temp):
            pieces = iter(lambda: original.read(_CHUNK), b"")
            files.replace(temp, pieces, sync=False, mode=stat.S_IMODE(info.st_mode) & 0o777)
            os.utime(temp, ns=(info.st_atime_ns, info.st_mtime_ns))
    return None


def _put(temp: str, target: str) -> None:
    """Give a file its name, where nothing has that name."""
    try:
        files.link(temp, target)
    except OSError as error:
        if error.errno not in {errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP}:
            raise
        mode = stat.S_IMODE(os.stat(temp).st_mode)
        files.create(target, files.read(temp, limit=os.stat(temp).st_size), mode=mode)


# --- the note ----------------------------------------------------------------------------


def _read_note(place: Place) -> _Note:
    path = os.path.join(mending.room(place), _NOTE)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        found = json.loads(files.read(path))
        return _Note([str(n) for n in found["names"]], [str(f) for f in found["files"]])
    return _Note()


def _write_note(place: Place, note: _Note) -> None:
    path = os.path.join(mending.room(place), _NOTE)
    data = {"schema_version": 1, "names": note.names, "files": note.files}
    with locks.storing(path):
        files.make_dirs(mending.room(place))
        files.replace(path, json.dumps(data).encode() + b"\n")
