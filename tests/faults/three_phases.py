"""The run that the sweeps of whole runs are made of: an artifact, an effect, and a repair loop.

`plan` puts out a file, `build` reads it and has something happen outside exactly once, `test`
fails until `fix` has run. What happens outside is written below `counts`, which no fault touches:
a line in `outside` for each act, one in `told` when the phase knows that it was done.
"""

import sys
from pathlib import Path
from typing import Any, Final

from tests.support.ground import Ground, phase

_ADW: Final = f'"{sys.executable}" -m adw'
_PROBE: Final = 'grep -qx "$ADW_ID" "$GROUND/counts/outside"'
_ACT: Final = 'echo "$ADW_ID" >> "$GROUND/counts/outside"'
_EFFECT: Final = f"{_ADW} effect post --probe '{_PROBE}' -- sh -ec '{_ACT}'"

PHASES: Final[dict[str, Any]] = {
    "plan": phase(
        'mkdir -p specs; echo "the plan" > specs/plan.md',
        outputs={"plan": {"path": "specs/plan.md", "description": "What is to be done"}},
    ),
    "build": phase(
        'cat specs/plan.md > built.txt; echo "$ADW_CHILD" >> "$GROUND/counts/asked";'
        f' {_EFFECT}; echo "$ADW_CHILD" >> "$GROUND/counts/told"',
        needs=["plan"],
        inputs=["plan"],
    ),
    "test": phase(
        "test -e mended.txt", needs=["build"], writes=False, repair={"phase": "fix", "rounds": 3}
    ),
    "fix": phase("touch mended.txt"),
}
ORDER: Final = (
    ("plan", True),
    ("build", True),
    ("test", False),
    ("fix", True),
    ("test", True),
)
"""Phases and successes of an undisturbed run, in the order of its history."""


def three_phases(base: Path, **keys: Any) -> Ground:
    """Make the ground; `ORDER` is what one run of `w` on issue 47 does there."""
    ground = Ground(base, PHASES, **keys)
    (base / "counts" / "outside").touch()
    return ground


def acts(ground: Ground) -> int:
    """How often it happened outside."""
    return len((ground.base / "counts" / "outside").read_text().split())


def assert_over(ground: Ground) -> None:
    """The run ended well: all phases, one act, one outcome an attempt, nothing left behind."""
    done = [(entry[0], entry[2]) for entry in ground.entries() if entry[1] > 0]
    assert [each for each in done if each[1]] == [each for each in ORDER if each[1]], done
    tried = [(entry[0], entry[1]) for entry in ground.entries() if entry[1] > 0]
    assert len(tried) == len(set(tried)), tried
    assert acts(ground) == 1
    left = [str(path) for path in ground.agents.rglob("*.tmp")]
    left += [str(path) for path in ground.agents.glob(".new-*")]
    assert left == []
    ground.all_gone()
