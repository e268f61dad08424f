"""The run's git worktree: made once, found again after any kill, checked without a git process.

`ensure` leads from every state of branch, registration and directory to the one wanted, or
refuses and says what it found. It removes only what a killed git of its own left half-made,
which a note written durably beforehand proves (mending.py); nothing with work in it is removed.
"""

import hashlib
import os
import shlex
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Final, NoReturn

from adw import log
from adw.core.interfaces import Kept, Tree
from adw.errors import GitError, WorktreeError
from adw.store import files
from adw.workspace import locks, mending, registration, rescue, table
from adw.workspace.git import ask_git, failure, require_version, run_git
from adw.workspace.registration import Place, Seen
from adw.workspace.repository import Repository
from adw.workspace.settings import Settings

_ADD_LIMIT_S: Final = 1800.0


class Worktree:
    """One run's worktree and branch; implements `adw.core.interfaces.Workspace`.

    Making an object looks at nothing. `path` is `<folder of worktrees>/<adw id>`; its last part
    is the name by which git registers it.
    """

    def __init__(self, repo: Repository, path: str, branch: str) -> None:
        """Name a worktree.

        Args:
            repo: As located.
            path: Absolute; its last part is the ADW ID.
            branch: The run's branch, as recorded in the state.

        Raises:
            UsageError: The branch name is not one that adw uses.
        """
        registration.check_branch(branch)
        self.path = os.path.normpath(path)
        self.branch = branch
        self._repo = repo
        self._place = Place(repo.git_dir, self.path, branch)
        self._settings: Settings | None = None

    # --- making ---------------------------------------------------------------------------

    def ensure(self, base_sha: str, *, made: bool = False) -> str:
        """Make the worktree and its branch, or find them as they were left.

        Idempotent; a kill at any instant leaves what the next call mends.

        Args:
            base_sha: Where a new branch starts.
            made: It was complete before (a phase has run in it), so that with tree and branch
                both gone there is work lost, and no new branch is invented.

        Returns:
            What was done: `reused`, `created`, `attached` (to a branch that existed), `fetched`
            (its branch made again from a remote's) or `recreated` (after the directory was gone).

        Raises:
            WorktreeError: Something is in the way that adw did not make, or HEAD is elsewhere.
            HostLocked: Another adw kept the repository's lock for too long.
            GitError: git refused, such as for a branch that is checked out elsewhere.
        """
        if not os.path.lexists(mending.note_path(self._place)) and self._fine():
            return "reused"
        with self._locked() as lock_fd:
            mending.sweep(self._place)
            note = mending.read_note(self._place)
            seen = registration.survey(self._place)
            if note is not None:
                mending.finish_or_clear(self._place, seen, note)
                seen = registration.survey(self._place)
            done = self._settle(seen, base_sha, made=made, lock_fd=lock_fd)
            mending.remove_note(self._place)
        log.event("worktree", path=self.path, branch=self.branch, done=done)
        return done

    def _settle(self, seen: Seen, base_sha: str, *, made: bool, lock_fd: int) -> str:
        """Act on what was seen, as the truth table says."""
        row = table.row_for(_facts(seen, self.branch, made=made))
        if row.act == "reuse":
            self.check()
            return row.name
        if row.act == "refuse":
            held_by = {"elsewhere": seen.elsewhere, "locked": seen.lock_reason}
            self._refused(row.name, held_by.get(row.name, seen.head))
        if seen.registration == "whole":
            kept = mending.unregister(self._place)
            log.event("worktree.unregistered", path=self.path, kept=kept)
        self._add(seen.remote or base_sha, seen.tip, lock_fd)
        return row.name

    def _add(self, base_sha: str, tip: str | None, lock_fd: int) -> None:
        require_version()
        mending.write_note(self._place, tip or base_sha)
        with locks.storing(os.path.dirname(self.path)):
            files.make_dirs(os.path.dirname(self.path))
        args = ["-c", "core.fsync=reference", "worktree", "add", "--quiet"]
        if tip is None:
            args += ["--no-track", "-b", self.branch, "--", self.path, base_sha]
        else:
            args += ["--", self.path, self.branch]
        try:
            run_git(args, self._repo.root, kind="read", timeout_s=_ADD_LIMIT_S, hold=lock_fd)
        except GitError:
            seen = registration.survey(self._place)
            left = mending.stale_locks(self._place) or seen.registration != "absent"
            if not left and seen.directory == "absent":
                mending.remove_note(self._place)
            raise
        self.check()

    # --- looking --------------------------------------------------------------------------

    def check(self) -> Tree:
        """Assert that this is the run's worktree, on the run's branch. Starts no process.

        Returns:
            With the commit that HEAD names.

        Raises:
            WorktreeError: It is gone, lost its `.git`, belongs elsewhere or is on another branch.
        """
        admin = registration.admin_of(self.path)
        if admin is None:
            if not os.path.isdir(self.path):
                self._refuse("the run's worktree is gone", "resume makes it again on its branch")
            self._refused("no_git_file")
        if not registration.same(admin, self._place.admin):
            self._refuse(f"the run's worktree belongs to another git directory: `{admin}`", None)
        common = registration.common_of(self._place.admin)
        if common is None or not registration.same(common, self._repo.git_dir):
            self._refuse("the worktree's registration does not lead to the repository", None)
        if registration.leads_away(self._place):
            self._refuse(
                "the worktree's own configuration leads git to another directory",
                f"git -C {shlex.quote(self.path)} config --worktree --unset core.worktree",
            )
        branch = registration.head_branch(self._place)
        if branch != self.branch:
            self._refused("wrong_branch" if branch else "detached", branch)
        head = registration.tip(self._place)
        if head is None:
            self._refused("branch_gone")
        return Tree(head)

    def fingerprint(self) -> str:
        """Id of HEAD and of all content, tracked and untracked; ignored files do not count.

        Made through a copy of the index and a throw-away object store, so that neither the
        user's index nor the repository is written.

        Returns:
            64 hex digits; equal ones mean that nothing changed.
        """
        head = self.check().head
        with rescue.throw_away(self._place) as env:
            room = os.path.dirname(env["GIT_INDEX_FILE"])
            add = ["-c", "core.splitIndex=false", "add", "-A", "--sparse", "--ignore-errors"]
            done = ask_git(
                self._place.explicit(add), self.path, kind="read", timeout_s=None, env=env
            )
            if done.exit_code not in {0, 1, 128}:
                raise failure(add, done)
            # What cannot be added (unreadable, a repository without commit) counts by its message.
            failed = done.stderr.replace(room.encode(), b"") if done.exit_code else b""
            tree = run_git(self._place.explicit(["write-tree"]), self.path, kind="read", env=env)
        return hashlib.sha256(b"\0".join([(head or "").encode(), tree, failed])).hexdigest()

    def clean(self) -> bool:
        """Whether nothing is modified, staged or untracked (ignored files do not count)."""
        self.check()
        args = self._place.explicit(["status", "--porcelain", "-z", "-uall"])
        return not run_git(args, self.path, kind="read", timeout_s=None)

    # --- keeping and going back -----------------------------------------------------------

    def settings_changed(self, *, anew: bool = False) -> list[str]:
        """Which settings of git are not what they were at the first call; see settings.py."""
        if self._settings is None or anew:
            self._settings = Settings(self._repo.git_dir, self._place.admin)
            return []
        return self._settings.changed()

    def contains(self, commit: str) -> bool:
        """Whether a commit is in the history of the run's branch, wherever HEAD is."""
        args = ["--git-dir", self._repo.git_dir, "merge-base", "--is-ancestor", commit]
        branch = f"refs/heads/{self.branch}"
        return ask_git([*args, branch], self._repo.git_dir, kind="read").exit_code == 0

    def keep(self, name: str, exclude: Sequence[str], *, always: bool = False) -> Kept | None:
        """Keep a tree that is not clean, wherever its HEAD is; see `rescue.keep`.

        Raises:
            GitError: git refused.
            HostLocked: Another adw kept the repository's lock for too long.
        """
        return rescue.keep(self._place, name, exclude=exclude, always=always)

    def pin(self, name: str, commit: str) -> Kept:
        """Keep a commit under a ref of the run."""
        return Kept(rescue.pin(self._place, name, commit), commit)

    def back_to(
        self, head: str, commit: str | None, name: str, exclude: Sequence[str], known: str | None
    ) -> Kept | None:
        """Put tree and branch back to what they were; see `rescue.back_to`.

        Raises:
            WorktreeError: It is not the run's worktree on the run's branch, or the tree to go
                back to is not there any more; nothing was touched.
            GitError: git refused; what was there is kept or still there.
            HostLocked: Another adw kept the repository's lock for too long.
        """
        self.check()
        for wanted in (head, commit):
            query = ["--git-dir", self._repo.git_dir, "cat-file", "-e", f"{wanted}^{{tree}}"]
            if wanted and ask_git(query, self._repo.git_dir, kind="read").exit_code != 0:
                self._refuse(f"commit {wanted[:12]}, to which the tree goes back, is gone", None)
        return rescue.back_to(self._place, head, commit, name, exclude=exclude, known=known)

    # --- mending --------------------------------------------------------------------------

    def mend_locks(self) -> list[str]:
        """Remove lock files, and temporary ones, that a killed git of this run left.

        Only those of this worktree's own git directory and the lock of the run's own branch.
        The caller holds the run's lock and knows that no process of the run lives; a git that
        anybody else runs in the worktree is looked for, and then nothing is removed.

        Returns:
            The files removed.

        Raises:
            HostLocked: Another adw kept the repository's lock for too long.
        """
        mending.sweep(self._place)
        if not mending.stale_locks(self._place):
            return []
        with self._locked():
            return mending.remove_stale_locks(self._place)

    # --- parts ----------------------------------------------------------------------------

    def _fine(self) -> bool:
        try:
            self.check()
        except WorktreeError:
            return False
        return registration.survey(self._place).registration == "whole"

    def _locked(self) -> AbstractContextManager[int]:
        return locks.repository(self._repo.git_dir)

    def _refused(self, name: str, found: str | None = None) -> NoReturn:
        """Refuse in the words of a row of the truth table."""
        row = table.BY_NAME[name]
        facts = {"name": self._place.name, "branch": self.branch, "commit": "COMMIT"}
        facts["mend"] = registration.mend_command(self._place)
        detail = row.says.format(**facts, path=self.path, found=found)
        quoted = {"path": shlex.quote(self.path), "found": shlex.quote(found or "")}
        self._refuse(detail, row.repair and row.repair.format(**facts, **quoted))

    def _refuse(self, detail: str, fix: str | None) -> NoReturn:
        raise WorktreeError(detail=detail, path=self.path, reason=None, fix=fix)


