"""Modules that all packages share: configuration, events, seeds and statistics."""
