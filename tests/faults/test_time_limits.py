"""A phase's time limit, and the end of its tree, whoever of its watchers is dead."""

import os
import signal
import sys

import pytest

from tests.faults.conftest import MakeGround, disable, swept
from tests.support.ground import Ground, dead, kill, phase
from tests.support.wait import until

DAEMON = f"""{sys.executable} -I -S -c '
import os
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
with open(os.environ["GROUND"] + "/.daemon", "w") as file: file.write(str(os.getpid()))
os.rename(os.environ["GROUND"] + "/.daemon", os.environ["GROUND"] + "/daemon")
os.closerange(0, 64)
os.execve("/bin/sleep", ["sleep", "1000"], {{}})'
"""
"""Shell text that leaves a daemon: forked twice, own session, nothing open, no environment."""

STUBBORN = """(trap "" TERM; sh -c 'trap "" TERM; echo $$ > "$GROUND/stubborn"; while :; do sleep 0.1; done') &
"""
"""Shell text that leaves a grandchild which ignores SIGTERM."""

READY = """while [ ! -s "$GROUND/daemon" ] || [ ! -s "$GROUND/stubborn" ]; do sleep 0.02; done
echo $$ > "$GROUND/body"
"""


class Tree:
    """A run whose phase has left a daemon and a stubborn grandchild, its orchestrator killed."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        process = ground.start("run", "w", "47")
        self.pids = {name: ground.pid(name) for name in ("body", "daemon", "stubborn")}
        process.kill()
        process.wait()
        assert not any(dead(pid) for pid in self.pids.values())

    def await_end(self, *but: str) -> None:
        """Wait until all of it is dead."""
        for name in set(self.pids) - set(but):
            until(lambda pid=self.pids[name]: dead(pid), what=f"death of the {name}")  # type: ignore[misc]


@pytest.mark.fault("F59", by="a body that ignores TERM")
@pytest.mark.sweep
@pytest.mark.parametrize("mode", swept(["cgroup", "tag"], "cgroup"), indirect=True)
def test_case_E1_the_time_limit_holds_without_an_orchestrator(
    make_ground: MakeGround, mode: str
) -> None:
    text = f"{DAEMON}{STUBBORN}{READY}sleep 1000"
    ground = make_ground({"build": phase(text, timeout="2s")}, env=disable(mode))
    tree = Tree(ground)
    line = ground.await_line("build-1", "exit")

    assert line["reason"] == "timeout"
    assert line["survivors"] == []
    assert all(dead(pid) for pid in tree.pids.values())
    done = ground.adw("resume", ground.adw_id)
    assert done.exit_code == 1, done.told()
    assert ground.entries() == [("build", 1, False, "timeout")]
    ground.all_gone()


def gated(text: str) -> str:
    """A phase whose first attempt hangs and whose second succeeds."""
    return f'if [ "$ADW_ATTEMPT" != 1 ]; then exit 0; fi; {text}{READY}sleep 1000'


@pytest.mark.fault("F4", "F58", by="SIGKILL of both")
@pytest.mark.sweep
def test_with_the_supervisor_killed_too_the_tree_is_gone_after_resume(
    make_ground: MakeGround, mode: str
) -> None:
    phases = {"build": phase(gated(f"{DAEMON}{STUBBORN}"), timeout="60s")}
    ground = make_ground(phases, env=disable(mode))
    tree = Tree(ground)
    kill(ground.await_line("build-1", "supervisor")["pid"])

    ground.ok("resume", ground.adw_id)
    assert all(dead(pid) for pid in tree.pids.values())
    assert ground.entries() == [("build", 1, False, "lost"), ("build", 2, True, None)]
    lost = ground.events("child_completed")[0]
    assert "unproved" not in lost["detail"]
    ground.all_gone()


@pytest.mark.fault("F4", "F58", by="SIGKILL of all three")
@pytest.mark.sweep
def test_with_the_nursery_killed_too_a_cgroup_proves_and_a_tag_says_that_it_does_not(
    make_ground: MakeGround, mode: str
) -> None:
    phases = {"build": phase(gated(f"{DAEMON}{STUBBORN}"), timeout="60s")}
    ground = make_ground(phases, env=disable(mode))
    tree = Tree(ground)
    line = ground.await_line("build-1", "supervisor")
    kill(line["nursery"]["pid"])
    kill(line["pid"])

    ground.ok("resume", ground.adw_id)
    assert ground.entries() == [("build", 1, False, "lost"), ("build", 2, True, None)]
    detail = ground.events("child_completed")[0]["detail"]
    if mode == "cgroup":
        assert all(dead(pid) for pid in tree.pids.values())
        assert "unproved" not in detail
    else:
        tree.await_end("daemon")
        assert "tree: unproved" in detail
        attempt = ground.status(ground.adw_id)["phases"][0]["attempts"][0]
        assert "tree: unproved" in attempt["detail"]
        kill(tree.pids["daemon"])  # cleared its environment: what `tag` does not promise to find
    ground.all_gone()


@pytest.mark.sweep
def test_an_idle_limit_holds_without_an_orchestrator(make_ground: MakeGround) -> None:
    text = 'echo $$ > "$GROUND/body"; echo said; sleep 1000'
    ground = make_ground({"build": phase(text, idle_timeout="1s")})
    process = ground.start("run", "w", "47")
    body = ground.pid()
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert ground.await_line("build-1", "exit")["reason"] == "idle"
    assert dead(body)
    assert ground.adw("resume", ground.adw_id).exit_code == 1
    assert ground.entries() == [("build", 1, False, "idle")]
