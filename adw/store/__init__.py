"""Every durable file."""
