"""The robustness card in words: as a section of the report, and for whoever exports the policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.core.text import MISSING, count
from telic.report import document as doc
from telic.session.report import words
from telic.session.robustness import RobustnessCard, RobustnessRow, read_card

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts

_HEADS = ("condition", "what differs", "episodes that pass", "mean score")


def carries(facts: SessionReportFacts) -> words.Blocks:
    """Return how the policy that passed does under conditions it was not trained in."""
    card = read_card(facts.folder)
    return [] if card is None else card_blocks(card)


def card_blocks(card: RobustnessCard) -> list[doc.Block]:
    """Return the table of a card, and what it is."""
    note = (
        f"The policy that is handed out ({card.member}, {card.step:,} steps), by the same judge's "
        f"code, on fresh starts; an episode passes with {card.threshold:g}. None of this is part "
        "of the pass: it says how far the policy carries."
    )
    return [doc.Table(_HEADS, [_line(row) for row in card.rows]), doc.Text(note, "note")]


def fragile(card: RobustnessCard) -> list[str]:
    """Name the conditions under which most episodes that pass otherwise do not, worst first."""
    usual = card.rows[0].passing
    known = [row for row in card.rows[1:] if row.passing is not None]
    lost = sorted((row.passing or 0, row.condition) for row in known if _is_lost(row, usual))
    return [condition for _, condition in lost]


def summary_line(card: RobustnessCard) -> str:
    """Say in one line how far the policy carries."""
    weak = fragile(card)
    known = sum(row.passing is not None for row in card.rows[1:])
    if not known:
        return "unknown: no condition could be tried"
    if weak:
        return f"fails under {', '.join(weak)} (of {count(known, 'condition')} tried)"
    return f"holds under all of {count(known, 'condition')} tried"


def _is_lost(row: RobustnessRow, usual: int | None) -> bool:
    return row.passing is not None and row.passing < (usual or row.episodes) / 2


def _line(row: RobustnessRow) -> tuple[str, ...]:
    if row.passing is None:
        return (row.condition, row.words, row.reason or "unknown", MISSING)
    passing = f"{row.passing} of {row.episodes}"
    return (row.condition, row.words, passing, words.score(row.score))
