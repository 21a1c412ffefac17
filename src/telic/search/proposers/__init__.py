"""Who makes the first candidate: a model, an optimiser, or both."""
