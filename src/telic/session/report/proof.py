"""What a policy that leaves a session carries along: intent, proof, criteria, judge, robustness."""

from __future__ import annotations

import hashlib

from telic.report import document as doc
from telic.session.labels import read_labels, standing
from telic.session.outcome import outcome_words
from telic.session.report import words
from telic.session.report.document import criteria_table
from telic.session.report.facts import SessionReportFacts, read_session
from telic.session.report.trust import carries
from telic.storage.layout import SessionFolder
from telic.training.export.card import PolicyProof

_JUDGE = "judge_fn.py"
_VIDEO = "median.mp4"


def policy_proof(folder: SessionFolder) -> PolicyProof:
    """Return the evidence of the policy that a session hands out, for the card beside it."""
    facts = read_session(folder)
    robust = tuple(carries(facts))
    sections = [
        doc.Section("What was asked, and what is proven", tuple(_proven(facts))),
        doc.Section("Criteria", tuple(criteria_table(facts))),
        *([doc.Section("How far it carries", robust)] if robust else []),
    ]
    files = {folder.judge: (_JUDGE, "the judge, whose word the proof is")}
    video = folder.report_dir / _VIDEO
    return PolicyProof(
        title=facts.config.intent,
        sections=tuple(sections),
        files={path: named for path, named in files.items() if path.exists()},
        video=video if video.exists() else None,
        other_physics=bool(robust),
    )


def _proven(facts: SessionReportFacts) -> list[doc.Block]:
    """Return intent, outcome with its limits, the proof, and the judge behind it."""
    summary = facts.summary
    outcome = outcome_words(summary.outcome, summary.limits)
    rows: list[tuple[str, doc.Words]] = [
        ("intent", facts.config.intent),
        ("outcome", doc.Strong(outcome)),
        ("written by", words.author(facts.config)),
        ("session", doc.Mono(facts.folder.name)),
    ]
    if facts.author is not None:
        digest = hashlib.sha256(facts.author.judge.encode()).hexdigest()
        rows.append(("judge", (doc.Link(_JUDGE, _JUDGE), ", SHA-256 ", doc.Mono(digest))))
    labels = standing(read_labels(facts.folder))
    if labels:
        agreeing = sum(not label.disagrees for label in labels)
        rows.append(("people", f"{agreeing} of {len(labels)} labels agree with the judge"))
    reasons = [doc.Items(summary.reasons)] if summary.reasons else []
    proof = doc.Text(words.proof(facts))
    return [proof, *reasons, doc.FactSheet(rows, heads=("", ""))]
