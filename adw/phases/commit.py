"""The program of `use: commit`: commits all that the run changed, once.

Safe to be killed and started again at any instant: it is an effect of the round, with parent and
content in its key, and the trailer `ADW-Effect` in HEAD tells that the commit was made. The user's hooks, filters and signing count; a refusal of theirs fails the
phase with git's own text and leaves the tree as it is. What came of it is left as `commit.json`
among the attempt's artifacts, written after the commit stands, and anew by each attempt.
"""

import json
import os
import re
import sys
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from adw.errors import AdwError, StoreError, UsageError
from adw.phases.api import Context, intended, write_result
from adw.store import effects, files
from adw.store.effects import Effect
from adw.workspace.copying import copied_into
from adw.workspace.git import run_git, stand_in_identity
from adw.workspace.worktree import Worktree, inside

_SUBJECT_LIMIT: Final = 72  # characters
_TITLE_LIMIT: Final = 4096  # characters looked at
_DROPPED: Final = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}  # controls, invisible, line breaks
_SHA: Final = re.compile(r"\A[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")


def main() -> int:
    """Commit, and write commit.json and result.json.

    Returns:
        Exit code: 0 where the commit stands, 1 with a message on stderr otherwise.
    """
    try:
        context = Context.from_env()
        summary, sha = commit(context)
        record(context, sha)
        write_result(summary=summary, data={"commit": sha})
    except AdwError as error:
        sys.stderr.write(error.render() + "\n")
        return 1
    sys.stdout.write(summary + "\n")
    return 0


def commit(context: Context) -> tuple[str, str]:
    """Commit everything in the worktree.

    Args:
        context: The phase's environment; its worktree is on the run's branch.

    Returns:
        One line for people, and the commit's id.

    Raises:
        GitError: git, a hook or the signing program refused.
        WorktreeError: The worktree is not on the run's branch.
        UsageError: Nothing changed since the run began.
    """
    tree = inside(context.worktree, context.branch or "")
    before = tree.check().head or ""
    tree.mend_locks()
    run = _run_file(context.state_root)
    mark = f"{context.adw_id}/{context.phase}/{context.round}"
    _git(context, "add", "-A", "--sparse")  # also what a phase made outside of a sparse checkout
    _unstage_copies(context)
    head = _tip(context)
    content = _git(context, "write-tree").decode().strip()
    if content != head.tree:
        wanted = _Tip("", head.sha, content, (mark,))
        effects.taken_back(_named(context, wanted), "the branch does not have that commit any more")
        sha = _once(context, tree, message(context, run, mark), head, wanted)
        return f"committed {sha[:12]} on {context.branch}", sha
    if mark in head.marks:
        _once(context, tree, message(context, run, mark), head, replace(head, marks=(mark,)))
        return f"already committed as {before[:12]} on {context.branch}", before
    count = _commits_since(context, str(run.get("base") or ""))
    if count:
        return f"nothing new to commit; {context.branch} is {count} ahead of its base", before
    raise UsageError(
        detail="nothing to commit: the run changed no file",
        fix="let an earlier phase change something, or leave this phase out",
    )


def _once(context: Context, tree: Worktree, text: bytes, head: "_Tip", wanted: "_Tip") -> str:
    """Make the commit, or find that it was made: an effect whose key names parent and content.

    Args:
        context: The phase's environment.
        tree: Its worktree.
        text: The commit message.
        head: HEAD as it is now.
        wanted: Parent, content and mark of the commit.

    Returns:
        The commit's id.
    """
    seen = [head]

    def act() -> str:
        command = ["commit", "--quiet", "--cleanup=whitespace", "-F", "-"]
        _git(context, *identity(context), *command, stdin=text)
        return tree.check().head or ""

    def look() -> str | None:
        now = seen.pop() if seen else _tip(context)
        ours = (now.parent, now.tree) == (wanted.parent, wanted.tree)
        return now.sha if ours and wanted.marks[0] in now.marks else None

    named = _named(context, wanted, text)
    return str(effects.perform(named, act, look).record["output"])


