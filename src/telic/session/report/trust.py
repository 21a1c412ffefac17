"""Why a verdict is believed: how the judge was tried, what people say, how far it carries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.core.text import MISSING, count, figure, percent
from telic.report import document as doc
from telic.session.certificate import Certificate
from telic.session.labels import calibration_of, read_labels, read_vetoes
from telic.session.report import words
from telic.session.report.words import Blocks
from telic.session.robustness import RobustnessCard, RobustnessRow, read_card

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


_MUTANTS = "Mutants are episodes that passed, frozen, cut, slowed, reversed, shuffled or mirrored."


def the_judge(facts: SessionReportFacts) -> Blocks:
    """Return the code of the judge, and how it did on examples whose worth is known."""
    if facts.author is None:
        return []
    note = "Whoever writes rewards never sees it. It runs on recorded episodes, confined."
    blocks: list[doc.Block] = [doc.Text(note, "note")]
    if facts.trial is not None:
        problems = (*facts.trial.judge_problems, *facts.trial.reward_problems)
        rows = [
            (
                example.name,
                "good" if example.is_good else "bad",
                words.score(example.score),
                figure(example.pay),
            )
            for example in facts.trial.examples
        ]
        heads = ("example", "should be", "judge's score", "reward pays")
        blocks += [
            doc.Heading("Tried on examples whose worth is known, before any training"),
            doc.Table(heads, rows),
            *([doc.Items(problems)] if problems else []),
        ]
    if facts.certificate is not None:
        blocks += _certified(facts.certificate)
    return [*blocks, doc.Code(facts.author.judge, "python", "Code of the judge")]


def _certified(certificate: Certificate) -> Blocks:
    """Return who else says that what passed is good, and what each criterion notices."""
    who = certificate.good or "nobody"
    blocks: list[doc.Block] = [
        doc.Heading("Whether its verdict can be believed"),
        doc.Text(f"Who says, besides the judge, that what passed is good: {who}."),
    ]
    if certificate.mutants:
        rows = [
            (
                each.criterion,
                f"{each.caught} of {each.total}",
                MISSING if each.changed is None else str(each.changed),
            )
            for each in certificate.mutants
        ]
        heads = ("criterion", "mutants noticed", "mutants that change what it measures")
        blocks += [doc.Text(_MUTANTS), doc.Table(heads, rows)]
    return blocks


def obeys(facts: SessionReportFacts) -> words.Blocks:
    """Return how far off the policy was, by what it was commanded."""
    if not facts.obeyed:
        return []
    rows = [
        (
            row.told,
            f"{row.seconds:.0f} s",
            f"{row.command:.2f} {row.unit}",
            f"{row.error:.2f} {row.unit}",
            MISSING if row.share is None else percent(row.share),
        )
        for row in facts.obeyed
        if row.seconds
    ]
    heads = ("told to", "for", "mean command", "mean error", "of standing still")
    note = (
        "All judged episodes of the best policy, sorted by what was commanded; moments within "
        "three quarters of a second after a new command are left out. Who stands still is off by "
        "100 %."
    )
    return [doc.Table(heads, rows), doc.Text(note, "note")]


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
