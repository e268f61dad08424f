"""The environment of a phase: an allow-list, the repository's `env` keys, and the ADW_* names.

Nothing else is inherited: no `GIT_*`, no `ADW_*` of an outer run, no marker by which an agent
takes itself for nested. Strangers' text never comes here.
"""

import os
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from adw.core.graph import Phase
from adw.model.state import ADWStateData

ALLOWED: Final = frozenset(
    {
        "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR", "TERM", "VIRTUAL_ENV",
        "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
        "SSL_CERT_FILE", "SSL_CERT_DIR",
    }
)  # fmt: skip
ALLOWED_GLOBS: Final = ("LC_*", "XDG_*")
NEVER: Final = ("ADW_*", "GIT_*", "CLAUDECODE", "CLAUDE_CODE_*")
"""Wins over `env_pass`: these would make a phase act on the wrong repository or believe itself
nested."""


def inherited(source: Mapping[str, str], env_pass: Sequence[str]) -> dict[str, str]:
    """What a phase inherits from the environment adw was started in.

    Args:
        source: Usually `os.environ`.
        env_pass: Globs of more names, from adw.yaml.
    """
    globs = (*ALLOWED_GLOBS, *env_pass)
    return {
        name: value
        for name, value in source.items()
        if (name in ALLOWED or _fits(name, globs)) and not _fits(name, NEVER)
    }


def _fits(name: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs)


def body_environment(
    base: Mapping[str, str], phase: Phase, child_id: str, attempt: int, run: Mapping[str, Any]
) -> dict[str, str]:
    """The whole environment of one attempt.

    Args:
        base: `inherited` plus `env` of adw.yaml.
        phase: Its own `env` goes over the base.
        child_id: `<phase>-<attempt>`.
        attempt: Its number.
        run: `run_dir`, `worktree`, `state` (an ADWStateData).
    """
    state: ADWStateData = run["state"]
    child_dir = os.path.join(run["run_dir"], "children", child_id)
    own = {
        "ADW_ID": state.adw_id,
        "ADW_PHASE": phase.name,
        "ADW_ATTEMPT": str(attempt),
        "ADW_STATE": os.path.join(run["run_dir"], "adw_state.json"),
        "ADW_STATE_ROOT": run["run_dir"],
        "ADW_CHILD": child_id,
        "ADW_TASK": os.path.join(child_dir, "TASK.md"),
        "ADW_RESPONSE": os.path.join(child_dir, "RESPONSE.md"),
        "ADW_RESULT": os.path.join(child_dir, "result.json"),
        "ADW_ARTIFACTS": os.path.join(child_dir, "artifacts"),
        "ADW_INPUTS": "{}",
        "ADW_WORKTREE": run["worktree"],
        "ADW_ISSUE_NUMBER": _text(state.issue_number),
        "ADW_ISSUE_CLASS": _text(state.issue_class),
        "ADW_BRANCH": _text(state.branch_name),
        "ADW_PLAN_FILE": _text(state.plan_file),
        "ADW_BACKEND_PORT": _text(state.backend_port),
        "ADW_FRONTEND_PORT": _text(state.frontend_port),
        "ADW_MODEL_SET": state.model_set,
    }
    return {**base, **dict(phase.env), **own}


def _text(value: object) -> str:
    return "" if value is None else str(value)
