"""Libraries in C that are loaded before libc, and change what a system call does."""

import shutil
import subprocess
from pathlib import Path

import pytest


def compiled(source: Path, folder: Path) -> str:
    """Compile one; its path, for LD_PRELOAD. Skips where there is no compiler."""
    if shutil.which("gcc") is None:
        pytest.skip(f"apt-get install gcc libc6-dev: what {source.name} does was NOT tested")
    path = folder / f"{source.stem}.so"
    words = ["gcc", "-shared", "-fPIC", "-O1", "-o", str(path), str(source), "-ldl"]
    subprocess.run(words, check=True)
    return str(path)
