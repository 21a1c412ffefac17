"""Studies: evidence-gated experiments that people and coding agents run in any repository."""
