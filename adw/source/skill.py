"""Files with role instructions that a workflow names, read from its own folder."""

import os
from typing import Final

from adw.errors import UsageError
from adw.source.read import read_text_file

MAX_BYTES: Final = 256 << 10


class SkillFault(ValueError):
    """A file that cannot be a skill; its text says why."""


def read_skill(folder: str, path: str) -> bytes:
    """Read a skill.

    Args:
        folder: Where the workflow file lies.
        path: Relative to it, without `..`; symbolic links are followed inside of the folder.

    Raises:
        SkillFault: It is missing, no regular file, outside of the folder, or no skill.
    """
    real = os.path.realpath(os.path.join(folder, path))
    root = os.path.realpath(folder)
    if os.path.commonpath([root, real]) != root:
        message = f"`{path}` is a symbolic link that leads out of the workflow file's folder"
        raise SkillFault(message)
    try:
        data = read_text_file(real, MAX_BYTES)
    except FileNotFoundError:
        message = f"cannot read `{path}`: no such file"
        raise SkillFault(message) from None
    except UsageError as error:
        raise SkillFault(error.message.replace(real, path)) from None
    check_skill(path, data)
    return data


def check_skill(path: str, data: bytes) -> None:
    """Refuse bytes that nobody could follow.

    Raises:
        SkillFault: They are empty, too many, or not UTF-8.
    """
    if not data.strip():
        message = f"`{path}` is empty"
        raise SkillFault(message)
    if len(data) > MAX_BYTES:
        message = f"`{path}` has {len(data)} bytes, at most {MAX_BYTES} are expected"
        raise SkillFault(message)
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        message = f"`{path}` is not UTF-8: byte 0x{data[error.start]:02x} at {error.start}"
        raise SkillFault(message) from None
