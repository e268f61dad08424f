"""What a worktree needs beyond what git checks out, put there before a phase works in it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from adw.workspace import copying
from adw.workspace.registration import Place
from adw.workspace.repository import Repository

if TYPE_CHECKING:
    from adw.app.session import Session


def bring_copies(
    session: "Session", repo: Repository, action: str, say: Callable[[str], None]
) -> None:
    """Copy what `copy:` lists and the worktree lacks; nothing runs in it.

    Args:
        session: Opened; its worktree is complete.
        repo: As located.
        action: What was done to have the worktree: `reused`, or how it was made.
        say: Takes a line for people.

    Raises:
        GitError: git refused.
        StoreError: A file could not be written.
    """
    names: Any = session.parts.config.get("copy")
    if not names:
        return
    tree = session.parts.worktree
    place = Place(repo.git_dir, tree.path, session.state.branch_name or "")
    for line in copying.bring(repo, place, names, fresh=action != "reused"):
        session.event("warning", {"detail": line})
        say(f"warning: {line}")
