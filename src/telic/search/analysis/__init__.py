"""What finished searches tell: tables, curves, tests, and how revisions behave."""
