"""Rewards: the reward interface, loading, execution, probing and a library of terms."""
