"""Rows of the catalogue that no test can show before a part of adw exists, and why."""

from typing import Final

NOT_YET: Final[dict[str, str]] = {}
