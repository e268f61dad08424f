"""Secrets in the commits that a push would take out of the house.

What a phase was given may stand in a file that it committed, in the file's name, or in a commit's
message. Best effort: it is looked for as it is, and in the encodings that logs are cleaned of;
what was compressed, encrypted or split is not found.

Source: git-log(1) "DIFF FORMATTING", "COMBINED DIFF FORMAT".
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from adw.workspace.git import chunks_of_git, run_git

_MARK: Final = b"\x01commit "
_PATCHES: Final = (
    "-c", "core.quotePath=false", "log", "--format=%x01commit %H%n%an%n%ae%n%cn%n%ce%n%B", "-p", "-c",
    "--text", "--unified=0", "--no-renames", "--no-color", "--no-ext-diff", "--no-textconv",
    "--no-show-signature", "--no-notes", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/",
)  # fmt: skip
_LINE_LIMIT: Final = 1 << 20  # bytes of a line that are held at once


@dataclass(frozen=True, slots=True)
class Leak:
    """One secret in one commit."""

    commit: str
    path: str | None
    """None: it stands in the message, in the name of who committed, or in the file's name."""
    name: str
    """Of the secret."""


def leaks(worktree: str, base: str, forms: Mapping[bytes, str]) -> list[Leak]:
    """Look through what the commits since one have added.

    Args:
        worktree: Where HEAD is the newest of them.
        base: The commit where the run began; what is in its history is out already.
        forms: Names of secrets, by each form that is looked for; none of them empty.

    Returns:
        Each secret once for each commit and file, in the order of `git log`.

    Raises:
        GitError: The commits cannot be read.
    """
    new = f"{base}..HEAD"
    if not forms or int(run_git(["rev-list", "--count", new, "--"], worktree, kind="read")) == 0:
        return []
    search = _Search(dict(forms))
    search.all_of(chunks_of_git([*_PATCHES, new, "--"], worktree))
    return list(search.found)


@dataclass
class _Search:
    """Reads the output of `git log`."""

    forms: dict[bytes, str]
    found: dict[Leak, None] = field(default_factory=dict)
    _commit: str = ""
    _path: str | None = None
    _in_patch: bool = False

    def __post_init__(self) -> None:
        longest_first = sorted(self.forms, key=len, reverse=True)
        self._pattern = re.compile(b"|".join(map(re.escape, longest_first)))
        self._overlap = len(longest_first[0])

    def all_of(self, chunks: Iterable[bytes]) -> None:
        held = b""
        for chunk in chunks:
            *lines, held = (held + chunk).split(b"\n")
            for line in lines:
                self._take(line)
            if len(held) > _LINE_LIMIT:
                self._take(held)
                # The sign in front says of the rest, too, whether it was added.
                held = held[:1] + held[-self._overlap :]
        self._take(held)

    def _take(self, line: bytes) -> None:
        if line.startswith(_MARK):
            self._commit = line.removeprefix(_MARK).decode("ascii", "replace")
            self._path, self._in_patch = None, False
        elif line.startswith(b"diff --"):
            self._path, self._in_patch = None, True
        elif self._in_patch and line.startswith(b"-"):
            return  # what was taken out was put in before
        elif self._in_patch and line.startswith(b"+++ b/"):
            # A tab ends a name in which there is a space.
            self._path = line.removeprefix(b"+++ b/").rstrip(b"\t").decode("utf-8", "replace")
            if self._pattern.search(line):
                self._path = None
        for match in self._pattern.finditer(line):
            self.found.setdefault(Leak(self._commit, self._path, self.forms[match[0]]))
