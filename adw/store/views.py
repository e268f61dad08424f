"""Places that adw alone fills: whatever a phase left there is set aside, and stops no run."""

import os

from adw.store import files


def own_dir(path: str) -> None:
    """Make a directory; a link or file in its place is kept beside it, hidden, as `….aside`.

    Raises:
        OSError: There is none.
    """
    try:
        files.make_dir(path, exist_ok=True)
    except FileExistsError:
        files.rename(path, files.temp_name(path) + ".aside")
        files.make_dir(path)


def put(path: str, data: bytes) -> None:
    """Make a derived file hold exactly `data`, unsynced.

    A directory in its place is kept beside it, under a hidden name that ends in `.dir`.

    Raises:
        OSError: What stood there stands there still.
    """
    try:
        files.replace(path, data, sync=False)
    except IsADirectoryError:
        if os.path.islink(path) or not os.path.isdir(path):
            raise
        files.rename(path, files.temp_name(path) + ".dir")
        files.replace(path, data, sync=False)
