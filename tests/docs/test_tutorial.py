"""The tutorial runs, block by block, as it stands, and prints what it says.

A `text` block shows lines of what the `sh` block before it printed, in their order.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from tests.docs.loosely import missing
from tests.docs.pages import DOCS

_BLOCK: Final = re.compile(r"^```(sh|text)(?: exit=(\d+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Command:
    """One block to run, and the lines that it is said to print."""

    text: str
    exit_code: int = 0
    shown: list[str] = field(default_factory=list)


def commands(page: str) -> Iterator[Command]:
    last: Command | None = None
    for kind, code, text in _BLOCK.findall(page):
        if kind == "sh":
            if last:
                yield last
            last = Command(text, int(code or 0))
        else:
            assert last is not None, "output without a command"
            last.shown += [line for line in text.splitlines() if line]
    if last:
        yield last


def test_the_tutorial_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    env = {
        **os.environ,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "GIT_AUTHOR_NAME": "Reader",
        "GIT_AUTHOR_EMAIL": "reader@example.invalid",
        "GIT_COMMITTER_NAME": "Reader",
        "GIT_COMMITTER_EMAIL": "reader@example.invalid",
    }
    place = tmp_path
    for command in commands((DOCS / "tutorial.md").read_text(encoding="utf-8")):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command.text],
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=40,
        )
        told = f"{command.text}\n{done.stdout}\n{done.stderr}"
        assert done.returncode == command.exit_code, told
        assert missing(command.shown, done.stdout) is None, told
        place = tmp_path / "shop"
    assert (home / "release-is-open").exists() is False


@pytest.mark.parametrize(
    ("shown", "printed", "wanted"),
    [
        (["run cc73faf1 done"], "run 00000000 done\n", None),
        (["a", "b"], "a\nmore\nb\n", None),
        (["b", "a"], "a\nb\n", "a"),
        (["took 0.1 s"], "took 12.3 s\n", None),
        (["in …/shop"], "in /tmp/x/shop\n", None),
        (["run cc73faf1 done"], "run 00000000 failed\n", "run cc73faf1 done"),
        (["x  1"], "x    1\n", None),
        (["a.b"], "axb\n", "a.b"),
    ],
)
def test_output_is_compared_loosely_but_not_too_loosely(
    shown: list[str], printed: str, wanted: str | None
) -> None:
    assert missing(shown, printed) == wanted
