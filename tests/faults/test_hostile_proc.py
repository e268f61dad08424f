"""H44: what a stranger wrote stands in no command line, environment or name of any process.

Whoever is on the machine can read those, and programs take options from them.
"""

import contextlib
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.faults.kill_points import needs_strace
from tests.support.counting import Counted
from tests.support.ground import Done, Ground, phase

WORDS: Final = ("wombat9", "quokka7", "numbat5", "$(touch", "--output=F")
TITLE: Final = 'wombat9 $(touch P) `id` "; --output=F'
ISSUE: Final = f"---\ntitle: '{TITLE}'\nlabels: [numbat5]\n---\nquokka7 ${{IFS}} $(touch P)\n--output=F quokka7\n"


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Phases of all kinds, each there long enough to be seen."""
    found = Ground(
        tmp_path / "ground",
        {
            "build": phase(
                'test -s "$ADW_TASK"; echo x > built.txt; sleep 0.5',
                outputs={"built": {"path": "built.txt"}},
            ),
            "commit": {"use": "commit", "needs": ["build"]},
            "test": phase("sleep 0.3; exit 1", needs=["commit"], retry={"attempts": 2}),
        },
        config={"ports": "none"},
    )
    found.repo.write({"issues/47.md": ISSUE})
    found.repo.git("commit", "--quiet", "--all", "--message", "an issue")
    yield found
    found.end()


def in_proc(pid: str) -> Iterator[tuple[str, bytes]]:
    """What everybody may see of a process."""
    for name in ("cmdline", "environ", "comm"):
        with contextlib.suppress(OSError):
            yield name, Path("/proc", pid, name).read_bytes()


def strange(text: str, branch: str) -> list[str]:
    """Words of the stranger; the branch's name has those of the title that are plain letters."""
    return [word for word in WORDS if word in text.replace(branch, "")]


@pytest.mark.sweep
@pytest.mark.hostile("H1", "H2", "H44")
def test_H44_no_process_of_a_run_shows_what_a_stranger_wrote(
    ground: Ground, counted: Counted
) -> None:
    """Looked at in /proc again and again, and at each execve(2), so that none is too quick."""
    needs_strace()
    trace = ground.base / "trace"
    over = threading.Event()
    seen: dict[tuple[str, str], bytes] = {}
    looks = 0

    def look() -> None:
        nonlocal looks
        while not over.is_set():
            for pid in map(str, ground.processes()):
                seen.update({(pid, name): data for name, data in in_proc(pid)})
            looks += 1

    looking = threading.Thread(target=look)
    looking.start()
    strace = ["strace", "-f", "-q", "-v", "-s", "1000000", "-e", "trace=execve", "-o", str(trace)]
    try:
        done = Done.of(ground.start("run", "w", "47", wrap=strace))
    finally:
        over.set()
        looking.join()

    assert done.exit_code == 1, done.told()
    assert [entry[0] for entry in ground.entries()] == ["build", "commit", "test", "test"]
    branch = ground.status(ground.adw_id)["state"]["branch_name"]
    assert "wombat9" in branch
    calls = re.findall(r"^\d+ +execve\(.*", trace.read_text("utf-8", "replace"), re.MULTILINE)
    wrong = [f"{key}: {data!r}" for key, data in seen.items() if strange(os.fsdecode(data), branch)]
    wrong += [call for call in calls if strange(call, branch)]
    kinds = {data for (_, name), data in seen.items() if name == "comm"}
    assert {b"git\n", b"sleep\n"} < kinds
    assert any("commit" in call for call in calls)
    points = len(seen) + len(calls)
    counted(points, points, points - len(wrong), what="looks at processes", wrong=wrong)
    assert min(looks, len(calls)) > 20
    assert "quokka7" in (ground.run_dir / "TASK.md").read_text()
    assert not (ground.repo.path / "P").exists()
