"""Studies: experiments by people and coding agents in any repository, gated by evidence."""
