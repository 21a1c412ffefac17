"""Reward functions: interface, loading, execution, probing, and a library of reward terms."""
