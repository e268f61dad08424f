"""Tell equal failures apart from new ones: the signature that `no_progress` counts.

Two failures are equal when only numbers, times, addresses, colours or temporary places differ.
"""

import hashlib
import re
from typing import Final

TRANSIENT: Final = frozenset({"timeout", "idle", "signal", "oom", "disk", "agent_error"})
"""Failure kinds that the machine's load or another service can cause: never counted as equal."""
COUNTED: Final = frozenset({"exit", "missing_output", "contract", "result_invalid", "no_change"})
"""Failure kinds that the work itself causes; all others have no signature."""
TAIL_LINES: Final = 60  # the end of a log says why; what stood before may differ by chance
LINE_CHARS: Final = 400  # longer lines are data

_RULES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)", ""),  # terminal colours
        (r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?", "<time>"),
        (r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b", "<time>"),
        (r"(?:/private)?(?:/tmp|/var/tmp|/var/folders|/dev/shm)/[^\s:'\")\]>,]*", "<temp>"),
        (r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b", "<hex>"),
        (r"\b0[xX][0-9a-fA-F]+\b", "<hex>"),
        # at least one digit, so that a word such as `defaced` stays a word
        (r"\b(?=[a-fA-F]*\d)[0-9a-fA-F]{7,}\b", "<hex>"),
        (r"\d+(?:[.,]\d+)*", "<n>"),
        (r"([=\-_.*#~])\1{2,}", r"\1\1\1"),  # rulers are filled up to the width of the numbers
        (r"\s+", " "),
    )
)


def signature(reason: str, exit_code: int | None, tail: str) -> str | None:
    """Digest of a normalised failure.

    Args:
        reason: Failure kind.
        exit_code: The program's, where it had one.
        tail: End of what it said, or what adw says of it; the last 60 lines are looked at.

    Returns:
        16 hex digits, equal for equal failures; None where the failure is transient (`TRANSIENT`,
        and every kind that is not counted) or unknown (nothing was said).
    """
    if reason not in COUNTED:
        return None
    said = normalised(tail)
    if not said:
        return None
    text = f"{reason}\n{exit_code}\n{said}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]


def normalised(tail: str) -> str:
    """The last lines of a text without what differs from one attempt to the next."""
    lines = []
    for line in tail.splitlines()[-TAIL_LINES:]:
        kept = line[:LINE_CHARS]
        for pattern, replacement in _RULES:
            kept = pattern.sub(replacement, kept)
        if kept.strip():
            lines.append(kept.strip())
    return "\n".join(lines)
