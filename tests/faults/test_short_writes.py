"""Every write to a file is short, in all processes of a run: nothing is torn, nothing is lost."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.faults import three_phases
from tests.support.counting import tally
from tests.support.ground import Ground
from tests.support.shims import compiled

_SHIM: Final = Path(__file__).with_name("short_writes.c")


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Environment in which writes are short."""
    return {
        "LD_PRELOAD": compiled(_SHIM, tmp_path),
        "SHORT_WRITES": str(tmp_path / "shortened"),
    }


def test_the_shim_shortens_writes(env: dict[str, str], tmp_path: Path) -> None:
    code = "import os; print(os.write(os.open('x', os.O_CREAT | os.O_WRONLY), b'plan'))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **env},
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    assert done.stdout == b"2\n"
    assert (tmp_path / "x").read_bytes() == b"pl"
    assert (tmp_path / "shortened").read_bytes() == b"."


@pytest.mark.fault("F23", by="a library that cuts each write to a file, in all processes of a run")
def test_P4_a_run_all_of_whose_writes_are_short(env: dict[str, str], tmp_path: Path) -> None:
    ground = three_phases.three_phases(tmp_path / "ground", env=env, config={"env_pass": list(env)})
    try:
        ground.ok("run", "w", "47")
        shortened = (tmp_path / "shortened").stat().st_size
        three_phases.assert_over(ground)
        assert_whole(ground)
        ground.ok("doctor")
    finally:
        ground.end()
    tally(shortened, shortened, what="writes cut to their half")
    assert shortened > 100


def assert_whole(ground: Ground) -> None:
    """Each document can be read, each line of each file of lines too."""
    for path in ground.run_dir.rglob("*.json"):
        json.loads(path.read_bytes())
    for path in ground.run_dir.rglob("*.jsonl"):
        data = path.read_bytes()
        assert data.endswith(b"\n"), path
        assert all(isinstance(json.loads(line), dict) for line in data.splitlines()), path
