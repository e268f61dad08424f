"""H41, H43: a phase that goes against its supervisor, and one that leaves servers behind."""

import os
import socket
import sys
from pathlib import Path
from typing import Final

import pytest

from tests.support.ground import Ground, phase

CANARY: Final = "s3cret-canary-41"
LOOK: Final = (
    "parent() { sed 's/.*) . //; s/ .*//' /proc/$1/stat; }; s=$PPID; n=$(parent $s); "
    'cat /proc/$s/environ >"$GROUND/supervisor"; cat /proc/$n/environ >"$GROUND/nursery"'
)
SERVER: Final = (
    "import socket, os, time\n"
    "listener = socket.create_server(('127.0.0.1', 0))\n"
    "open(os.environ['GROUND'] + '/port', 'w').write(str(listener.getsockname()[1]))\n"
    "time.sleep(600)\n"
)


@pytest.mark.sweep
@pytest.mark.hostile("H41", "H44")
def test_H41_a_supervisor_has_no_secret_to_look_for(tmp_path: Path) -> None:
    """Nor has its nursery. Root may look; others are kept out altogether (prctl(2), dumpable)."""
    ground = Ground(
        tmp_path / "ground",
        {"look": phase(LOOK), "use": phase('test -n "$TOKEN"', needs=["look"], secrets=["TOKEN"])},
        config={"ports": "none", "env": {"GROUND": str(tmp_path / "ground")}},
        env={"TOKEN": CANARY, "OTHER": CANARY},
    )
    try:
        done = ground.adw("run", "w", "47")
    finally:
        ground.end()

    if os.geteuid() != 0:
        assert done.exit_code == 1
        assert "Permission denied" in done.stdout
        return
    assert done.exit_code == 0, done.told()
    for name in ("supervisor", "nursery"):
        seen = (ground.base / name).read_bytes().strip(b"\0").split(b"\0")
        names = {each.partition(b"=")[0].decode() for each in seen}
        assert "PATH" in names, "the phase did look"
        assert names <= {"PATH", "LANG", "TZ", "LC_ALL", "ADW_AGENTS_DIR", "ADW_DISABLE"}


@pytest.mark.sweep
@pytest.mark.hostile("H41")
def test_H41_a_phase_that_kills_its_supervisor_gains_nothing(tmp_path: Path) -> None:
    """Each time it is lost, and its own processes end with it; the third time it has failed."""
    ground = Ground(
        tmp_path / "ground",
        {"kill": phase('kill -9 $PPID; sleep 60; touch "$GROUND/survived"')},
        config={"ports": "none"},
    )
    try:
        done = ground.adw("run", "w", "47")
        assert done.exit_code == 1, done.told()
        assert ground.entries() == [("kill", n, False, "lost") for n in (1, 2, 3)]
        ground.all_gone()
        assert not (ground.base / "survived").exists()
    finally:
        ground.end()


@pytest.mark.sweep
@pytest.mark.hostile("H43")
@pytest.mark.parametrize("disabled", ["", "cgroup"])
def test_H43_a_server_that_a_phase_leaves_ends_with_it(tmp_path: Path, disabled: str) -> None:
    """Also a daemon of its own session. What it reaches while it runs, no sandbox limits yet."""
    start = (
        f'setsid {sys.executable} -c "$SERVER" </dev/null >/dev/null 2>&1 & '
        'while [ ! -s "$GROUND/port" ]; do sleep 0.02; done'
    )
    ground = Ground(
        tmp_path / "ground",
        {"serve": phase(start, env={"SERVER": SERVER})},
        config={"ports": "none"},
        env={"ADW_DISABLE": disabled},
    )
    try:
        ground.ok("run", "w", "47")
    finally:
        ground.end()

    port = int((ground.base / "port").read_text())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
