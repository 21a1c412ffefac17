"""Judges: score episodes against an intent, with evidence."""
