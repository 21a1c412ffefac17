"""Launch path of all experiments: gates, permit, launcher, supervisor, recovery."""
