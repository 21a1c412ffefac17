"""Stable-Baselines3's PPO on the same environments and rewards, for comparison."""

from telic.training.sb3.execute import execute_sb3

__all__ = ["execute_sb3"]
