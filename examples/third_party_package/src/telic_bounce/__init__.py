"""Minimal examples of every kind of plugin that telic supports."""
