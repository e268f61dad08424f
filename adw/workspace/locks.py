"""Short locks of this repository and of this host: kernel locks, waited for with a limit.

Death of the holder frees them; no content, age or process number of the file is ever trusted.
"""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Final

from adw import clock
from adw.errors import HostLocked, StoreError
from adw.store import files, waiting

REPOSITORY_WAIT_S: Final = 120.0
"""A checkout of a large repository runs under its lock, and many runs may wait."""
_POLL_S: Final = 0.02


def repository(git_dir: str) -> contextlib.AbstractContextManager[int]:
    """Hold the lock under which adw changes what all worktrees of a repository share; as `held`.

    Args:
        git_dir: The directory that all its worktrees share.
    """
    return held(os.path.join(git_dir, "adw.lock"), REPOSITORY_WAIT_S)


@contextlib.contextmanager
def held(path: str, wait_s: float) -> Iterator[int]:
    """Hold the lock of a file, made if missing, until the block ends.

    Args:
        path: The lock file; never removed by anybody.
        wait_s: Longest wait in seconds.

    Yields:
        The descriptor that carries the lock; a process that inherits it holds the lock too.

    Raises:
        HostLocked: It stayed taken.
        StoreError: The file cannot be made.
    """
    deadline = clock.monotonic() + wait_s
    fd = _open(path)
    try:
        while True:
            if files.lock(fd):
                if _still_named(fd, path):
                    break
                # Removed by hand while we waited: the name leads to another file now.
                os.close(fd)
                fd = _open(path)
                continue
            if clock.monotonic() >= deadline:
                who = waiting.holders(path)
                raise HostLocked(path=path, seconds=f"{wait_s:g}", holder=who)
            time.sleep(_POLL_S)
        yield fd
    finally:
        os.close(fd)


@contextlib.contextmanager
def storing(path: str) -> Iterator[None]:
    """Turn an OSError of the block into a StoreError that names `path`.

    Raises:
        StoreError: The block met an OSError.
    """
    try:
        yield
    except OSError as error:
        raise StoreError.of(error, path) from error


def _open(path: str) -> int:
    with storing(path):
        return files.open_lock(path)


def _still_named(fd: int, path: str) -> bool:
    try:
        named = os.stat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(named, os.fstat(fd))
