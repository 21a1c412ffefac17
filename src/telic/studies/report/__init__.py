"""The report of a study: Markdown that is the same for the same facts, and one page to look at."""
