"""Prompt to policy: from an intent to a policy that provably does it."""

WORKERS = ("telic.training.worker", "telic.judges.code", "telic.judges.trial")
"""what a session's confined processes import; see `telic.sandbox.host`"""
