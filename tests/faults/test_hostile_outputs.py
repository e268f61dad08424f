"""Outputs that programs still exchange while they are taken, and runs whose phases leave traps."""

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from adw.store.artifacts import OutputFault, take
from tests.faults.conftest import swept

CANARY = b"canary: from outside the tree"
TIMES = 2000
PATIENCE_S = 40

EXCHANGES = {
    "directory for a link": """
        os.rename("specs", "real")
        os.symlink(outside, "specs")
        os.unlink("specs")
        os.rename("real", "specs")
    """,
    "file for a link": """
        os.symlink(outside + "/out", "link")
        os.rename("link", "specs/out")
        write()
    """,
    "file for a hard link": """
        os.link(outside + "/out", "link")
        os.rename("link", "specs/out")
        os.unlink("specs/out")
        write()
    """,
    "file for a FIFO": """
        os.mkfifo("fifo")
        os.rename("fifo", "specs/out")
        write()
    """,
    "file for another": """
        write()
    """,
}

PROGRAM = """
import os, random, sys, time
outside = sys.argv[1]
def write():
    with open("new", "wb") as file:
        file.write(b"good " * 2000)
    os.rename("new", "specs/out")
os.mkdir("specs")
write()
print("ready", flush=True)
while True:
    time.sleep(random.random() / 4000)  # good for a while, so that some are taken
"""


@contextmanager
def exchanging(root: Path, outside: Path, how: str) -> Iterator[None]:
    """A process that exchanges `specs/out` below `root` again and again."""
    body = "\n".join("    " + line.strip() for line in EXCHANGES[how].strip().splitlines())
    program = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", PROGRAM + body, str(outside)],
        cwd=root,
        stdout=subprocess.PIPE,
    )
    with program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == b"ready\n"
            yield
            assert program.poll() is None
        finally:
            program.kill()


@pytest.mark.parametrize("how", EXCHANGES)
@pytest.mark.parametrize("pattern", swept(["specs/out", "spec?/o*"], "specs/out"))
def test_case_H19_nothing_from_outside_is_ever_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, pattern: str
) -> None:
    """H18, H20, H21: whatever is told as taken is whole, and has the hash that is told."""
    root, outside, target = tmp_path / "tree", tmp_path / "outside", tmp_path / "a" / "b" / "c"
    root.mkdir()
    outside.mkdir()
    (outside / "out").write_bytes(CANARY)
    monkeypatch.setattr(os, "fsync", lambda _: None)  # the power stays on
    ends: Counter[str] = Counter()
    deadline = time.monotonic() + PATIENCE_S
    with exchanging(root, outside, how):
        while ends.total() < TIMES or not (ends["taken"] and ends["refused"]):
            assert time.monotonic() < deadline, ends
            try:
                taken = take(str(root), pattern, str(target))
            except OutputFault:
                ends["refused"] += 1
            else:
                ends["taken"] += 1
                assert taken.copy
                assert Path(taken.copy).read_bytes() == b"good " * 2000
                assert taken.size_bytes == 10_000
                os.unlink(taken.copy)  # replacing it would wait for the disk
            if target.exists():
                assert os.listdir(target) in ([], ["out"])
    assert (outside / "out").read_bytes() == CANARY
    print(f"{how}, {pattern}: {dict(ends)}")
