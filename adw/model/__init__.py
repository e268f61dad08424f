"""Strict, frozen documents."""
