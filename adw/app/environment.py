"""The environment of a phase: an allow-list, the repository's `env` keys, and the ADW_* names.

Nothing else is inherited: no `GIT_*`, no `ADW_*` of an outer run, no marker by which an agent
takes itself for nested. Strangers' text never comes here.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
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


AGENT: Final = "SSH_AUTH_SOCK"


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


@dataclass(frozen=True, slots=True)
class Identity:
    """Which attempt of which run it is."""

    run_dir: str
    worktree: str
    state: ADWStateData
    child_id: str
    attempt: int
    round: int


def body_environment(
    base: Mapping[str, str], phase: Phase, who: Identity, inputs: str
) -> dict[str, str]:
    """The environment of one attempt, without its secrets.

    Args:
        base: `inherited` plus `env` of adw.yaml.
        phase: Its own `env` goes over the base.
        who: The attempt.
        inputs: JSON, logical name to absolute path.
    """
    state = who.state
    child_dir = os.path.join(who.run_dir, "children", who.child_id)
    own = {
        "ADW_ID": state.adw_id,
        "ADW_PHASE": phase.name,
        "ADW_ATTEMPT": str(who.attempt),
        "ADW_ROUND": str(who.round),
        "ADW_STATE": os.path.join(who.run_dir, "adw_state.json"),
        "ADW_STATE_ROOT": who.run_dir,
        "ADW_CHILD": who.child_id,
        "ADW_TASK": os.path.join(child_dir, "TASK.md"),
        "ADW_RESPONSE": os.path.join(child_dir, "RESPONSE.md"),
        "ADW_RESULT": os.path.join(child_dir, "result.json"),
        "ADW_ARTIFACTS": os.path.join(child_dir, "artifacts"),
        "ADW_INPUTS": inputs,
        "ADW_WORKTREE": who.worktree,
        "ADW_ISSUE_NUMBER": _text(state.issue_number),
        "ADW_ISSUE_CLASS": _text(state.issue_class),
        "ADW_BRANCH": _text(state.branch_name),
        "ADW_PLAN_FILE": _text(state.plan_file),
        "ADW_BACKEND_PORT": _text(state.backend_port),
        "ADW_FRONTEND_PORT": _text(state.frontend_port),
        "ADW_MODEL_SET": state.model_set,
    }
    if phase.use is not None:
        own["ADW_OPTIONS"] = json.dumps(dict(phase.options), ensure_ascii=False)
    if phase.secrets:
        own["ADW_SECRETS"] = ",".join(phase.secrets)
    return {**base, **dict(phase.env), **own}


def with_settings(phase: Phase, config: Mapping[str, Any]) -> Phase:
    """A phase of a built-in program with what adw.yaml says to it, under what `with` says.

    Those that speak to a remote may use the SSH agent of whoever started adw.
    """
    given: dict[str, str] = {}
    if phase.use in {"push", "tag"}:
        given["remote"] = str(config.get("remote") or "origin")
        if AGENT in os.environ:
            phase = replace(phase, env=((AGENT, os.environ[AGENT]), *phase.env))
    elif phase.use == "notify":
        given["channels"] = json.dumps(config.get("notify") or {}, ensure_ascii=False)
    return replace(phase, options=tuple({**given, **dict(phase.options)}.items()))


def _text(value: object) -> str:
    return "" if value is None else str(value)
