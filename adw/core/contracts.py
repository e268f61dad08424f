"""When two failures are the same failure, so that a loop that gets nowhere is ended early.

Numbers, hex words and white space are left out: durations, addresses and process ids change from
one attempt to the next though nothing else did. Timeouts, signals and the like are transient and
have no signature; neither has a failure that printed nothing, which nobody can tell from another.
"""

import hashlib
import re
from typing import Final

_LASTING: Final = frozenset(
    {"exit", "missing_output", "contract", "result_invalid", "no_change", "agent_error"}
)
_VARYING: Final = re.compile(r"0x[0-9a-fA-F]+|\b(?=[a-fA-F]*\d)[0-9a-fA-F]{6,}\b|\d+")
_LENGTH: Final = 16  # hex digits


def signature(reason: str, exit_code: int | None, tail: str) -> str | None:
    """Digest of a failure, equal for failures that differ in numbers only.

    Args:
        reason: Failure kind.
        exit_code: Of the body, if it exited.
        tail: The end of what it printed.

    Returns:
        16 hex digits; None where the failure is transient or nothing is known of it.
    """
    if reason not in _LASTING:
        return None
    words = _VARYING.sub("#", tail).split()
    if not words:
        return None
    text = f"{reason}\0{exit_code}\0{' '.join(words)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_LENGTH]
