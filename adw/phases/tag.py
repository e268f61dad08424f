"""The program of `use: tag`: HEAD of the run gets a tag, here and at a remote, once.

Safe to be killed and started again at any instant. A tag of that name that leads to another commit
is never moved, neither here nor there: the phase fails.
"""

import sys

from adw.errors import UsageError
from adw.phases.api import Context, intended, options
from adw.phases.commit import identity
from adw.phases.pushing import ended, mend_lock, pushed
from adw.phases.remote import Remote
from adw.store import effects
from adw.workspace.git import ask_git, run_git
from adw.workspace.worktree import inside


def main() -> int:
    """Tag, and write result.json; exit codes as `pushing.ended` has them."""
    return ended(tag)


def tag(context: Context) -> tuple[str, dict[str, str]]:
    """Make the tag and push it.

    Returns:
        One line for people, and what goes into the result.

    Raises:
        WorktreeError: The worktree is not on the run's branch.
        UsageError: The name is none, or taken here by another commit.
        Refused: The remote refused, as it does where it has the name already.
        Unreachable: It did not answer, and does not have the tag.
        EffectUnknown: It was begun before, and the remote does not answer.
    """
    given = options()
    name = given.get("name", "")
    ref = f"refs/tags/{name}"
    if ask_git(["check-ref-format", ref], context.worktree, kind="read").exit_code != 0:
        raise UsageError(detail=f"`{name}` is no name of a tag", fix="git help check-ref-format")
    head = inside(context.worktree, context.branch or "").check().head or ""
    there = Remote.of(context, given)
    mend_lock(context, ref)
    _tag_here(context, name, head, given.get("message"))

    def look() -> str | None:
        found = there.look(ref)
        leads = found.get(f"{ref}^{{}}", found.get(ref))
        return head if leads == head else None

    named = intended(context, f"tag {head} as {name[:120]}", payload=f"{head}:{ref}".encode())
    found = effects.perform(named, lambda: pushed(there, ref, ref, look), look)
    data = {"remote": there.name, "tag": name, "commit": head}
    if found.acted:
        return f"tagged {head[:12]} as {name}, here and at {there.name}", data
    return f"{there.name} has {head[:12]} as {name} already", data


def _tag_here(context: Context, name: str, head: str, message: str | None) -> None:
    """Make the tag in this repository, unless it is there.

    Raises:
        UsageError: It leads to another commit.
        GitError: git refused, such as a signing program.
    """
    query = ["rev-parse", "--verify", "--quiet", f"refs/tags/{name}^{{commit}}"]
    leads = ask_git(query, context.worktree, kind="read").stdout.decode().strip()
    if leads and leads != head:
        detail = f"the tag `{name}` is taken: it leads to {leads[:12]}, not to {head[:12]}"
        raise UsageError(detail=detail, fix="name another one")
    if leads:
        return
    words = ["tag", name, head]
    if message:
        words = [*identity(context), "tag", "--annotate", "--file=-", "--", name, head]
    text = message.encode() if message else None
    run_git(words, context.worktree, kind="commit", stdin=text)


if __name__ == "__main__":
    sys.exit(main())
