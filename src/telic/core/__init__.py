"""Shared modules for configuration, events, seeds and statistics."""
