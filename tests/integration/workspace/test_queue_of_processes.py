"""Never more than the limit work at once, and everybody has a turn, whoever is killed when."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

QUEUEING = Path(__file__).with_name("queueing.py")


@pytest.mark.parametrize(
    ("seconds", "seed", "turns", "runs"),
    [(2, 1, 6, 3), pytest.param(30, 2, 100, 5, marks=[pytest.mark.sweep, pytest.mark.timeout(90)])],
)
def test_case_K6_the_limit_holds_while_processes_are_killed_at_any_moment(
    tmp_path: Path, seconds: int, seed: int, turns: int, runs: int
) -> None:
    done = subprocess.run(
        [sys.executable, str(QUEUEING), str(tmp_path), "5", "2", str(seconds), str(seed)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds + 50,
    )

    assert (done.returncode, done.stderr) == (0, "")
    told = re.fullmatch(r"(\d+) turns of (\d) runs, (\d+) kills\n", done.stdout)
    assert told, done.stdout
    assert int(told[1]) >= turns
    assert int(told[2]) >= runs
    assert int(told[3]) >= 10
