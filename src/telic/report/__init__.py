"""Reports: a document of plain records, rendered as a page, as Markdown or in a terminal."""
