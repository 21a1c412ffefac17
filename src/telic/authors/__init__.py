"""Authors of criteria, rewards and judges: the composer, a model, or the host."""
