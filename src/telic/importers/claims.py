"""What a source concluded about a candidate: its claim, and the audit that a decision cites.

A session's claim is about the target, not about an improvement: enough training seeds must prove
the threshold on fresh episodes. The parent is shown beside it, for comparison only: an iteration
may train longer than its parent, so the difference is no claim.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from telic.authors.candidate import SessionIteration
from telic.importers.records import Claim, ImportedCandidate, ImportedRun, ImportedStudy
from telic.session.records import SessionConfig
from telic.studies.canonical import content_hash, utc_now
from telic.studies.documents.candidate import CheckResult
from telic.studies.evidence import statistics
from telic.studies.evidence.audit import difference_stats
from telic.studies.evidence.claims import ArmSummary, Audit, AuditStats

_FEWEST_TO_COMPARE = 2


def session_claim(
    config: SessionConfig,
    judged: SessionIteration,
    runs: Sequence[ImportedRun],
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


def source_audit(
    work: ImportedStudy, candidate: ImportedCandidate, claim: Claim, protocol_hash: str
) -> Audit:
    """Return a source's own conclusion about a candidate as an audit."""
    arms = {"x": _arm(work, candidate, claim)}
    other = next((each for each in work.candidates if each.name == claim.against), None)
    if other is not None and other.claim is not None:
        arms["y"] = _arm(work, other, other.claim)
    identity = content_hash(
        {
            "candidate": candidate.name,
            "verdict": claim.verdict,
            "arms": {name: arm.as_data() for name, arm in arms.items()},
            "checks": [check.as_data() for check in claim.checks],
        }
    )
    seed = statistics.seed_of(identity)
    return Audit(
        id=f"a-{identity[:12]}",
        at=utc_now(),
        candidate=candidate.name,
        incumbent=other.name if "y" in arms and other else None,
        protocol_hash=protocol_hash,
        arms=arms,
        checks=claim.checks,
        stats=_stats(arms, seed),
        verdict=claim.verdict,
        reasons=claim.reasons,
        label="target_claim",
        prng_seed=str(seed),
    )


def _arm(work: ImportedStudy, candidate: ImportedCandidate, claim: Claim) -> ArmSummary:
    runs = [run for run in candidate.runs if run.key in claim.keys]
    names = tuple(run.name_in(work) for run in runs)
    if claim.measured is not None:
        return claim.measured.model_copy(update={"runs": names})
    scored = [(run.primary, run.seed) for run in runs if run.primary is not None]
    scores = [score for score, _ in scored]
    seed = statistics.seed_of(candidate.name)
    return ArmSummary(
        n=len(scores),
        seeds=tuple(seed for _, seed in scored),
        runs=names,
        scores=tuple(scores),
        iqm=statistics.iqm(scores) if scores else None,
        ci=statistics.iqm_interval(scores, seed) if scores else None,
    )


def _stats(arms: dict[str, ArmSummary], seed: int) -> AuditStats:
    """Return the numbers of the comparison; empty where there is nothing to compare with."""
    if "y" not in arms or min(len(arm.scores) for arm in arms.values()) < _FEWEST_TO_COMPARE:
        return AuditStats()
    ours, theirs = ({"": list(arm.scores)} for arm in arms.values())
    is_common = arms["x"].seeds == arms["y"].seeds
    return difference_stats(statistics.difference(ours, theirs, seed, common_units=is_common))
