"""The environment of a commit phase."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adw.phases.api import Context
from adw.workspace.worktree import Worktree


def phase_env(
    tree: Worktree,
    state_root: Path,
    *,
    run: Mapping[str, Any] | None = None,
    issue_number: int | None = 47,
) -> dict[str, str]:
    """As adw makes it for phase `commit`, attempt 1; writes `run.json` where it is given."""
    if run is not None:
        (state_root / "run.json").write_text(json.dumps(run), encoding="utf-8")
    return {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "ADW_ID": os.path.basename(tree.path),
        "ADW_PHASE": "commit",
        "ADW_ATTEMPT": "1",
        "ADW_CHILD": "commit-1",
        "ADW_STATE": str(state_root / "adw_state.json"),
        "ADW_STATE_ROOT": str(state_root),
        "ADW_TASK": str(state_root / "TASK.md"),
        "ADW_RESPONSE": str(state_root / "RESPONSE.md"),
        "ADW_RESULT": str(state_root / "result.json"),
        "ADW_ARTIFACTS": str(state_root / "artifacts"),
        "ADW_INPUTS": "{}",
        "ADW_WORKTREE": tree.path,
        "ADW_BRANCH": tree.branch,
        "ADW_ISSUE_NUMBER": "" if issue_number is None else str(issue_number),
        "ADW_ISSUE_CLASS": "",
        "ADW_PLAN_FILE": "",
    }


def context_for(tree: Worktree, state_root: Path, **more: Any) -> Context:
    """The same, as a phase program reads it."""
    return Context.from_env(phase_env(tree, state_root, **more))
