"""The one path that starts an experiment: gates, permit, launcher, supervisor, recovery."""
