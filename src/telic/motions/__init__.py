"""Reference motions: clips, libraries of them, where they come from and what they are worth."""
