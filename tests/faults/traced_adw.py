"""Runs adw with the same names in each run, one of its forked processes held until it is traced.

    python traced_adw.py KIND FOLDER adw-words…

KIND is `nursery` or `supervisor`, or `orchestrator`, which is not held. The process writes its pid to FOLDER/ask and goes on when a
byte can be read from the FIFO FOLDER/gate. Where adw takes random bytes for a name, it gets the
same ones each time, so that a file of one run has its like in the next. Nothing but this file knows that adw is traced.
"""

import os
import sys

_DEPTH = {"orchestrator": 0, "nursery": 1, "supervisor": 2}
_fork = os.fork
_depth = 0
_temporary = 0


def _traced_fork() -> int:
    global _depth
    pid = _fork()
    if pid == 0:
        _depth += 1
        if _depth == _DEPTH[kind] and not os.path.exists(f"{folder}/ask"):
            _hold()
    return pid


def _hold() -> None:
    gate = os.open(f"{folder}/gate", os.O_RDWR)
    with open(f"{folder}/.ask", "w") as file:
        file.write(str(os.getpid()))
    os.rename(f"{folder}/.ask", f"{folder}/ask")
    os.read(gate, 1)
    os.close(gate)


def temp_name(path: str) -> str:
    """As that of `adw.store.files`, without the number of the process."""
    global _temporary
    _temporary += 1
    head, tail = os.path.split(path)
    return os.path.join(head, f".{tail}.0.{_temporary}.tmp")


if __name__ == "__main__":
    kind, folder = sys.argv[1:3]
    del sys.argv[1:3]
    os.fork = _traced_fork
    os.urandom = lambda size: bytes([0xAD]) * size
    from adw.__main__ import main
    from adw.store import files

    files.temp_name = temp_name
    sys.exit(main())
