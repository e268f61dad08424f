"""Real git repositories for tests."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Repo:
    """A repository in a temporary directory."""

    path: Path

    def git(self, *args: str, check: bool = True) -> str:
        """Run git here; its stdout without the last newline."""
        done = subprocess.run(
            ["git", *args],
            cwd=self.path,
            check=False,
            capture_output=True,
            text=True,
            env={k: v for k, v in os.environ.items() if not k.startswith("GIT_")},
        )
        if check and done.returncode != 0:
            message = f"git {' '.join(args)}: exit {done.returncode}\n{done.stderr}"
            raise AssertionError(message)
        return done.stdout.rstrip("\n")

    def write(self, files: Mapping[str, str]) -> None:
        """Write files, named relative to the repository; a text that starts with `#!` may run."""
        for name, text in files.items():
            path = self.path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            if text.startswith("#!"):
                path.chmod(0o755)

    def commit(self, message: str = "change", files: Mapping[str, str] | None = None) -> str:
        """Commit everything that is there, with `files` written first; the new commit's id."""
        self.write(files or {})
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)
        return self.head()

    def head(self) -> str:
        """The commit that HEAD names."""
        return self.git("rev-parse", "HEAD")


def make_repo(
    path: Path,
    files: Mapping[str, str] | None = None,
    *,
    branch: str = "main",
    identity: bool = True,
    commit: bool = True,
) -> Repo:
    """Make a repository with one commit.

    Args:
        path: Its directory, made if missing.
        files: Name to text of what the first commit holds.
        branch: Name of the branch.
        identity: Configure a committer; without one the first commit still has one.
        commit: False: a repository without any commit.
    """
    path.mkdir(parents=True, exist_ok=True)
    repo = Repo(path)
    repo.git("init", "--quiet", f"--initial-branch={branch}")
    repo.git("config", "user.name", "Test")
    repo.git("config", "user.email", "test@example.invalid")
    repo.write(files or {})
    if commit:
        repo.commit("first")
    if not identity:
        repo.git("config", "--remove-section", "user")
    return repo
