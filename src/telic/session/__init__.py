"""From a prompt to a trained policy with verified evidence."""

WORKERS = ("telic.training._worker", "telic.judges.recorder", "telic.judges.validation")
"""modules imported by a session's sandboxed processes; see `telic.sandbox.nursery`"""
