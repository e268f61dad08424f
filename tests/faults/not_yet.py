"""Rows of the catalogue that no test can show before a part of adw exists, and why."""

from typing import Final

NOT_YET: Final[dict[str, str]] = {
    "H5": "waits for agents: adw itself writes no prompt yet; the body lies in TASK.md, as it is",
    "H7": "waits for the forge: adw reads no comments yet, and so no marker and no approval in one",
    "H8": "waits for the forge: issues are files of the repository, whoever may write it starts runs",
    "H24": "waits for snapshots of trees: adw unpacks no archive",
    "H48": "waits for the dashboard: adw writes no HTML",
    "H49": "waits for the dashboard: adw serves no file",
    "H50": "waits for the dashboard: adw listens on no port",
    "H51": "waits for the dashboard: adw listens on no port",
    "H52": "waits for the webhook receiver",
    "H53": "waits for the webhook receiver",
}
