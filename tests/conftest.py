"""Guards: no test touches the home directory, the network, or leaves anything behind.

Each guard raises a class that is named for the mistake. Nothing else belongs here; builders and
fakes lie in `tests/support`.
"""

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import counting, leftovers
from tests.support.adw import forget_unfinished

_LOOPBACK = ("127.", "::1", "localhost")
_home = ""
_cgroups: frozenset[str] = frozenset()
_mounts: frozenset[str] = frozenset()
_wrong: list[str] = []
"""What was found when all tests had ended."""


class WroteToHome(AssertionError):
    """The test wrote into the home directory; give adw a place of its own."""


class UsedTheNetwork(AssertionError):
    """The test reached for a machine other than this one."""


class BuiltButNeverRan(AssertionError):
    """The test built an `Adw` command and did not finish it with `ok` or `fails`."""


class LeftProcessesBehind(AssertionError):
    """Processes that the test started outlived it; they were killed now."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add what `python -m tests.faults.catalogue` asks for."""
    parser.addoption("--counted", metavar="FILE", help="write what marked tests counted, as JSON")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let reports tell which faults and hostile inputs a test shows."""
    counting.mark(items)


@pytest.fixture(autouse=True)
def counted(request: pytest.FixtureRequest) -> counting.Counted:
    """Count the points of a sweep: see `tests/support/counting.py`."""
    found = counting.Counted(request.node.user_properties)
    counting.begin(found)
    return found


def pytest_configure(config: pytest.Config) -> None:
    """Clean the environment before any test module is imported."""
    path = config.getoption("--counted")
    if path and not hasattr(config, "workerinput"):
        config.pluginmanager.register(counting.Collected(path))
    for name in list(os.environ):
        if name.startswith(("ADW_", "GIT_", "XDG_", "SSH_")):
            del os.environ[name]
    os.environ.update(
        GIT_CONFIG_NOSYSTEM="1",
        GIT_TERMINAL_PROMPT="0",
        LC_ALL="C.UTF-8",
        NO_COLOR="1",
        TZ="XST-05:45",  # not UTC, so that a local time in a file is seen
    )
    time.tzset()
    os.umask(0o022)


def pytest_sessionstart(session: pytest.Session) -> None:
    """Remember what was there before."""
    global _cgroups, _mounts
    if not hasattr(session.config, "workerinput"):
        _cgroups, _mounts = leftovers.cgroups(), leftovers.mounts()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Compare with what was there before; the workers of xdist are gone by now."""
    if hasattr(session.config, "workerinput"):
        return
    left = [*leftovers.staying_cgroups(_cgroups), *sorted(leftovers.mounts() - _mounts)]
    if left:
        _wrong.append(f"control groups or mounts outlived the tests: {', '.join(left)}")
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    skipped = len(reporter.stats.get("skipped", [])) if reporter else 0
    if os.environ.get("CI") and skipped:
        _wrong.append(f"{skipped} skipped: CI has all that the tests need")
    if _wrong:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell of it beside the failures, not in their place."""
    for told in _wrong:
        terminalreporter.write_line(f"ERROR {told}", red=True)


@pytest.fixture(scope="session", autouse=True)
def _home_and_network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    global _home
    base = tmp_path_factory.getbasetemp()
    _home = str(base / "home")
    os.mkdir(_home)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", _home)
        patch.setenv(leftovers.MARK, str(base))
        patch.setattr(socket.socket, "connect", _guarded(socket.socket.connect))
        patch.setattr(socket.socket, "connect_ex", _guarded(socket.socket.connect_ex))
        yield


def _guarded(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in {socket.AF_INET, socket.AF_INET6}:
            host = str(address[0])
            if not host.startswith(_LOOPBACK):
                raise UsedTheNetwork(host)
        return connect(self, address)

    return guarded


@pytest.fixture(autouse=True)
def _nothing_left(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[None]:
    base = tmp_path_factory.getbasetemp()
    monkeypatch.setenv("ADW_HOST_DIR", str(base / "host" / str(abs(hash(request.node.nodeid)))))
    here = os.getcwd()
    yield
    os.chdir(here)
    os.umask(0o022)
    unfinished = forget_unfinished()
    # Unit tests start no process: a look at this process's own children is enough, and cheap.
    in_unit = Path(__file__).parent / "unit" in request.path.parents
    left = leftovers.end_processes(os.getpid(), None if in_unit else str(base))
    wrote = os.listdir(_home)
    if left:
        raise LeftProcessesBehind("\n".join(left))
    if wrote:
        leftovers.empty(_home)
        raise WroteToHome(", ".join(wrote))
    if unfinished:
        raise BuiltButNeverRan("; ".join(unfinished))
