"""Pages that are one file: markup that is safe by construction, charts as SVG, one style."""
