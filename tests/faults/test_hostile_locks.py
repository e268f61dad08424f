"""H37 to H39: locks that a reader holds, folders and files of others, names made beforehand."""

import fcntl
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from adw.errors import BusyError, HostLocked
from adw.store import files, runs, waiting
from adw.workspace import locks
from tests.cli import handmade
from tests.cli.handmade import ID, call, made_run
from tests.support.repo import Repo

READER: Final = """
import fcntl, os, struct, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
fcntl.fcntl(fd, fcntl.F_OFD_SETLKW, struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    """One workflow, one issue, no run."""
    return handmade.repository(tmp_path / "repo")


@contextmanager
def held_by_a_reader(path: Path) -> Iterator[int]:
    """Another process holds all locks that whoever may only read the file can hold."""
    path.touch(exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        yield process.pid
        process.communicate(b"")


@pytest.mark.hostile("H39")
@pytest.mark.parametrize("kind", ["runs", "repository", "requests"])
def test_H39_a_lock_that_a_reader_holds_is_waited_for_with_a_limit_and_the_holder_named(
    repo: Repo, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(waiting, "WAIT_S", 0.1)
    monkeypatch.setattr(waiting.take, "__defaults__", (0.1,))
    monkeypatch.setattr(locks, "REPOSITORY_WAIT_S", 0.1)
    run_dir, words = made_run(repo), repo.path.parent / "words"
    words.write_text("Keep the old flag.")
    path, act = {
        "runs": (repo.path / "agents" / ".lock", ("run", "w", "47", "--parallel")),
        "repository": (repo.path / ".git" / "adw.lock", ("run", "w", "47", "--parallel")),
        "requests": (
            run_dir / "requests" / ".lock",
            ("task", "add", ID, "plan", "--file", str(words)),
        ),
    }[kind]

    with held_by_a_reader(path) as pid:
        said = call(repo, *act)

    assert said.code == 5, said
    assert f"`{path}` stayed locked for 0.1 s\n  why: process {pid} (" in said.err


@pytest.mark.hostile("H39")
def test_H39_a_run_whose_lock_a_reader_holds_names_it(repo: Repo) -> None:
    run_dir = made_run(repo)
    (run_dir / "lock").write_text('{"pid": 1, "start_time": 0}')  # a holder that is dead

    with held_by_a_reader(run_dir / "lock") as pid, pytest.raises(BusyError) as caught:
        runs.open_run(str(run_dir))

    assert f"process {pid} (" in caught.value.message


@pytest.mark.hostile("H37", "H39")
def test_H39_others_cannot_open_what_adw_makes(repo: Repo) -> None:
    """0600 in 0700, whatever the umask."""
    old = os.umask(0)
    try:
        run_dir = made_run(repo, handmade.failed())
        call(repo, "doctor", "--repair")
    finally:
        os.umask(old)

    wrong = [
        f"{path}: {path.lstat().st_mode & 0o777:o}"
        for path in [run_dir, *run_dir.rglob("*")]
        if path.lstat().st_mode & 0o077
    ]
    assert wrong == []


@pytest.mark.hostile("H37")
@pytest.mark.parametrize(
    ("name", "mode", "code"),
    [
        ("agents", 0o777, 4),
        ("agents", 0o1777, 0),
        ("agents", 0o775, 0),  # a group of one's own
        (f"agents/{ID}", 0o707, 4),
        (f"agents/{ID}/adw_state.json", 0o646, 4),
        (f"agents/{ID}/adw_state.json", 0o664, 0),
    ],
)
def test_H37_what_everybody_may_write_decides_nothing(
    repo: Repo, name: str, mode: int, code: int
) -> None:
    made_run(repo, handmade.done())
    path = repo.path / name
    path.chmod(mode)

    said = call(repo, "doctor", "--repair", ID)
    read = call(repo, "status", ID)

    assert (said.code, read.code) == (code, 0)
    if code:
        assert f"`{path}`" in said.err
        assert f"everybody may write it (mode {mode:04o})" in said.err
        assert f"hint: chmod go-w {path}\n" in said.err


@pytest.mark.hostile("H37")
def test_H37_a_group_of_others_may_not_write_either(repo: Repo) -> None:
    run_dir = made_run(repo, handmade.done())
    if os.geteuid() != 0:
        pytest.skip("needs root to give a file to another group: H37 was NOT tested")
    os.chown(run_dir, -1, 12345)
    run_dir.chmod(0o770)

    assert "group 12345 may write it" in call(repo, "doctor", "--repair", ID).err


def symlink(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def fifo(path: Path, _victim: Path) -> None:
    os.mkfifo(path)


def hard_link(path: Path, victim: Path) -> None:
    os.link(victim, path)


@pytest.mark.hostile("H38")
@pytest.mark.parametrize("make", [symlink, fifo, hard_link])
@pytest.mark.parametrize("name", ["lock", "adw_state.json", "state/latest.json", "RESPONSE.md"])
def test_H38_a_name_made_beforehand_leads_no_write_elsewhere(
    repo: Repo, tmp_path: Path, name: str, make: Callable[[Path, Path], None]
) -> None:
    run_dir = made_run(repo, handmade.failed())
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    path = run_dir / name
    path.unlink(missing_ok=True)
    make(path, victim)

    call(repo, "doctor", "--rebuild", ID)
    call(repo, "doctor", "--restore", ID)

    if (make, name) != (hard_link, "lock"):  # a second name of a file is no other file
        assert victim.read_bytes() == b"precious"


def test_a_lock_is_taken_when_it_comes_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    fd = files.open_lock(str(path))
    other = os.open(path, os.O_RDONLY)
    query = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)
    fcntl.fcntl(other, fcntl.F_OFD_SETLK, query)
    try:
        with pytest.raises(HostLocked):
            waiting.take(fd, str(path), 0.0)
    finally:
        os.close(other)

    waiting.take(fd, str(path), 5.0)
    os.close(fd)
