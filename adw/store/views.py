"""Files that are derived: whatever stands in their place, they can be written.

RESPONSE.md, latest.json and manifest.json can be made again at any time, so nothing that a phase
leaves under their names may stop a run.
"""

import os

from adw.store import files


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
