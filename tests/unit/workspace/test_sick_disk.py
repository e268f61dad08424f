"""A disk or a limit that refuses a read tells nothing about the worktree."""

import errno
import os
from pathlib import Path

import pytest

from adw.errors import ReadError
from adw.workspace import registration


@pytest.mark.parametrize("number", [errno.EIO, errno.EMFILE, errno.ENOMEM])
def test_a_read_that_the_system_refuses_is_no_missing_branch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    path = tmp_path / "HEAD"
    path.write_text("ref: refs/heads/x\n")

    def refuse(*_: object, **__: object) -> int:
        raise OSError(number, os.strerror(number), str(path))

    with monkeypatch.context() as patch:
        patch.setattr(os, "open", refuse)
        with pytest.raises(ReadError, match="cannot read"):
            registration.read_text(str(path))
    assert registration.read_text(str(path)) == "ref: refs/heads/x"
    assert registration.read_text(str(tmp_path / "gone")) is None
