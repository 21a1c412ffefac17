"""The report of a session: one page to look at, and the same as Markdown."""
