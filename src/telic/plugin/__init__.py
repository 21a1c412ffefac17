"""Plugin for coding agents: generated files for every host, and two hooks."""
