"""A secret that its phase gives away in every form is found nowhere that adw wrote.

What the phase itself wrote stays its own: its result.json, its artifacts, the worktree and what
git has of it.
"""

import base64
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from tests.support.counting import Counted
from tests.support.ground import Ground, phase

SECRET: Final = "k3y-Canary&0123+456789"
FORMS: Final = {
    "plain": SECRET,
    "base64": base64.b64encode(SECRET.encode()).decode().rstrip("="),
    "hex": SECRET.encode().hex(),
    "hex in capitals": SECRET.encode().hex().upper(),
    "url": quote(SECRET, safe=""),
    "half": SECRET[:14],
}
READERS: Final = (
    ("status",),
    ("status", "ID", "--json"),
    ("show", "ID"),
    ("show", "ID", "--json"),
    ("why", "ID"),
    ("why", "ID", "--json"),
    ("logs", "ID"),
    ("history", "ID"),
    ("artifacts", "ID", "--json"),
    ("doctor",),
    ("doctor", "--repair"),
    ("task", "show", "ID"),
)

LEAK: Final = """
import base64, json, os, sys, time, urllib.parse
secret = os.environ["TOKEN"]
for form in (secret, base64.b64encode(secret.encode()).decode(), secret.encode().hex(),
             secret.encode().hex().upper(), urllib.parse.quote(secret, safe="")):
    for stream in (1, 2):
        os.write(stream, f"it is {form}, says {stream}\\n".encode())
        os.write(stream, form[:9].encode()); time.sleep(0.05); os.write(stream, form[9:].encode())
        os.write(stream, b"\\n")
os.makedirs("docs", exist_ok=True)
open(f"docs/{secret}.txt", "w").write(secret)
usage = {"model": secret, "cost_usd": 1}
json.dump({"summary": f"used {secret}", "usage": usage}, open(os.environ["ADW_RESULT"], "w"))
"""


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    """Phases that give their secret away: one succeeds, one owes an output, one fails."""
    base = tmp_path / "ground"
    leak = 'python3 -I -c "$LEAK"'
    secret: dict[str, Any] = {"secrets": ["TOKEN"], "env": {"LEAK": LEAK}}
    found = Ground(
        base,
        {
            "tell": phase(leak, **secret),
            "commit": {"use": "commit", "needs": ["tell"]},
            "own": phase(
                'git commit -q --allow-empty -m "the key is $TOKEN"; adw effect "$TOKEN" -- true || true; '
                'adw effect told -- sh -c "echo $TOKEN; echo $TOKEN >&2"',
                needs=["commit"],
                **secret,
            ),
            "owe": phase(
                leak,
                needs=["own"],
                outputs={"report": {"path": "docs/*.txt"}},
                allow_failure=True,
                **secret,
            ),
            "fail": phase(f'{leak}; echo "$TOKEN" >&2; exit 1', needs=["owe"], **secret),
        },
        config={"ports": "none"},
        env={
            "TOKEN": SECRET,
            "PATH": f"{os.path.dirname(sys.executable)}{os.pathsep}{os.environ['PATH']}",
        },
    )
    yield found
    found.end()


def written_by_adw(ground: Ground) -> Iterator[Path]:
    """Every file outside of the worktree and of git's own, but those of the phases."""
    git = ground.repo.path / ".git" / "adw"
    for top in (ground.agents, git, ground.base / "host"):
        for path in top.rglob("*"):
            own = path.name == "result.json" or "artifacts" in path.parent.parts[-2:]
            if path.is_file() and not (own and "children" in path.parts):
                yield path


@pytest.mark.hostile("H44", "H45")
@pytest.mark.sweep
def test_P15_a_secret_is_nowhere_that_adw_wrote(ground: Ground, counted: Counted) -> None:
    said: dict[str, str] = {}
    run = ground.adw("run", "w", "47")
    assert run.exit_code == 1, run.told()
    said["run"] = run.stdout + run.stderr
    adw_id = ground.adw_id
    for words in READERS:
        done = ground.adw(*(adw_id if word == "ID" else word for word in words))
        assert done.exit_code == 0, done.told()
        said[" ".join(words)] = done.stdout + done.stderr
    resumed = ground.adw("resume", adw_id)
    said["resume"] = resumed.stdout + resumed.stderr
    del ground.env["TOKEN"]
    later = ground.adw("show", adw_id)
    said["show without it"] = later.stdout + later.stderr

    places: dict[str, bytes] = {name: text.encode() for name, text in said.items()}
    files = list(written_by_adw(ground))
    places |= {str(path): path.read_bytes() + str(path).encode() for path in files}
    points = [(place, name) for place in places for name in FORMS]
    wrong = [
        f"{name} in {place}" for place, name in points if FORMS[name].encode() in places[place]
    ]

    assert len(files) > 20
    log = ground.run_dir / "attempts" / "tell-1" / "stdout.log"
    assert log.read_text().count("[redacted]") == 10
    own: Any = json.loads((ground.run_dir / "children" / "tell-1" / "result.json").read_text())
    assert SECRET in own["summary"], "the phase did give it away"
    counted(len(points), len(points), len(points) - len(wrong), what="canary", wrong=wrong)
