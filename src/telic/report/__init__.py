"""Reports, which are documents of plain records, rendered as HTML or Markdown."""
