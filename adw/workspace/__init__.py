"""Git, worktrees and network ports."""
