"""Reports: one document of plain records, shown as a page, as Markdown or on a terminal."""
