"""Batched physics simulation on CPU and GPU."""
