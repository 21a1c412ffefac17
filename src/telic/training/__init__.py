"""From a reward to a trained policy: population PPO, evaluation, checkpoints, export."""
