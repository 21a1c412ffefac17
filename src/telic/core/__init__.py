"""Shared foundations: configuration, events, seeds, statistics."""
