"""Who writes criteria, rewards and judges, and revises them: the composer, a model, or the host."""
