"""Where else a commit is: in the branch that work goes back to, or on a remote.

Before a branch is deleted, this tells whether anything would be lost. A remote is asked where
nothing else vouches for a commit: what was pushed once may be gone there by now.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal

from adw.errors import GitError
from adw.workspace.git import Outcome, ask_git, last_lines, run_git
from adw.workspace.repository import Repository

ASK_LIMIT_S: Final = 20.0

Kind = Literal["merged", "pushed", "nowhere"]


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """Where the work that ends in a commit is."""

    kind: Kind
    """`nowhere`: only here, as far as can be told."""
    words: str
    """For people, such as: merged into `dev`."""
    hint: str | None = None
    """What would bring it to safety."""


@dataclass(slots=True)
class Delivery:
    """Looks where commits are; remembers what remotes said."""

    repo: Repository
    base_branch: str | None
    """As the run had it: a local branch, or `<remote>/<branch>`; None: not known."""
    _heads: dict[str, Outcome] = field(default_factory=dict)
    _known_bases: list[tuple[str, str]] | None = None

    def of(self, commit: str, base: str | None) -> Whereabouts:
        """Tell where a commit is.

        Args:
            commit: Its id.
            base: Commit from which the run's branch started.

        Raises:
            GitError: git failed in a way that answers nothing.
        """
        if base is not None and self._within(commit, base):
            return Whereabouts("merged", "it has no commit of its own")
        if self._known_bases is None:
            self._known_bases = list(self._bases())
        bases = self._known_bases
        for name, ref in bases:
            if self._within(commit, ref):
                return Whereabouts("merged", f"merged into `{name}`")
        for name, ref in bases:
            if self._adds_nothing(commit, ref):
                return Whereabouts("merged", f"all its changes are in `{name}`")
        return self._on_remotes(commit, bases)

    # --- the branch that work goes back to ------------------------------------------------

    def _bases(self) -> Iterator[tuple[str, str]]:
        """Names and refs of the base branch, here and on its remote, that exist."""
        if self.base_branch is None:
            return
        refs = [f"refs/heads/{self.base_branch}", f"refs/remotes/{self.base_branch}"]
        refs += [f"refs/remotes/{remote}/{self.base_branch}" for remote in self._remotes()]
        for ref in refs:
            if self._git("show-ref", "--verify", "--quiet", "--", ref).exit_code == 0:
                yield ref.removeprefix("refs/heads/").removeprefix("refs/remotes/"), ref

    def _within(self, commit: str, other: str) -> bool:
        if commit == other:
            return True
        return self._git("merge-base", "--is-ancestor", commit, other).exit_code == 0

    def _adds_nothing(self, commit: str, ref: str) -> bool:
        """Whether merging the commit would change nothing, as after a squash or a rebase."""
        # git before 2.38 does not know --write-tree; then only true merges count.
        done = self._git("merge-tree", "--write-tree", ref, commit)
        tree = self._git("rev-parse", "--verify", "-q", f"{ref}^{{tree}}")
        return done.exit_code == 0 and tree.exit_code == 0 and done.stdout == tree.stdout

    # --- remotes ---------------------------------------------------------------------------

    def _on_remotes(self, commit: str, bases: list[tuple[str, str]]) -> Whereabouts:
        target = f"`{self.base_branch}`" if bases else "a base branch"
        said = None
        for remote, branch in self._tracked(commit):
            name = f"{remote}/{branch}"
            found = self._asked(remote, branch)
            if isinstance(found, str) and self._within(commit, found):
                return Whereabouts("pushed", f"pushed to `{name}`, not merged into {target} yet")
            if said is None:
                words = f"`{remote}` does not have `{branch}` any more"
                if isinstance(found, str):
                    words = f"`{name}` is elsewhere by now"
                elif found is not None:
                    words = f"`{remote}` cannot be asked: {last_lines(found.stderr)}"
                hint = f"git fetch {remote}, then again"
                said = Whereabouts("nowhere", f"pushed once, but {words}", hint)
        return said or self._only_here(commit, bases)

    def _only_here(self, commit: str, bases: list[tuple[str, str]]) -> Whereabouts:
        args = ["rev-list", "--count", commit, "--not", "--remotes", *(ref for _, ref in bases)]
        count = int(run_git([*self._where(), *args], self.repo.git_dir, kind="read"))
        noun = "commit is" if count == 1 else "commits are"
        merged = f" and not in `{self.base_branch}`" if bases else ""
        return Whereabouts(
            "nowhere", f"{count} {noun} on no remote{merged}", "push it, or merge it"
        )

    def _remotes(self) -> list[str]:
        data = run_git([*self._where(), "remote"], self.repo.git_dir, kind="read")
        # The longest first: one may be named like the beginning of another.
        return sorted(data.decode("utf-8", "surrogateescape").split(), key=len, reverse=True)

    def _tracked(self, commit: str) -> Iterator[tuple[str, str]]:
        """Remote and branch of each remote-tracking branch that has the commit."""
        args = ["for-each-ref", "--contains", commit, "--format=%(refname)", "refs/remotes/"]
        data = run_git([*self._where(), *args], self.repo.git_dir, kind="read")
        remotes = self._remotes()
        for ref in data.decode("utf-8", "surrogateescape").split("\n"):
            name = ref.removeprefix("refs/remotes/")
            remote = next((each for each in remotes if name.startswith(f"{each}/")), None)
            if remote is not None and not name.endswith("/HEAD"):
                yield remote, name.removeprefix(f"{remote}/")

    def _asked(self, remote: str, branch: str) -> str | Outcome | None:
        """Commit of a branch at its remote; None: there is none; an outcome: it did not say."""
        if remote not in self._heads:
            args = [*self._where(), "ls-remote", "--heads", "--", remote]
            try:
                # The user's own credential helpers are what can answer here.
                done = ask_git(args, self.repo.root, kind="commit", timeout_s=ASK_LIMIT_S)
            except GitError as error:
                done = Outcome(-1, b"", str(error.line("why") or error.message).encode())
            self._heads[remote] = done
        done = self._heads[remote]
        if done.exit_code != 0:
            return done
        for line in done.stdout.decode("utf-8", "surrogateescape").split("\n"):
            sha, _, ref = line.partition("\t")
            if ref == f"refs/heads/{branch}":
                return sha
        return None

    def _git(self, *args: str) -> Outcome:
        return ask_git([*self._where(), *args], self.repo.git_dir, kind="read")

    def _where(self) -> list[str]:
        return ["--git-dir", self.repo.git_dir]


def unpushed_submodules(admin: str) -> list[str]:
    """Submodules whose repository lies with the worktree and has commits that no remote has."""
    found = []
    top = os.path.join(admin, "modules")
    for folder, names, _ in os.walk(top):
        if "HEAD" in os.listdir(folder) and "objects" in names:
            args = ["rev-list", "--max-count=1", "--branches", "HEAD", "--not", "--remotes"]
            done = ask_git(["--git-dir", folder, *args], folder, kind="read")
            if done.exit_code != 0 or done.stdout:
                found.append(os.path.relpath(folder, top))
            names[:] = [each for each in names if each == "modules"]
    return found
