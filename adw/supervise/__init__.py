"""Nursery, supervisors, and the end of process trees."""
