"""Where issues come from and results go."""
