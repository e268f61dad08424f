"""A whole run is killed while the remote has taken a comment and has not answered yet.

Whoever dies, the phase program, its supervisor, the orchestrator or all of them: one plain resume
ends the run, and the remote has one comment.
"""

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.test_effect_syscalls import PROGRAM
from tests.support.fake_remote import Remote, serving
from tests.support.ground import Done, Ground, dead, phase
from tests.support.wait import until


@pytest.fixture
def remote() -> Iterator[Remote]:
    with serving(Remote(["held"])) as found:
        yield found


@pytest.fixture
def ground(tmp_path: Path, remote: Remote) -> Iterator[Ground]:
    text = f'echo $$ > "$GROUND/body"; exec "{sys.executable}" "{PROGRAM}"'
    phases = {"tell": phase(text, retry={"attempts": 2})}
    env = {"GROUND": str(tmp_path / "g"), "REMOTE": remote.url, "PYTHONPATH": os.getcwd()}
    found = Ground(tmp_path / "g", phases, config={"env": {**env, "BLIND": ""}})
    yield found
    found.end()


def begun(ground: Ground, remote: Remote) -> Any:
    """A run whose comment was taken and is not answered."""
    run = ground.start("run", "w", "47")
    until(lambda: remote.comments, what="the comment")
    return run


def end(ground: Ground, run: Any, who: str) -> None:
    """Kill them, and wait until they are dead."""
    pids = {
        "program": ground.pid(),
        "supervisor": ground.await_line("tell-1", "supervisor")["pid"],
        "orchestrator": run.pid,
    }
    for pid in [pids[who]] if who != "all" else pids.values():
        os.kill(pid, signal.SIGKILL)
    if who in {"orchestrator", "all"}:
        run.wait(10)
    else:
        until(lambda: dead(pids[who]), what=f"death of the {who}")


@pytest.mark.fault("F4", "F49", by="SIGKILL while the remote has taken a comment")
@pytest.mark.sweep
@pytest.mark.parametrize("who", ["program", "supervisor", "orchestrator", "all"])
def test_case_G3_one_comment_whoever_is_killed(ground: Ground, remote: Remote, who: str) -> None:
    run = begun(ground, remote)
    end(ground, run, who)
    remote.release.set()
    if who in {"program", "supervisor"}:
        done = Done.of(run)
        assert done.exit_code == 0, done.told()
    ground.ok("resume", ground.adw_id)

    mark = f"{ground.adw_id}/tell/1"
    assert remote.comments == [mark]
    last = ground.entries()[-1]
    assert (last[0], last[2]) == ("tell", True)
    # The orchestrator's death alone is none of the phase's business.
    assert len(ground.ran("tell")) == (1 if who == "orchestrator" else 2)
    states = [event["state"] for event in ground.events("effect_recorded")]
    assert states[-1] == "done"
