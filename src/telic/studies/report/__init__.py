"""The report of a study: report.md and report.html from one document."""
