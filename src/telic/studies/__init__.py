"""Studies: evidence-gated experiments by people and coding agents in any repository."""
