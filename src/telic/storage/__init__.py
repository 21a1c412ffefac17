"""What is on disk: safe files, the run folder's layout, metric series and trajectories."""
