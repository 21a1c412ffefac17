"""Run a reward written for one environment on all environments at once."""
