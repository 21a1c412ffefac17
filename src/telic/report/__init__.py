"""Reports as documents of plain records, which are rendered as HTML or Markdown."""
