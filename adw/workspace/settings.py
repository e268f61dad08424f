"""Settings of git that start programs or lead elsewhere, watched while phases run.

A phase can write into the configuration that all worktrees of a repository share. What it plants
there would run when adw commits or pushes with the user's own filters, hooks and helpers. So the
settings are read before the first phase of a sitting starts, and compared before such a program.

A look costs no process while the bytes of the files are the same. Files that are included by a
setting count by their name alone.

Source: git-config(1), gitattributes(5), githooks(5).
"""

import os
import re
from typing import Final

from adw.store import files
from adw.workspace.git import ask_git

_LIMIT: Final = 4 << 20  # bytes of a configuration file
_SHOWN: Final = 5
_WATCHED: Final = re.compile(
    r"""core\.(sshcommand|fsmonitor|hookspath|editor|pager|askpass|attributesfile|gitproxy|worktree)
    | sequence\.editor | filter\..*\.(clean|smudge|process)
    | diff\.external | diff\..*\.(command|textconv) | merge\..*\.driver
    | include\.path | includeif\..*\.path | extensions\.worktreeconfig
    | credential(\..*)?\.helper | gpg(\..*)?\.program | gpg\.ssh\.defaultkeycommand
    | url\..*\.(insteadof|pushinsteadof) | remote\..*\.(url|pushurl|receivepack|uploadpack|proxy|vcs)
    | submodule\..*\.update | protocol\..* | http(\..*)?\.(proxy|sslverify|cookiefile)
    | trailer\..*\.(cmd|command)""",
    re.VERBOSE | re.IGNORECASE,
)


class Settings:
    """What git's settings were when this was made."""

    def __init__(self, git_dir: str, admin: str) -> None:
        """Read them.

        Args:
            git_dir: The directory that all worktrees share.
            admin: The worktree's own git directory.
        """
        self._git_dir = git_dir
        self._paths = (os.path.join(git_dir, "config"), os.path.join(admin, "config.worktree"))
        self._attributes = os.path.join(git_dir, "info", "attributes")
        self._old = [_bytes(path) for path in self._paths]
        self._old_attributes = _bytes(self._attributes)
        self._hooks = _hooks(git_dir)

    def changed(self) -> list[str]:
        """What is otherwise by now: keys of settings, and files below the git directory."""
        found: set[str] = set()
        for path, old in zip(self._paths, self._old, strict=True):
            new = _bytes(path)
            if new != old:
                found |= {key for key, _ in set(self._values(old)) ^ set(self._values(new))}
        if _bytes(self._attributes) != self._old_attributes:
            found.add("info/attributes")
        new_hooks = _hooks(self._git_dir)
        found |= {f"hooks/{name}" for name, _ in self._hooks ^ new_hooks}
        return sorted(found)

    def _values(self, data: bytes) -> list[tuple[str, str]]:
        """Watched keys with their values; a file that git cannot read is one value itself."""
        args = ["config", "--file", "-", "--no-includes", "--list", "-z"]
        done = ask_git(args, self._git_dir, kind="read", stdin=data)
        if done.exit_code != 0:
            return [("config", data.decode("utf-8", "replace"))]
        pairs = (
            each.partition("\n") for each in done.stdout.decode("utf-8", "replace").split("\0")
        )
        return [(key, value) for key, _, value in pairs if _WATCHED.fullmatch(key)]


def named(keys: list[str]) -> str:
    """Such as: `core.hookspath`, `hooks/pre-commit` and 3 more."""
    more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    # The middle of a key is whatever somebody wrote there.
    shown = ("".join(c if c.isprintable() else "?" for c in key[:100]) for key in keys[:_SHOWN])
    return ", ".join(f"`{key}`" for key in shown) + more


def _bytes(path: str) -> bytes:
    try:
        return files.read(path, limit=_LIMIT)
    except OSError as error:
        return b"" if isinstance(error, FileNotFoundError) else str(error).encode()


def _hooks(git_dir: str) -> set[tuple[str, tuple[int, ...]]]:
    """Hooks that can run, each with what changes when its content does."""
    found: set[tuple[str, tuple[int, ...]]] = set()
    folder = os.path.join(git_dir, "hooks")
    for name in os.listdir(folder) if os.path.isdir(folder) else ():
        if not name.endswith(".sample"):
            try:
                info = os.stat(os.path.join(folder, name))
            except OSError:
                continue
            if info.st_mode & 0o111:
                facts = (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
                found.add((name, facts))
    return found
