"""Motion tracking: one policy that follows many reference motions through discrete tokens."""
