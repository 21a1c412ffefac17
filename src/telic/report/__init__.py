"""Reports: documents made of plain records, rendered as HTML or Markdown."""
