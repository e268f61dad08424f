"""What a text has in it that its readers do not see where it is rendered.

People approve what they see, an agent acts on what is there: what differs between the two is
named, and stays as it was found.

Source: Unicode Standard Annex 9 (bidirectional controls), chapter 23.9 (tag characters).
"""

import re
from typing import Final

_KINDS: Final = (
    ("HTML comment", re.compile(r"<!--")),
    ("bidirectional control", re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")),
    (
        "zero-width character",
        # Joiners stand between two letters of some scripts, and in emoji.
        re.compile(
            "[\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180e\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0]"
            "|(?<![^\x00-\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\x00-\x7f\u200c\u200d])"
        ),
    ),
    ("tag character", re.compile("[\U000e0000-\U000e007f]")),
    (
        "variation selector",
        re.compile("[\U000e0100-\U000e01ef]|(?<=[\ufe00-\ufe0f])[\ufe00-\ufe0f]"),
    ),
    ("control character", re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")),
)


def hidden(text: str) -> list[str]:
    """Name what is hidden in a text.

    Returns:
        Such as `3 tag characters, the first in line 7`; empty: nothing is.
    """
    plain, told = text.replace("\r\n", "\n"), []
    for name, pattern in _KINDS:
        found = list(pattern.finditer(plain))
        if found:
            line = plain.count("\n", 0, found[0].start()) + 1
            where = f"in line {line}" if len(found) == 1 else f"the first in line {line}"
            told.append(f"{len(found)} {name}{'s' * (len(found) > 1)}, {where}")
    return told
