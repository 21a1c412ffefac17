"""Reports as documents of plain records, rendered as a page, Markdown or terminal text."""
