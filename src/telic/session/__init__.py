"""Prompt to policy: from an intent to a policy that provably does it."""
