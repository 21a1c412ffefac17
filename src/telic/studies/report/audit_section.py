"""The last audit in full, as a section of the page."""

from __future__ import annotations

from telic.core.pages.elements import facts, listed, table
from telic.core.pages.markup import Markup, join, tag
from telic.studies.evidence.checks import TITLES
from telic.studies.evidence.claims import Audit
from telic.studies.report import words
from telic.studies.report.story import Story


def last_audit(story: Story) -> Markup | None:
    """The last audit in full."""
    audit = story.last_audit
    if audit is None:
        return None
    checks = [
        tag(
            "li",
            tag("strong", each.id),
            " ",
            TITLES[each.id],
            tag("span", f" {each.why}", class_="why") if each.why else None,
            class_="yes" if each.passed else "no",
        )
        for each in audit.checks
    ]
    return join(
        [
            tag(
                "p",
                tag("strong", f"{audit.candidate}: {words.VERDICTS[audit.verdict]}. "),
                words.conclusion(audit),
            ),
            listed(audit.reasons) or Markup(),
            facts(_audit_numbers(audit)),
            tag("h3", "Checks"),
            tag("ul", *checks, class_="checks"),
            _guardrails(audit),
        ]
    )


def _audit_numbers(audit: Audit) -> list[tuple[object, object]]:
    stats = audit.stats
    if audit.label == "target_claim":
        return [("runs or episodes", words.number(audit.arms["x"].n)), ("audit", audit.id)]
    rows: list[tuple[object, object]] = [
        ("runs per arm", " against ".join(str(arm.n) for arm in audit.arms.values())),
        ("smallest Δ that counts", words.number(stats.delta_min)),
        (
            words.test_of(stats),
            words.chance(stats.welch_p),
        ),
        ("p after Holm", words.chance(stats.holm_p)),
        ("p (exact Mann-Whitney)", words.chance(stats.mwu_p)),
        ("look, alpha", f"{stats.look}, {stats.alpha:g}"),
        ("noise floor σ₀", words.number(stats.sigma_0)),
        ("audit", audit.id),
    ]
    if audit.n_star is not None:
        rows.append(("seeds per arm needed", str(audit.n_star)))
    return rows


def _guardrails(audit: Audit) -> Markup:
    if not audit.guardrails:
        return Markup()
    rows = [
        (each.key, words.span(each.ci), "holds" if each.passed else "broken", each.severity)
        for each in audit.guardrails
    ]
    return join([tag("h3", "Guardrails"), table(["guardrail", "95 %", "", "severity"], rows)])
