"""Judges score episodes against an intent and provide evidence."""
