"""Write the report of a study: report.md and report.html."""

from __future__ import annotations

from telic.storage.files import write_text
from telic.studies.folder import StudyFolder
from telic.studies.next import NextAction
from telic.studies.report.markdown import kept_notes, render_markdown
from telic.studies.report.page import render_page
from telic.studies.report.story import gather
from telic.studies.study import Study


def write_report(study: Study, action: NextAction | None = None) -> StudyFolder:
    """Render the report from structured files alone; people's notes in report.md are kept.

    The same ledger, files and next action give the same bytes. Nothing is entered in the ledger.
    """
    story = gather(study, action)
    folder = study.folder
    older = folder.report.read_text() if folder.report.is_file() else ""
    write_text(folder.report, render_markdown(story, kept_notes(older)))
    write_text(folder.report_page, render_page(story))
    return folder
