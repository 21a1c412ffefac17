"""Reward interface, with loading, execution, probing and a library of reward terms."""
