"""`adw chaos`: a workflow is run in a throw-away copy, killed again and again, and compared."""
