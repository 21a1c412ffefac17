"""The report of a session: one page to look at, and the same as Markdown."""

from telic.session.report.document import write_report

__all__ = ["write_report"]