def _named(context: Context, wanted: "_Tip", text: bytes = b"") -> Effect:
    return intended(context, f"commit-{wanted.parent[:12]}-{wanted.tree}", payload=text)


@dataclass(frozen=True, slots=True)
class _Tip:
    """A commit: HEAD, or one that is to be made."""

    sha: str
    parent: str
    """The first one; empty where there is none."""
    tree: str
    marks: tuple[str, ...]
    """Values of its trailers `ADW-Effect`."""


def _tip(context: Context) -> _Tip:
    shown = "%H%n%P%n%T%n%(trailers:key=ADW-Effect,valueonly)"
    text = _git(context, "log", "-1", f"--format={shown}").decode("utf-8", "replace")
    sha, parents, tree, *marks = text.split("\n")
    return _Tip(sha, parents.partition(" ")[0], tree, tuple(marks))


def record(context: Context, sha: str) -> None:
    """Write `commit.json` into the attempt's artifacts.

    Raises:
        StoreError: It cannot be written; the commit stands.
    """
    base = str(_run_file(context.state_root).get("base") or "")
    subject = _git(context, "log", "-1", "--format=%s", sha, "--").decode("utf-8", "replace")
    found = {
        "schema_version": 1,
        "branch": context.branch,
        "base": base if _SHA.match(base) else None,
        "commit": sha,
        "subject": subject.rstrip("\n"),
    }
    path = os.path.join(context.artifacts, "commit.json")
    try:
        files.make_dir(context.artifacts, exist_ok=True)
        files.replace(path, json.dumps(found, indent=1).encode() + b"\n")
    except OSError as error:
        raise StoreError.of(error, path) from error


def message(context: Context, run: Mapping[str, Any], effect: str) -> bytes:
    """The commit message: the issue's title, and trailers that say which run made it.

    The title is a stranger's text: it becomes one line without control or invisible characters.
    """
    issue = run.get("issue")
    title = issue.get("title") if isinstance(issue, dict) else None
    shown = "".join(
        " " if unicodedata.category(c) in _DROPPED else c
        for c in str(title or "")[:_TITLE_LIMIT]
        if unicodedata.category(c) != "Cf"
    )
    subject = " ".join(shown.split())[:_SUBJECT_LIMIT].rstrip()
    lines = [subject or f"Work of run {context.adw_id}", ""]
    lines += [f"ADW-Effect: {effect}", f"ADW-Run: {context.adw_id}"]
    if context.issue_number is not None:
        lines.append(f"Issue: #{context.issue_number}")
    return "\n".join(lines).encode() + b"\n"


def _git(context: Context, *args: str, stdin: bytes | None = None) -> bytes:
    # No time limit of its own: hooks may take long, and the phase has its limits.
    return run_git(
        args,
        context.worktree,
        kind="commit",
        stdin=stdin,
        timeout_s=None,
        env=_fenced(context),
    )


def _fenced(context: Context) -> dict[str, str]:
    """Keep git from the repository around the worktree, should its `.git` vanish meanwhile."""
    return {"GIT_CEILING_DIRECTORIES": os.path.dirname(os.path.realpath(context.worktree))}


def _unstage_copies(context: Context) -> None:
    """Take what adw copied into the worktree out again, should a phase have forced it in."""
    paths = [os.fsencode(path) for path in copied_into(context.worktree)]
    if paths:
        args = ["reset", "--quiet", "--pathspec-from-file=-", "--pathspec-file-nul"]
        words = ["--literal-pathspecs", *args]
        _git(context, *words, stdin=b"\0".join(paths) + b"\0")


def identity(context: Context) -> list[str]:
    """Settings that stand in for an identity which the user has not configured."""
    return stand_in_identity([], context.worktree, _fenced(context))


def _commits_since(context: Context, base: str) -> int:
    if not _SHA.match(base):
        return 0
    return int(_git(context, "rev-list", "--count", f"{base}..HEAD"))


def _run_file(state_root: str) -> dict[str, Any]:
    """`run.json`; what it cannot say is left out of the message."""
    try:
        found = json.loads(files.read(os.path.join(state_root, "run.json")))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    sys.exit(main())
