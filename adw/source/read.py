"""Read a file that people wrote."""

import errno
import os
import stat

from adw.errors import UsageError
from adw.source.places import MAX_BYTES


def read_text_file(path: str, limit: int = MAX_BYTES) -> bytes:
    """Read a regular file, anybody's, without waiting for a FIFO.

    Args:
        path: The file; symbolic links are followed, it is the user's own repository.
        limit: Largest size in bytes.

    Raises:
        FileNotFoundError: There is none.
        UsageError: It cannot be read, or is larger than `limit`.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return _read_all(fd, path, limit)
        finally:
            os.close(fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(detail=f"cannot read `{path}`: {reason}", fix=None) from error


def _read_all(fd: int, path: str, limit: int) -> bytes:
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        raise OSError(errno.EINVAL, "not a regular file", path)
    parts, size = [], 0
    while chunk := os.read(fd, 1 << 20):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise OSError(errno.EFBIG, f"larger than {limit} bytes", path)
    return b"".join(parts)
