"""Diagnostic log lines on stderr; the only importer of structlog.

adw's results are on stdout and its errors come from the error boundary. These lines say what
adw mended or noticed on the way. Off by default; `ADW_LOG=info|debug` turns them on.
"""

import os
from typing import Any


def event(name: str, **fields: Any) -> None:
    """Log one event at level info, when `ADW_LOG` asks for it; costs nothing otherwise."""
    level = os.environ.get("ADW_LOG", "")
    if level in {"info", "debug"}:
        _logger().info(name, **fields)


def _logger() -> Any:
    import sys

    import structlog

    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "event"]),
        ],
    )
