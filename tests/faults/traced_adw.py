"""Runs adw with one of its forked processes held at birth until a tracer is attached.

    python traced_adw.py KIND FOLDER adw-words…

KIND is `nursery` or `supervisor`. The process writes its pid to FOLDER/ask and goes on when a
byte can be read from the FIFO FOLDER/gate. Nothing but this file knows that adw is traced.
"""

import os
import sys

_DEPTH = {"nursery": 1, "supervisor": 2}
_fork = os.fork
_depth = 0


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


if __name__ == "__main__":
    kind, folder = sys.argv[1:3]
    del sys.argv[1:3]
    os.fork = _traced_fork
    from adw.__main__ import main

    sys.exit(main())
