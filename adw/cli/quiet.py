"""The host of a command that applies a request itself: it shows nothing while it works."""

from typing import Any


def quiet_host(nursery: Any) -> Any:
    """A host without display.

    Args:
        nursery: Forked at process start.
    """
    from adw.app.sitting import Host
    from adw.cli.output import say
    from adw.cli.progress import Silent

    return Host(nursery, Silent(), _nothing, say)


def _nothing(_adw_id: str) -> None:
    """The run exists already."""
