"""What people say of a session's verdicts, for its report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.core.text import MISSING
from telic.report import document as doc
from telic.session.labels import calibration_of, read_labels, read_vetoes
from telic.session.report import words

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts


def said_by_people(facts: SessionReportFacts) -> words.Blocks:
    """Return the vetoes and labels, where judge and person differ, and what follows from it."""
    labels, vetoes = read_labels(facts.folder), read_vetoes(facts.folder)
    blocks: list[doc.Block] = []
    if vetoes:
        blocks.append(doc.Items(tuple(veto.words for veto in vetoes)))
    if not labels:
        return blocks
    rows = [
        (
            f"{label.iteration}, {label.member}, {label.episode}",
            "yes" if label.is_wanted else "no",
            words.score(label.score),
            MISSING if label.passed is None else "differ" if label.disagrees else "agree",
            label.author if label.by == "person" else f"{label.author} (an agent)",
            label.why or MISSING,
        )
        for label in labels
    ]
    heads = ("iteration, policy, episode", "wanted", "judge's score", "person and judge", "who")
    standing = calibration_of(facts.folder, facts.config.threshold)
    return [*blocks, doc.Table((*heads, "why"), rows), doc.Text(standing.words, "note")]
