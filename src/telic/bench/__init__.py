"""Benchmarks: how often an intent becomes a policy that does it, and how well judges judge."""
