"""Launch, supervision and recovery of experiment runs."""
