"""Grounds for the fault tests, ended whatever happens; both ways to end a process tree."""

import compileall
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import adw
from adw.supervise import cgroups
from tests.faults.recorded_run import Replayed, recorded
from tests.support.ground import Ground

MakeGround = Callable[..., Ground]


@pytest.fixture(scope="session", autouse=True)
def _compiled() -> None:
    """Compile all of adw before anything is counted.

    A module without bytecode costs one `openat` more, and these tests cause bytecode to be written
    as they go: the k-th call of a baseline would be another one later.
    """
    compileall.compile_dir(os.path.dirname(adw.__file__), quiet=1)


@pytest.fixture
def make_ground(tmp_path: Path) -> Iterator[MakeGround]:
    """Make grounds below the test's directory."""
    made: list[Ground] = []

    def make(phases: dict[str, Any], **keys: Any) -> Ground:
        ground = Ground(tmp_path / f"ground{len(made)}", phases, **keys)
        made.append(ground)
        return ground

    yield make
    for ground in made:
        ground.end()


@pytest.fixture(scope="session")
def replayed(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    """A run of the three phases, recorded once."""
    return recorded(tmp_path_factory.mktemp("replay") / "ground")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """In memory where there is such a place: thousands of small files are written."""
    shared = Path("/dev/shm") / f"adw-test-{os.getpid()}"
    found = shared if os.access("/dev/shm", os.W_OK) else tmp_path / "laid"
    found.mkdir(mode=0o700)
    yield found
    shutil.rmtree(found)


@pytest.fixture(params=["cgroup", "tag"])
def mode(request: pytest.FixtureRequest) -> str:
    """How process trees are ended; `ADW_DISABLE` is to be `disable(mode)`."""
    if request.param == "cgroup" and cgroups.base() is None:
        pytest.skip("no writable cgroup v2: mode cgroup was NOT tested")
    return str(request.param)


def swept(values: Iterable[Any], *kept: Any) -> list[Any]:
    """Parameters of which the plain suite tries `kept` only, and the sweeps all."""
    return [
        value if value in kept else pytest.param(*_row(value), marks=pytest.mark.sweep)
        for value in values
    ]


def _row(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def disable(mode: str) -> dict[str, str]:
    """Environment that makes adw use this mode."""
    return {} if mode == "cgroup" else {"ADW_DISABLE": "cgroup"}
