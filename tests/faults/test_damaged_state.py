"""A state file that is damaged, foreign or odd: one clear error, nothing written, others unharmed."""

import json
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import pytest

from adw.app import reading
from adw.errors import StateError
from adw.store import runs
from adw.store.state import load_state
from tests.faults.conftest import MakeGround
from tests.support.ground import Ground, phase

COMMANDS: Final = ("status", "resume", "cancel", "pause")


@pytest.fixture
def two_runs(make_ground: MakeGround) -> Ground:
    """Two runs that are over; the first by its issue is the one to be damaged."""
    ground = make_ground({"build": phase('[ "$ADW_ISSUE_NUMBER" = 48 ]')}, config={"ports": "none"})
    assert ground.adw("run", "w", "47").exit_code == 1
    ground.ok("run", "w", "48")
    return ground


def victim(ground: Ground) -> Path:
    """The state file of the run of issue 47."""
    found = [name for name, _ in runs.peek(str(ground.agents), 47)]
    return ground.agents / found[0] / "adw_state.json"


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes | str]]:
    """All that lies in a folder: kind, change time and content."""
    found: dict[str, tuple[int, int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        content = path.read_bytes() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (info.st_mode, info.st_ctime_ns, content)
    return found


def assert_refused(
    ground: Ground, state: Path, *said: str, commands: Sequence[str] = COMMANDS
) -> None:
    """Each command ends with 2 and one clear error; nothing is written; the other run is listed."""
    adw_id = state.parent.name
    before = snapshot(state.parent)
    for command in commands:
        done = ground.adw(command, adw_id)
        assert done.exit_code == 2, done.told()
        assert done.stderr.startswith("error: "), done.told()
        assert str(state) in done.stderr, done.told()
        assert all(text in done.stderr for text in said), done.told()
        assert "Traceback" not in done.stderr
    assert snapshot(state.parent) == before
    listed = {run["adw_id"]: run["status"] for run in ground.status()["runs"]}
    assert listed.pop(adw_id) == "broken"
    assert list(listed.values()) == ["succeeded"]


@pytest.mark.fault("F38", by="cut at every length")
@pytest.mark.sweep
def test_case_A3_a_state_truncated_at_each_length_is_refused(two_runs: Ground) -> None:
    state = victim(two_runs)
    whole = state.read_bytes()
    for length in range(len(whole) - 1):
        state.write_bytes(whole[:length])
        with pytest.raises(StateError):
            load_state(str(state.parent))
        assert state.read_bytes() == whole[:length]
    for length in (0, len(whole) // 2):
        state.write_bytes(whole[:length])
        assert_refused(two_runs, state, commands=("status", "resume"))
    # What lacks its last newline only is whole.
    state.write_bytes(whole[:-1])
    load_state(str(state.parent))


def put(state: Path, **fields: object) -> None:
    state.write_text(json.dumps({**json.loads(state.read_bytes()), **fields}))


def directory(state: Path) -> None:
    state.unlink()
    state.mkdir()


def fifo(state: Path) -> None:
    state.unlink()
    os.mkfifo(state)


def socket(state: Path) -> None:
    state.unlink()
    os.mknod(state, stat.S_IFSOCK | 0o600)


def link(state: Path) -> None:
    state.rename(state.with_name("elsewhere.json"))
    state.symlink_to("elsewhere.json")


def twice(state: Path) -> None:
    state.write_bytes(state.read_bytes().replace(b'"adw_id"', b'"issue_number": 1, "adw_id"', 1))


def trailing(state: Path) -> None:
    state.write_bytes(state.read_bytes() + b"{}\n")


ODD: Final[dict[str, tuple[Callable[[Path], None], str]]] = {
    "missing": (lambda state: state.unlink(), "No such file"),
    "a directory": (directory, "not a regular file"),
    "a FIFO": (fifo, "not a regular file"),
    "a socket": (socket, "such device"),
    "a link": (link, "symbolic links"),
    "newer": (lambda state: put(state, schema_version=2), "version 2"),
    "with an unknown key": (lambda state: put(state, colour="red"), "colour"),
    "with a key twice": (twice, "issue_number"),
    "with something behind it": (trailing, ""),
}


@pytest.mark.fault("F38", by="written by hand")
@pytest.mark.sweep
def test_case_A9_A10_F38_an_odd_state_is_refused_untouched(two_runs: Ground) -> None:
    state = victim(two_runs)
    whole = state.read_bytes()
    for name, (damage, said) in ODD.items():
        damage(state)
        with pytest.raises(StateError):
            load_state(str(state.parent))
        commands = {"newer": COMMANDS, "a FIFO": ("status", "resume")}.get(name)
        if commands:
            assert_refused(two_runs, state, said, commands=commands)
        else:
            assert reading.short(str(state.parent.parent), state.parent.name)["status"] == "broken"
        put_back(state, whole)


def put_back(state: Path, data: bytes) -> None:
    if state.is_dir():
        state.rmdir()
    else:
        state.unlink(missing_ok=True)
    state.write_bytes(data)


@pytest.mark.sweep
@pytest.mark.hostile("H37")
def test_another_users_state_is_refused(two_runs: Ground) -> None:
    if os.geteuid() != 0:
        pytest.skip("giving a file away needs root: another user's state was NOT tested")
    state = victim(two_runs)
    os.chown(state, 65533, 65533)
    # root may read all files; another user's state is refused all the same.
    assert_refused(two_runs, state, "65533")
