"""The base branch's present tip brought into a run's branch, all of it or nothing.

The merge is computed among git's objects; a conflict is found before anything is touched. Only
then a note is made durable in `<git dir>/adw/<id>/updating`, and branch and files go over to the
merge. After a kill `finish` goes on from the note; what the branch was is kept under
`refs/adw/<id>/update-<n>`.
"""

import contextlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Final

from adw import log
from adw.errors import EnvironmentFault, UsageError
from adw.store import files
from adw.workspace import copying, locks, mending, registration, rescue
from adw.workspace.git import (
    ask_git,
    failure,
    on_one_line,
    require_version,
    run_git,
    stand_in_identity,
)
from adw.workspace.registration import Place

_OLDEST: Final = (2, 38)  # the first whose merge-tree merges
_NOTE: Final = "updating"
_SHOWN: Final = 10  # paths in a message


@dataclass(frozen=True, slots=True)
class Updated:
    """What became of a run's branch."""

    base: str
    """The branch that was brought in."""
    old: str
    """Commit that the run's branch named before."""
    new: str
    """Commit that it names now; `old` where nothing was to do."""
    how: str
    """`merged`, `fast_forward` or `already`."""


def update(place: Place, base: str, tip: str) -> Updated:
    """Bring a commit into the run's branch; nothing works in the worktree.

    Args:
        place: The worktree, on the run's branch.
        base: Name of the base branch, for messages.
        tip: Its commit.

    Raises:
        UsageError: There are changes in no commit, a conflict, or files in the way; nothing was
            touched.
        EnvironmentFault: git is older than 2.38.
        GitError: git refused; the next open finishes what was begun.
    """
    old = _head(place)
    if _in(place, tip, old):
        return Updated(base, old, old, "already")
    _refuse_changes(place)
    if _in(place, old, tip):
        found = Updated(base, old, tip, "fast_forward")
    else:
        found = Updated(base, old, _merged(place, base, old, tip), "merged")
    _refuse_in_the_way(place, found)
    _write_note(place, found)
    _go_over(place, found)
    return found


def finish(place: Place) -> Updated | None:
    """Go on with an update that a kill cut off; no process where there was none.

    Returns:
        What was finished; None where nothing was begun, or the branch is elsewhere by now.
    """
    path = _note_path(place)
    data = files.read_if_exists(path)
    if data is None:
        return None
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = Updated(**json.loads(data))
        if registration.head_commit(place) in {found.old, found.new}:
            _go_over(place, found)
            return found
    log.event("update.dropped", note=path)
    _remove_note(place)
    return None


# --- the merge ---------------------------------------------------------------------------


def _merged(place: Place, base: str, old: str, tip: str) -> str:
    """A commit with both as parents, durable; refuses a conflict."""
    if require_version() < _OLDEST:
        raise EnvironmentFault(
            detail="`--update-base` needs git 2.38 or newer", reason=None, fix="install one"
        )
    args = ["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", old, tip]
    done = ask_git(place.explicit(args), place.path, kind="commit", timeout_s=None)
    tree, *names = done.stdout.decode("utf-8", "surrogateescape").split("\0")
    if done.exit_code == 1:
        detail = f"`{base}` and the run's branch change the same places: {_listed(names)}"
        raise UsageError(
            detail=detail,
            fix=f"merge it by hand (git -C {place.path} merge {base}), then resume without "
            "`--update-base`",
        )
    if done.exit_code != 0:
        raise failure(args, done)
    message = f"Merge {base} into {place.branch}\n\nADW-Run: {place.name}\n".encode()
    args = [
        *stand_in_identity(place.explicit([]), place.path),
        "commit-tree",
        *_signing(place),
        tree,
    ]
    for parent in (old, tip):
        args += ["-p", parent]
    words = place.explicit(args)
    made = run_git(words, place.path, kind="commit", stdin=message, timeout_s=None)
    return made.decode().strip()


def _signing(place: Place) -> list[str]:
    return ["-S"] if _setting(place, "--type=bool", "--get", "commit.gpgSign") == "true" else []


def _setting(place: Place, *args: str) -> str:
    done = ask_git(place.explicit(["config", *args]), place.path, kind="read")
    return done.stdout.decode("utf-8", "replace").strip()


def _in(place: Place, commit: str, history: str) -> bool:
    args = ["merge-base", "--is-ancestor", commit, history]
    done = ask_git(place.explicit(args), place.path, kind="read")
    if done.exit_code not in {0, 1}:
        raise failure(args, done)
    return done.exit_code == 0


# --- what would be lost ------------------------------------------------------------------


def _refuse_changes(place: Place) -> None:
    args = ["status", "--porcelain", "-z", "-uall", "--no-renames"]
    data = run_git(place.explicit(args), place.path, kind="read", timeout_s=None)
    names = [each[3:] for each in data.decode("utf-8", "surrogateescape").split("\0")]
    if any(names):
        raise UsageError(
            detail=f"the worktree has changes that are in no commit: {_listed(names)}",
            fix=f"commit or undo them in {place.path}, then once more",
        )


def _refuse_in_the_way(place: Place, found: Updated) -> None:
    """Refuse where an ignored file lies at the place of one that is to come."""
    args = ["diff-tree", "-r", "-z", "--no-commit-id", "--no-renames", "--name-only"]
    words = [*args, "--diff-filter=A", found.old, found.new]
    data = run_git(place.explicit(words), place.path, kind="read", timeout_s=None)
    names = data.decode("utf-8", "surrogateescape").split("\0")
    there = [name for name in names if name and _taken(place, name)]
    if there:
        raise UsageError(
            detail=f"`{found.base}` brings files that git ignores in the worktree: {_listed(there)}",
            fix=f"move them away in {place.path}, then once more",
        )


def _taken(place: Place, name: str) -> bool:
    """Whether something lies at a path, or in place of a folder on the way that git does not know."""
    path = os.path.join(place.path, name)
    if os.path.lexists(path):
        return True
    above = os.path.dirname(path)
    while above != place.path and not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and not os.path.islink(above):
        return False
    spec = f":(top,literal){os.path.relpath(above, place.path)}"
    args = place.explicit(["ls-files", "-z", "--", spec])
    return not run_git(args, place.path, kind="read")


# --- going over --------------------------------------------------------------------------


def _go_over(place: Place, found: Updated) -> None:
    """Have branch, index and files be those of the new commit; the same again after a kill."""
    mending.remove_stale_locks(place)
    exclude = copying.copied(place.git_dir, place.name)
    rescue.back_to(place, found.new, None, "update", exclude=exclude)
    with contextlib.suppress(FileNotFoundError):  # packed, so durable
        files.sync_file(place.ref_file)
    _remove_note(place)


def _head(place: Place) -> str:
    head = registration.head_commit(place)
    assert head is not None, "the worktree was checked"
    return head


def _note_path(place: Place) -> str:
    return os.path.join(mending.room(place), _NOTE)


def _write_note(place: Place, found: Updated) -> None:
    path = _note_path(place)
    with locks.storing(path):
        files.make_dirs(mending.room(place))
        files.replace(path, json.dumps(asdict(found)).encode() + b"\n")


def _remove_note(place: Place) -> None:
    path = _note_path(place)
    with locks.storing(path):
        files.unlink(path)
        files.sync_dir(mending.room(place))


def _listed(names: Sequence[str]) -> str:
    found = sorted({name for name in names if name})
    shown = [on_one_line(name) for name in found[:_SHOWN]]
    more = f", and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(shown) + more
