"""F57: each number of a dead run is a stranger's by the time that somebody resumes or cancels."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.conftest import disable, swept
from tests.support.namespaces import INSIDE, needs_pid_namespace

REPOSITORY = Path(__file__).parents[2]


def after(base: Path, mode: str, *words: str, keep: bool) -> dict[str, Any]:
    needs_pid_namespace()
    asked = json.dumps({"env": disable(mode), "words": words, "keep": keep})
    command = [*INSIDE, sys.executable, "-m", "tests.faults.given_again", str(base), asked]
    done = subprocess.run(
        command, cwd=REPOSITORY, env=os.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.fault("F57", by="numbers given to strangers (ns_last_pid) in a PID namespace")
@pytest.mark.parametrize("keep", swept([False, True], True))
def test_P11_a_resume_neither_adopts_nor_harms_who_has_the_numbers_now(
    tmp_path: Path, mode: str, *, keep: bool
) -> None:
    found = after(tmp_path / "ground", mode, "resume", keep=keep)

    assert found["exit_code"] == 0, found["told"]
    assert found["entries"] == [["one", 1, False, "lost"], ["one", 2, True, None]]
    assert (found["adopted"], found["harmed"], found["body_lives"]) == (0, [], False)


@pytest.mark.sweep
@pytest.mark.fault("F57", by="numbers given to strangers (ns_last_pid) in a PID namespace")
@pytest.mark.parametrize("keep", [False, True])
def test_P11_a_cancel_ends_what_is_left_and_no_stranger(
    tmp_path: Path, mode: str, *, keep: bool
) -> None:
    found = after(tmp_path / "ground", mode, "cancel", keep=keep)

    assert found["exit_code"] == 0, found["told"]
    assert found["entries"][0][:3] == ["one", 1, False]
    assert (found["harmed"], found["body_lives"]) == ([], False)
