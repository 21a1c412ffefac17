"""Session report as a single HTML page and as Markdown."""
