"""Storage: atomic writes, folder layout, metric series and trajectories."""
