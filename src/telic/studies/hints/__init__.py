"""Data files: known packages, and adapter hints for named stacks."""
