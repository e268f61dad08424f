"""Mirrors adw/forge."""
