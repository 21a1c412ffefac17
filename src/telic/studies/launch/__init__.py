"""Launch of all experiments: gates, permits, launcher, supervisor and recovery."""
