"""A PID namespace for a command, where one may be made."""

import subprocess
from typing import Final

import pytest

INSIDE: Final = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""Words before a command: it is process 1 of its own namespace, and all ends with it."""


def needs_pid_namespace() -> None:
    """Skip where none may be made."""
    try:
        done = subprocess.run([*INSIDE, "true"], check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("apt-get install util-linux: numbers of processes were NOT tested")
    if done.returncode:
        pytest.skip("no PID namespace may be made here: numbers of processes were NOT tested")
