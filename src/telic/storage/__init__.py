"""Files: safe writing, the layout of run folders, metric series and trajectories."""
