"""Comparing output shown in a document with what a command printed.

Lines may be left out. Names of runs and commits, instants, durations and process ids may differ, and `…`
stands for anything.
"""

import re
from typing import Final

_LOOSE: Final = {
    r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])": "<id>",
    r"(?<![0-9a-f])[0-9a-f]{12}(?=\.\.)": "<commit>",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "<time>",
    r"\d+\.\d s": "<n> s",
    r"\b(process|kill -9) \d+": r"\1 <pid>",
    r"(?<=\S) {2,}": "  ",
}


def missing(shown: list[str], printed: str) -> str | None:
    """The first line that was not printed after those before it."""
    rest = iter(_normal(printed).splitlines())
    for line in shown:
        pattern = ".*".join(re.escape(part) for part in _normal(line).split("…"))
        if not any(re.fullmatch(pattern, each.rstrip()) for each in rest):
            return line
    return None


def _normal(text: str) -> str:
    for found, loose in _LOOSE.items():
        text = re.sub(found, loose, text)
    return text
