"""Rewards: the contract, loading, deciding how to run the code, probing, and a small library."""
