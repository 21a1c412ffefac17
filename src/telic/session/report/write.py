"""Write the report of a session: report.html, report.md and their pictures."""

from __future__ import annotations

from telic.authors.candidate import SessionIteration
from telic.composer.compose import Composition
from telic.core.events import Listener, ignore
from telic.session.records import SessionConfig, SessionSummary
from telic.session.report.markdown import render_markdown
from telic.session.report.page import render_page
from telic.session.report.story import gather
from telic.session.report.troubles import Troubles
from telic.storage.files import write_text
from telic.storage.layout import SessionFolder


def write_report(
    folder: SessionFolder,
    config: SessionConfig,
    author: Composition | None,
    history: list[SessionIteration],
    summary: SessionSummary,
    tell: Listener = ignore,
) -> None:
    """Write the report of a session as it stands, finished or not.

    It never fails the session: what cannot be read, drawn or written is told as a "log" event, and
    listed at the end of the report.
    """
    troubles = Troubles(tell)
    story = gather(folder, config, author, history, summary, troubles)
    with troubles.sparing(folder.page.name):
        write_text(folder.page, render_page(story, troubles))
    with troubles.sparing(folder.report.name):
        write_text(folder.report, render_markdown(story, troubles))
