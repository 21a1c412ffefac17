"""Prompt to policy: from an intent to a policy that provably does it."""

WORKERS = ("telic.training.worker", "telic.judges.recorder", "telic.judges.validation")
"""what a session's confined processes import; see `telic.sandbox.nursery`"""
# What is usual, here because listing options must not load the records that have them.
ENV = "HalfCheetah-v5"
ITERATIONS, SEEDS = 4, (1, 2, 3)
THRESHOLD, EPISODES, FIRST_REWARDS = 0.8, 64, 3
