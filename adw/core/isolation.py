"""How far phases are kept apart from the rest of the machine, in words."""

from typing import Final

NONE: Final = "none"
_WORDS: Final = {NONE: "none (phases run with your rights)"}


def isolation_words(kind: str) -> str:
    """What a kind of isolation means to a person; a kind of a newer adw is told as it is."""
    return _WORDS.get(kind, kind)
