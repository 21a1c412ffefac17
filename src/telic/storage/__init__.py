"""Files: atomic writes, the layout of run folders, metric series and trajectories."""
