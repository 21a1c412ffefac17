"""Storage of files: atomic writes, folder layout, metric series and trajectories."""
