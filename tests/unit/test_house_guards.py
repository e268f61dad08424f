"""The guards of conftest.py go off."""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import conftest
from tests.support import leftovers
from tests.support.adw import Adw, forget_unfinished
from tests.support.wait import StillNot, until


def test_the_network_guard_names_the_mistake() -> None:
    with socket.socket() as sock, pytest.raises(conftest.UsedTheNetwork, match=r"192\.0\.2\.1"):
        sock.connect(("192.0.2.1", 80))


def test_the_network_guard_lets_the_loopback_through() -> None:
    with socket.socket() as server, socket.socket() as client:
        server.bind(("127.0.0.1", 0))
        server.listen()

        client.connect(server.getsockname())


def test_the_home_directory_is_an_empty_one_of_the_tests() -> None:
    assert os.listdir(Path.home()) == []
    assert "pytest" in str(Path.home())


def test_a_command_that_never_ran_is_remembered(tmp_path: Path) -> None:
    Adw(tmp_path).run("status", "cc73faf1")

    assert forget_unfinished() == ["adw status cc73faf1"]


def test_waiting_ends_with_the_last_answer() -> None:
    with pytest.raises(StillNot, match=r"the answer after 0 s: 0"):
        until(lambda: 0, timeout_s=0, what="the answer")


def test_a_child_that_was_left_behind_is_found_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0)
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)

    told = leftovers.end_processes(os.getpid(), None)

    assert told == [f"{child.pid}: {sys.executable} -c input()"]
    assert child.poll() is not None
    assert child.stdin is not None
    child.stdin.close()


def named(name: str, pids: Iterable[int]) -> bool:
    """Whether one of them is this program by now: a shell's copy becomes setsid(1), then cat(1)."""
    with contextlib.suppress(OSError):
        return any(Path(f"/proc/{pid}/comm").read_text() == f"{name}\n" for pid in pids)
    return False


def test_an_orphan_is_found_by_the_directory_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leftovers, "_PATIENCE_S", 0)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    # A daemon: its parent ends at once; the shell's own variables name the temporary directory.
    subprocess.run(
        ["sh", "-c", f"ADW_STATE_ROOT={tmp_path} setsid cat {fifo} >/dev/null 2>&1 &"],
        cwd="/",
        check=True,
    )
    until(lambda: named("cat", leftovers._find(os.getpid(), str(tmp_path.parent))))

    told = leftovers.end_processes(os.getpid(), str(tmp_path.parent))

    assert [line.partition(": ")[2] for line in told] == [f"cat {fifo}"]


def test_a_mount_below_the_folder_of_another_living_run_is_not_ours(tmp_path: Path) -> None:
    base = tmp_path / "pytest-of-me" / "pytest-3"
    base.mkdir(parents=True)
    for pid, others in ((os.getppid(), True), (os.getpid(), False), ("", False)):
        (base / ".lock").write_text(str(pid))
        assert leftovers._of_others(f"{base}/test_a/disk") is others
    assert not leftovers._of_others("/mnt")
