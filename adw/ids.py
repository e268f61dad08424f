"""ADW IDs: how they are made, and the one rule that says which text is one."""

import os
import re
from typing import Final

# One allow-list for every path made from an id; \A and \Z since `$` admits a trailing newline.
ADW_ID: Final = re.compile(r"\A[a-z0-9][a-z0-9-]{5,63}\Z")
PHASE_NAME: Final = re.compile(r"\A[a-z][a-z0-9_]{0,63}\Z")


def new_id() -> str:
    """Make a fresh ADW ID: eight hex digits from the kernel's random source."""
    return os.urandom(4).hex()


def is_id(text: str) -> bool:
    """Tell whether `text` may be used as an ADW ID, and so as a directory name."""
    return ADW_ID.match(text) is not None and text.isascii()


def child_id(phase: str, attempt: int) -> str:
    """Name the directories of one attempt: `<phase>-<attempt>`."""
    return f"{phase}-{attempt}"


def slug(title: str, limit: int = 32) -> str:
    """Shorten an issue's title to `[a-z0-9-]`, at most `limit` characters; `work` if none is left."""
    words = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return words[:limit].rstrip("-") or "work"
