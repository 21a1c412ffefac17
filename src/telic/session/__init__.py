"""Prompt to policy: from an intent to a policy that provably does it."""

WORKERS = ("telic.training.worker", "telic.judges.recorder", "telic.judges.validation")
"""what a session's confined processes import; see `telic.sandbox.nursery`"""
