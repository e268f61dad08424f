"""Mirrors adw/source."""
