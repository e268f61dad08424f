"""The tutorial runs, block by block, as it stands."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.docs.pages import DOCS


def blocks() -> list[tuple[int, str]]:
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    found = re.findall(r"^```sh(?: exit=(\d+))?\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return [(int(code or 0), text) for code, text in found]


def test_the_tutorial_runs(tmp_path: Path) -> None:
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
    for wanted, text in blocks():
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=place,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=40,
        )
        assert done.returncode == wanted, f"{text}\n{done.stdout}\n{done.stderr}"
        place = tmp_path / "shop"
    assert (home / "release-is-open").exists() is False
