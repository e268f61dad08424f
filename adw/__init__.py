"""adw runs developer workflows unattended; see README.md.

Importing this package costs nothing: the public names are loaded when they are first used.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from adw.errors import AdwError
    from adw.model.state import ADWStateData, HistoryEntry
    from adw.model.workflow import WorkflowSpec

__version__ = "0.1.0"

_PUBLIC = {
    "ADWStateData": "adw.model.state",
    "AdwError": "adw.errors",
    "HistoryEntry": "adw.model.state",
    "WorkflowSpec": "adw.model.workflow",
}

__all__ = ["ADWStateData", "AdwError", "HistoryEntry", "WorkflowSpec", "__version__"]


def __getattr__(name: str) -> object:
    """Load a public name on first use."""
    if name not in _PUBLIC:
        message = f"module 'adw' has no attribute {name!r}"
        raise AttributeError(message)
    from importlib import import_module

    return getattr(import_module(_PUBLIC[name]), name)
