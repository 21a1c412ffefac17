"""Modules for configuration, events, seeds and statistics that all packages share."""
