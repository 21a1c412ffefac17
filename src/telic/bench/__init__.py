"""Benchmarks: success rate of intents, and accuracy of judges."""
