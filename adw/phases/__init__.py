"""Programs that run inside a phase process, and the small API they import."""
