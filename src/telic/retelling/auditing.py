"""Write a source's own conclusion as an audit: its checks, its numbers, its verdict."""

from __future__ import annotations

from telic.retelling.runs import run_name
from telic.retelling.tale import CandidateTale, Claim, Tale, Written
from telic.storage.files import read_record
from telic.studies.canonical import content_hash
from telic.studies.documents.base import Actor
from telic.studies.documents.files import write_once
from telic.studies.evidence import statistics
from telic.studies.evidence.claims import ArmSummary, Audit, AuditStats
from telic.studies.evidence.store import add_evidence
from telic.studies.names import utc_now
from telic.studies.study import Study

_FEWEST_TO_COMPARE = 2


def write_audit(study: Study, tale: Tale, candidate: CandidateTale, actor: Actor) -> Written | None:
    """Write down what the source concluded about a candidate; None where it concluded nothing."""
    claim = candidate.claim
    if claim is None:
        return None
    state = study.state
    for name, entry in state.evidence.items():
        if (entry.kind, entry.candidate) == ("audit", candidate.name):
            return Written(study.audits(candidate.name)[-1], name)
    made = _audit(study, tale, candidate, claim)
    path = study.folder.audit_file(made.id)
    if path.is_file():
        made = read_record(path, Audit)
    else:
        write_once(path, made.as_data())
    stats = made.stats
    facts = {
        "audit": made.id,
        "verdict": made.verdict,
        "incumbent": made.incumbent,
        "runs": {name: list(arm.runs) for name, arm in made.arms.items()},
        "delta": stats.delta,
        "ci": stats.ci,
        "poi": stats.poi,
        "audit_hash": made.compute_hash(),
    }
    evidence = add_evidence(
        study,
        "audit",
        facts,
        actor,
        candidate=candidate.name,
        protocol_hash=made.protocol_hash,
        producer=actor.name,
        summary=made.verdict,
    )
    return Written(made, evidence.id)


def _audit(study: Study, tale: Tale, candidate: CandidateTale, claim: Claim) -> Audit:
    arms = {"x": _arm(tale, candidate, claim)}
    other = next((each for each in tale.candidates if each.name == claim.against), None)
    if other is not None and other.claim is not None:
        arms["y"] = _arm(tale, other, other.claim)
    identity = content_hash(
        {
            "candidate": candidate.name,
            "verdict": claim.verdict,
            "arms": {name: arm.as_data() for name, arm in arms.items()},
            "checks": [each.as_data() for each in claim.checks],
        }
    )
    seed = statistics.seed_of(identity)
    return Audit(
        id=f"a-{identity[:12]}",
        at=utc_now(),
        candidate=candidate.name,
        incumbent=other.name if "y" in arms and other else None,
        protocol_hash=study.state.protocol_hash or "",
        arms=arms,
        checks=claim.checks,
        stats=_stats(arms, seed),
        verdict=claim.verdict,
        reasons=claim.reasons,
        label="target_claim",
        prng_seed=str(seed),
    )


def _arm(tale: Tale, candidate: CandidateTale, claim: Claim) -> ArmSummary:
    runs = [run for run in candidate.runs if run.key in claim.keys]
    names = tuple(run_name(tale, run) for run in runs)
    if claim.measured is not None:
        return claim.measured.model_copy(update={"runs": names})
    scored = [(run.primary, run.seed) for run in runs if run.primary is not None]
    scores = [score for score, _ in scored]
    seed = statistics.seed_of(candidate.name)
    return ArmSummary(
        n=len(scores),
        seeds=tuple(each for _, each in scored),
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
    found = statistics.difference(ours, theirs, seed, common_units=is_common)
    return AuditStats(
        delta=found.delta,
        ci=found.ci,
        welch_p=found.p,
        is_paired=found.is_paired,
        is_counted=found.is_counted,
        mwu_p=found.rank_p,
        poi=found.poi,
        sigma=found.sigma,
    )
