"""Judges: what an episode was worth for an intent, and the evidence for it."""