def _facts(seen: Seen, branch: str, *, made: bool) -> table.Facts:
    """What was seen, in the words of the truth table."""
    if seen.elsewhere is not None and seen.directory != "ours":
        found = "elsewhere"
    elif seen.tip is not None:
        found = "free"
    else:
        found = "remote" if seen.remote is not None else "absent"
    return table.Facts(
        branch=found,
        registered={"absent": "no", "foreign": "elsewhere"}.get(seen.registration)
        or seen.registration,
        directory="absent" if seen.directory == "empty" else seen.directory,
        head="branch" if seen.head == branch else "other" if seen.head else "detached",
        held="locked" if seen.lock_reason is not None else "nobody",
        ran="yes" if made else "no",
        begun="no",  # what a note was about is cleared away before
    )


def inside(path: str, branch: str) -> Worktree:
    """The worktree as a program sees it that was started in it, without looking for the rest.

    Args:
        path: Its top.
        branch: The run's branch.

    Raises:
        WorktreeError: It has no `.git` file that leads to a repository.
    """
    admin = registration.admin_of(path)
    common = registration.common_of(admin) if admin else None
    if common is None:
        raise WorktreeError(
            detail="the run's worktree has no valid `.git` file", path=path, reason=None, fix=None
        )
    return Worktree(Repository(root=path, git_dir=common), path, branch)
