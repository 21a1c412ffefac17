"""What judges said of the candidates, criterion by criterion, as a section of the page."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from telic.core.pages.elements import table
from telic.core.pages.markup import Markup, join, tag
from telic.studies.report import words
from telic.studies.report.story import Story

_WHOLE = ("fused", "code", "vision", "human")
_MOST_CANDIDATES = 6
_NOTE = (
    "Score by judge, then by criterion: the share of it that was earned, and what was measured; "
    "mean over the runs that were trained in full."
)


def judges(story: Story) -> Markup | None:
    """Judges' scores and criteria, a column per candidate, the newest ones."""
    heads, rows = judged_table(story)
    if not rows:
        return None
    return join([table(["", *heads], rows, "judges"), tag("p", _NOTE, class_="note")])


def judged_table(story: Story) -> tuple[list[str], list[list[str]]]:
    """Return candidates and rows of judges' scores and criteria; empty where nobody judged."""
    names = list(dict.fromkeys(each.candidate for each in story.judgements))[-_MOST_CANDIDATES:]
    sources = [each for each in _WHOLE if any(x.source == each for x in story.judgements)]
    rows = [
        [f"{source} judge", *(words.number(_score(story, name, source)) for name in names)]
        for source in sources
    ]
    titles = dict.fromkeys(title for each in story.judgements for title in each.criteria)
    rows += [[title, *(_criterion(story, name, title) for name in names)] for title in titles]
    return names, rows


def _score(story: Story, name: str, source: str) -> float | None:
    own = [x for x in story.judgements if (x.candidate, x.source) == (name, source)]
    return _mean(each.score for each in own)


def _criterion(story: Story, name: str, title: str) -> str:
    found = [
        each.criteria[title]
        for each in story.judgements
        if each.candidate == name and title in each.criteria
    ]
    if not found:
        return words.MISSING
    measured = _mean(value for _, value in found)
    return f"{words.percent(_mean(credit for credit, _ in found))} ({words.number(measured)})"


def _mean(values: Iterable[float | None]) -> float | None:
    known = [each for each in values if each is not None]
    return fmean(known) if known else None
