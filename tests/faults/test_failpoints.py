"""A failpoint kills at its name, at its count, and nowhere else."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from adw import failpoints

ROOT = Path(__file__).parents[2]


def hits(armed: str | None, *names: str) -> int:
    """Exit status of a process that reaches these points in turn."""
    script = "import sys\nfrom adw import failpoints\nfor n in sys.argv[1:]: failpoints.hit(n)\n"
    done = subprocess.run(
        [sys.executable, "-c", script, *names],
        env={"ADW_FAILPOINT": armed} if armed else {},
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode


@pytest.mark.parametrize(
    ("armed", "names", "status"),
    [
        (None, ["go.before"], 0),
        ("go.before", ["go.before"], -signal.SIGKILL),
        ("go.before", ["go.after"], 0),
        ("go.before:2", ["go.before"], 0),
        ("go.before:2", ["go.before", "go.after", "go.before"], -signal.SIGKILL),
        ("go.before", ["no.such.point"], 1),
    ],
)
def test_it_kills_there_and_nowhere_else(armed: str | None, names: list[str], status: int) -> None:
    assert hits(armed, *names) == status


def test_every_name_is_at_one_place_and_every_place_has_a_name() -> None:
    found: list[str] = []
    for path in (ROOT / "adw").rglob("*.py"):
        found += re.findall(r"failpoints\.hit\(\s*\"([^\"]+)\"", path.read_text(encoding="utf-8"))

    assert set(found) == failpoints.NAMES
