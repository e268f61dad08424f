"""Runs adw with one built-in phase program under strace.

    python traced_phase.py PROGRAM STRACE-WORDS-AS-JSON adw-words…

Nothing but this file knows that it is traced.
"""

import json
import sys

from adw.app import opening

if __name__ == "__main__":
    wanted, before = sys.argv[1], json.loads(sys.argv[2])
    del sys.argv[1:3]
    usual = opening._program

    def program(use: str) -> tuple[str, ...]:
        """The usual words, with strace before those that are wanted."""
        return (*before, *usual(use)) if use == wanted else usual(use)

    opening._program = program
    from adw.__main__ import main

    sys.exit(main())
