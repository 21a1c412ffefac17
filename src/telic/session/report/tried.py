"""The judge in a session's report: how it was tried before, what mutants showed after, its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from telic.core.text import MISSING, figure
from telic.report import document as doc
from telic.session.certificate import Certificate
from telic.session.report import words
from telic.session.report.words import Blocks

if TYPE_CHECKING:
    from telic.session.report.facts import SessionReportFacts

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
