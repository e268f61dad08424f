"""A remote of the repository, as `use: push` and `use: tag` speak to it.

Look-ups and pushes run git with the user's own credential helpers and hooks, or with a token that
the workflow names. A token reaches git through a file that has no name, never through its words,
its environment or its settings, and is given to one host only. No push is ever forced.

Source: git-push(1) "OUTPUT" (`--porcelain`), git-ls-remote(1), gitcredentials(7).
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from adw.errors import GitError, UsageError
from adw.phases.api import Context
from adw.store.effects import NotDone
from adw.workspace.git import Outcome, ask_git, last_lines, without_credentials

LOOK_LIMIT_S: Final = 60.0  # for a whole look-up, whatever the remote does
STALL_S: Final = 300  # without a byte; a push as a whole is limited by the phase's `timeout`
LATER_S: Final = 60.0  # until the next attempt, where the remote asks for patience
USER: Final = "x-access-token"  # what forges expect beside a token, or ignore

_NO_SUCH_REMOTE: Final = 2  # as git's own exit code
_HOST: Final = re.compile(r"[A-Za-z0-9.-]{1,253}(:[0-9]{1,5})?\Z")
_LOOPBACK: Final = re.compile(r"(127\.0\.0\.1|localhost)(:|\Z)")
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,99}\Z")
_BUSY: Final = re.compile(r"returned error: (429|503)\b")


class Unreachable(Exception):
    """The remote did not say; says why in git's own words, in one line."""


class Refused(NotDone):
    """The remote, or a hook of the user, refused: nothing was changed there."""


@dataclass(frozen=True, slots=True)
class Remote:
    """One remote, and how it is reached."""

    name: str
    worktree: str
    settings: tuple[str, ...] = ()
    """More words before git's command."""
    token_fd: int | None = None
    """Of the nameless file with the token."""

    @classmethod
    def of(cls, context: Context, options: Mapping[str, str]) -> Self:
        """The remote that the phase's options name.

        A token is taken out of this process's environment, so that no hook inherits it.

        Raises:
            UsageError: An option cannot be used, or there is no such remote.
        """
        name = options.get("remote") or "origin"
        if not _NAME.match(name) or ".." in name:
            raise UsageError(detail=f"`{name}` is no name of a remote", fix="git remote")
        known = ask_git(["remote", "get-url", "--", name], context.worktree, kind="read")
        if known.exit_code == _NO_SUCH_REMOTE:
            fix = f"git remote add {name} URL, or name another one: `remote` in adw.yaml"
            raise UsageError(detail=f"there is no remote `{name}`", fix=fix)
        token = options.get("token")
        if token is None:
            return cls(name, context.worktree)
        host = options.get("host") or ""
        if not _HOST.match(host):
            detail = f"`host: {host}` is found beside `token`, such as `github.com` is expected"
            raise UsageError(detail=detail, fix=None)
        fd = _nameless(options.get("user") or USER, os.environ.pop(token, ""))
        return cls(name, context.worktree, _helper(host, fd), fd)

    def look(self, ref: str) -> dict[str, str]:
        """What a ref is at the remote, and what it leads to where it is an annotated tag.

        Returns:
            Ref, and ref with `^{}`, to id; empty where the remote does not have it.

        Raises:
            Unreachable: It did not say.
        """
        done = self._ask(["ls-remote", "--", self.name, ref, f"{ref}^{{}}"], LOOK_LIMIT_S)
        if done.exit_code != 0:
            raise Unreachable(words(done))
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        found = {name: sha for sha, _, name in (line.partition("\t") for line in lines)}
        return {name: sha for name, sha in found.items() if name in {ref, f"{ref}^{{}}"}}

    def contains(self, ref: str, tip: str, commit: str) -> bool:
        """Whether a commit is in the history of what a ref is at the remote.

        Args:
            ref: As the remote has it.
            tip: What it is there; fetched if it is not here, and kept under no name.
            commit: The commit.

        Raises:
            Unreachable: It could not be fetched.
        """
        if tip == commit:
            return True
        if self._ask(["cat-file", "-e", f"{tip}^{{commit}}"]).exit_code != 0:
            keys = ["--quiet", "--no-tags", "--no-write-fetch-head", "--refmap="]
            fetch = ["fetch", *keys, "--recurse-submodules=no", "--", self.name, ref]
            done = self._ask(fetch, None)
            if done.exit_code != 0:
                raise Unreachable(words(done))
        return self._ask(["merge-base", "--is-ancestor", commit, tip]).exit_code == 0

    def push(self, what: str, ref: str) -> Outcome:
        """Push an object to a ref, without force.

        Raises:
            Refused: The remote or a hook refused; nothing was changed.
            GitError: git was ended by a signal or could not be started.
        """
        keys = ["--porcelain", "--no-follow-tags", "--recurse-submodules=no"]
        done = self._ask(["push", *keys, "--", self.name, f"{what}:{ref}"], None)
        if done.exit_code == 0:
            return done
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        refused = [line for line in lines if line.startswith("!\t") and "rejected]" in line]
        if refused:
            told = without_credentials(refused[0].partition("\t")[2].replace("\t", " "))
            raise Refused(f"`{self.name}` refused the push: {told}\n{words(done)}".rstrip())
        return done

    def _ask(self, args: Sequence[str], limit_s: float | None = None) -> Outcome:
        slow = ("http.lowSpeedLimit=1", f"http.lowSpeedTime={STALL_S}")
        settings = [part for each in slow for part in ("-c", each)]
        command = [*settings, *self.settings, *args]
        fenced = {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(self.worktree))}
        try:
            return ask_git(
                command,
                self.worktree,
                kind="commit",
                timeout_s=limit_s,
                env=fenced,
                hold=self.token_fd,
            )
        except GitError as error:  # the time limit
            raise Unreachable(str(error.line("why"))) from None


def busy(text: str) -> bool:
    """Whether the remote's answer is that it wants to be asked later."""
    return _BUSY.search(text) is not None


def words(done: Outcome) -> str:
    """What git said of a failure."""
    return last_lines(done.stderr) or f"git ended with exit code {done.exit_code}"


def _nameless(user: str, token: str) -> int:
    """A file without a name that holds a user and a token as a credential helper tells them."""
    fd = os.memfd_create("adw-credential", os.MFD_CLOEXEC)
    text = f"username={user}\npassword={token}\n"
    os.write(fd, text.encode())
    return fd


def _helper(host: str, fd: int) -> tuple[str, ...]:
    """Settings by which git asks for a password: from the nameless file, for this host only."""
    asked = "p=; h=; while read -r l; do case $l in protocol=*) p=${l#*=};; host=*) h=${l#*=};; esac; done"
    scheme = "https|http" if _LOOPBACK.match(host) else "https"
    shell = (
        f'!f() {{ test "$1" = get || return 0; {asked}; '
        f"case $p in {scheme}) ;; *) return 0;; esac; "
        f'test "$h" = {host} || return 0; cat /proc/self/fd/{fd}; }}; f'
    )
    # The empty one takes all helpers of the user's own back.
    return ("-c", "credential.helper=", "-c", f"credential.helper={shell}")
