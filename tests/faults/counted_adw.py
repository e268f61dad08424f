"""Runs adw and writes down each failpoint that its first process reaches.

    python counted_adw.py FILE adw-words…

Nothing but this file knows that they are counted.
"""

import os
import sys

from adw import failpoints

if __name__ == "__main__":
    path, own = sys.argv[1], os.getpid()
    del sys.argv[1]
    reach = failpoints.hit

    def hit(name: str) -> None:
        """Note it and go on."""
        if os.getpid() == own:
            with open(path, "a", encoding="ascii") as file:
                file.write(f"{name}\n")
        reach(name)

    failpoints.hit = hit
    from adw.__main__ import main

    sys.exit(main())
