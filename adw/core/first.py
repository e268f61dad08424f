"""The phase `setup` of adw.yaml: it prepares the worktree, and all others wait for it."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from adw.core.graph import Phase

SETUP: Final = "setup"
"""Its name; no phase of the workflow can have it too."""

Command = str | Sequence[str]
"""Text for `sh -euc`, or words."""


def argv_of(command: Command) -> tuple[str, ...]:
    """The words that are started."""
    return ("sh", "-euc", command) if isinstance(command, str) else tuple(command)


def after_setup(phases: Sequence[Phase], setup: Command, limits: Mapping[str, Any]) -> list[Phase]:
    """Put the phase `setup` before all others.

    Args:
        phases: Of the workflow, in declared order; none is called `setup`.
        setup: Its command.
        limits: What it may use at most, by the names of `Phase`.

    Returns:
        It, then the others; what needed nothing and is started by itself needs it now.
    """
    called = {phase.repair.phase for phase in phases if phase.repair}
    keys = json.dumps({"run": setup}, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    first = Phase(
        SETUP,
        argv=argv_of(setup),
        digest=hashlib.sha256(keys.encode()).hexdigest(),
        **limits,
    )
    later = (p if p.needs or p.name in called else replace(p, needs=(SETUP,)) for p in phases)
    return [first, *later]
