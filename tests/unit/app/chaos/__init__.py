"""Tests of adw.app.chaos that start nothing."""
