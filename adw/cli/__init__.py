"""The command line: arguments to one call in app, render, exit code."""
