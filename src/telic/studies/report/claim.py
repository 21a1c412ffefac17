"""Two sections of a study's report: the last claim that was audited, and what judges said."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from telic.core.text import MISSING, figure, percent, signed, span
from telic.report import document as doc
from telic.studies.evidence.checks import TITLES
from telic.studies.evidence.claims import Audit
from telic.studies.report import words
from telic.studies.report.facts import StudyFacts

_JUDGES = ("fused", "code", "vision", "human")
_MOST_CANDIDATES = 6
_ABOUT_JUDGES = (
    "Score by judge, then by criterion: the share of it that was earned, and what was measured; "
    "mean over the runs that were trained in full."
)


def last_audit(facts: StudyFacts) -> list[doc.Block]:
    """Return the last audit in full."""
    audit = facts.last_audit
    if audit is None:
        return []
    verdict = doc.Strong(f"{audit.candidate}: {words.VERDICTS[audit.verdict]}.")
    reasons = [*audit.reasons]
    if audit.n_star is not None:
        reasons.append(f"{audit.n_star} seeds per arm would show the smallest Δ in 80 % of tries")
    arms = [
        (
            name or MISSING,
            str(arm.n),
            figure(arm.iqm),
            span(arm.ci),
            ", ".join(map(str, arm.seeds)),
            ", ".join(map(figure, arm.scores)),
        )
        for name, arm in zip((audit.candidate, audit.incumbent), audit.arms.values(), strict=False)
    ]
    checks: list[doc.Words] = []
    for check in audit.checks:
        why = (doc.Soft(f" {check.why}"),) if check.why else ()
        checks.append((doc.Tick(check.passed), doc.Strong(check.id), f" {TITLES[check.id]}", *why))
    rails = [
        (
            rail.key,
            span(rail.ci),
            doc.Badge("holds", "good") if rail.passed else doc.Badge("broken", "bad"),
            rail.severity,
        )
        for rail in audit.guardrails
    ]
    return [
        doc.Text((verdict, f" {words.conclusion(audit)}")),
        *([doc.Items(tuple(reasons))] if reasons else []),
        doc.FactSheet(_numbers(audit), heads=("number", "value")),
        doc.Table(("arm", "n", "IQM", "95 %", "seeds", "scores"), arms),
        doc.Heading("Checks"),
        doc.Items(tuple(checks), "checks"),
        *([doc.Heading("Guardrails")] if rails else []),
        *([doc.Table(("guardrail", "95 %", "", "severity"), rails)] if rails else []),
    ]


def _numbers(audit: Audit) -> list[tuple[str, str]]:
    stats = audit.stats
    name = ("audit", f"{audit.id}, {audit.label}")
    if audit.label == "target_claim":
        return [("runs or episodes", figure(audit.arms["x"].n)), name]
    return [
        ("runs per arm", " against ".join(str(arm.n) for arm in audit.arms.values())),
        ("Δ (IQM)", signed(stats.delta)),
        ("95 % interval", span(stats.ci)),
        ("smallest Δ that counts", figure(stats.delta_min)),
        (words.test_of(stats), words.chance(stats.welch_p)),
        ("p after Holm", words.chance(stats.holm_p)),
        ("p (exact Mann-Whitney)", words.chance(stats.mwu_p)),
        ("PoI", percent(stats.poi)),
        ("look, alpha", f"{stats.look}, {stats.alpha:g}"),
        ("noise floor σ₀", figure(stats.sigma_0)),
        ("seed of the resampling", str(audit.prng_seed)),
        name,
    ]


def judges(facts: StudyFacts) -> list[doc.Block]:
    """Return judges' scores and criteria, a column per candidate, the newest ones."""
    scores = facts.judgements
    names = list(dict.fromkeys(score.candidate for score in scores))[-_MOST_CANDIDATES:]
    sources = [source for source in _JUDGES if any(score.source == source for score in scores)]
    titles = dict.fromkeys(title for score in scores for title in score.criteria)
    rows = [
        [f"{source} judge", *(figure(_score(facts, name, source)) for name in names)]
        for source in sources
    ]
    rows += [[title, *(_criterion(facts, name, title) for name in names)] for title in titles]
    if not rows:
        return []
    return [doc.Table(("", *names), rows), doc.Text(_ABOUT_JUDGES, "note")]


def _score(facts: StudyFacts, name: str, source: str) -> float | None:
    own = [x for x in facts.judgements if (x.candidate, x.source) == (name, source)]
    return _mean(score.score for score in own)


def _criterion(facts: StudyFacts, name: str, title: str) -> str:
    values = [
        score.criteria[title]
        for score in facts.judgements
        if score.candidate == name and title in score.criteria
    ]
    if not values:
        return MISSING
    measured = _mean(value for _, value in values)
    return f"{percent(_mean(credit for credit, _ in values))} ({figure(measured)})"


def _mean(values: Iterable[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    return fmean(present) if present else None
