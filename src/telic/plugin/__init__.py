"""Plugin for coding agents: generated files for every host, and a hook."""
