"""Use cases; the only place that wires parts together."""
