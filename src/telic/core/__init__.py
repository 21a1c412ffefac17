"""Words everybody shares: configuration, events, seeds, statistics."""
