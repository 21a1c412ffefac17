"""A session's own test of an iteration, as the claim that a decision cites.

The claim is about the target, not about an improvement: enough training seeds must prove the
threshold on fresh episodes. The parent is shown beside it, for comparison only: an iteration may
train longer than its parent, so the difference is no claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telic.authors.candidate import SessionIteration
from telic.retelling.tale import Claim, RunTale
from telic.session.records import SessionConfig
from telic.studies.documents.candidate import CheckResult


def claim_of(
    config: SessionConfig,
    judged: SessionIteration,
    runs: Sequence[RunTale],
    name_of: Callable[[int], str],
) -> Claim:
    """Return what a session concluded about an iteration."""
    own = [run for run in runs if run.phase == "promotion"]
    proving = [each.member for each in judged.members if each.low >= config.threshold]
    unjudged = [each.member for each in judged.members if each.judgement.score is None]
    missing = sorted(set(config.seeds) - {each.seed for each in judged.members})
    checks = (
        CheckResult(
            id="T01",
            passed=not missing and not unjudged,
            value=len(judged.members),
            why=_said({"seeds not trained": missing, "not judged": unjudged}),
        ),
        CheckResult(id="T02", passed=True, value=config.episodes),
        CheckResult(
            id="T03",
            passed=judged.passed,
            value=len(proving),
            why=""
            if judged.passed
            else f"{len(proving)} of {len(judged.members)} do; {config.needed} are needed",
        ),
    )
    return Claim(
        verdict="target_met" if judged.passed else "target_missed",
        keys=tuple(run.key for run in own),
        against=None if not judged.parent else name_of(judged.parent),
        checks=checks,
        reasons=tuple(f"lacking: {tag}" for tag in judged.tags if not judged.passed),
    )


def _said(found: dict[str, Sequence[object]]) -> str:
    return "; ".join(f"{what}: {', '.join(map(str, each))}" for what, each in found.items() if each)
