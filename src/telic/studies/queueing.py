"""What is done with the queue: plan a candidate, ask for more seeds, send it to its next phase.

Nothing here starts a run; each verb is one event, and queue.json is written from the ledger.
"""

from __future__ import annotations

from collections.abc import Sequence

from telic.storage.files import write_json
from telic.studies import lifecycle
from telic.studies.candidate_files import current_candidate, known
from telic.studies.clock import utc_now
from telic.studies.deciding import previous_incumbent
from telic.studies.documents.base import SYSTEM, Actor, Part
from telic.studies.documents.candidate import Candidate, CandidateStatus
from telic.studies.documents.contract import Contract, Phase
from telic.studies.documents.runs import Job, QueueManifest, QueuePolicy, Slot
from telic.studies.errors import GateRefused
from telic.studies.ledger import Ledger
from telic.studies.phase_facts import judge_phase
from telic.studies.phases import Advance, next_phase
from telic.studies.queue import QueueStep, job_id, manifest_of, planned_jobs, step
from telic.studies.state import StudyState
from telic.studies.validation.spending import ROLES

SEED_BLOCK = 5
_OPEN = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)


class Advanced(Part):
    """What the look at a completed candidate came to."""

    candidate: str
    phase: Phase | None
    to: Phase | None = None
    """the phase it goes on with; None when it stays"""
    verdict: str
    why: str


def queue_of(ledger: Ledger) -> QueueManifest:
    """Return the queue as the ledger has it."""
    return manifest_of(ledger.events(), ledger.state())


def queue_step(ledger: Ledger) -> QueueStep:
    """Return what may start now; changes nothing."""
    return step(queue_of(ledger), ledger.state(), utc_now())


def plan_candidate(
    ledger: Ledger,
    candidate: str,
    actor: Actor,
    *,
    priority: int = 0,
    batch: str | None = None,
    slot: Slot | None = None,
) -> tuple[Job, ...]:
    """Queue all phases of a validated candidate; planning the same again adds nothing.

    Once it is in promotion, the incumbent's runs on the same seeds are queued beside it.
    """
    with ledger.locked():
        held = known(ledger, candidate)
        if held.status not in _OPEN:
            raise GateRefused(
                "E_QUEUE",
                f"{candidate} is {held.status}; only a validated candidate is queued.",
                hint=f"Run: telic study candidate validate {candidate}",
            )
        found, state = current_candidate(ledger, candidate), ledger.state()
        jobs = planned_jobs(candidate, held.revision, dict(found.plan.seeds), priority, slot)
        if held.phase == "promotion":
            jobs += _control_arm(state, found, priority)
        policy = policy_of(ledger.folder.read_contract(), queue_of(ledger).policy)
        _plan(ledger, candidate, jobs, actor, policy, batch)
    return jobs


def more_seeds(ledger: Ledger, candidate: str, actor: Actor, reason: str) -> tuple[Job, ...]:
    """Give an open question another block of seeds in the phase that it is in."""
    with ledger.locked():
        held, state = known(ledger, candidate), ledger.state()
        found, contract = current_candidate(ledger, candidate), ledger.folder.read_contract()
        phase = held.phase or found.plan.phases[0]
        seeds = fresh_seeds(state, contract, phase, [candidate], SEED_BLOCK)
        by = SYSTEM if held.status == CandidateStatus.COMPLETED else actor
        lifecycle.transition(
            ledger.folder,
            candidate,
            CandidateStatus.VALIDATED,
            by,
            reason,
            data={"phase": phase, "seeds": list(seeds), "content_hash": held.content_hash},
        )
        jobs = planned_jobs(candidate, held.revision, {phase: seeds})
        if state.incumbent is not None and state.incumbent.candidate != candidate:
            jobs += _arm(state, state.incumbent.candidate, phase, seeds, 0)
        _plan(ledger, candidate, jobs, actor)
    return jobs


def plan_incumbent_check(ledger: Ledger, actor: Actor) -> tuple[Job, ...]:
    """Queue five held-out seeds for the incumbent and the one before it; again: five more."""
    with ledger.locked():
        state, contract = ledger.state(), ledger.folder.read_contract()
        if state.incumbent is None:
            raise GateRefused("E_NO_INCUMBENT", "There is no incumbent to check.")
        before = previous_incumbent(state, state.incumbent.candidate)
        arms = [state.incumbent.candidate, *([before.candidate] if before else [])]
        seeds = fresh_seeds(state, contract, "incumbent_validation", arms, SEED_BLOCK)
        jobs = [job for arm in arms for job in _arm(state, arm, "incumbent_validation", seeds, 0)]
        _plan(ledger, state.incumbent.candidate, jobs, actor)
    return tuple(jobs)


def advance(ledger: Ledger) -> list[Advanced]:
    """Send every completed candidate on whose phase was good enough; says why others stay."""
    with ledger.locked():
        found = [look(ledger, name) for name in completed(ledger.state())]
        for each in found:
            if each.to is not None:
                lifecycle.transition(
                    ledger.folder,
                    each.candidate,
                    CandidateStatus.VALIDATED,
                    SYSTEM,
                    each.why,
                    data={"phase": each.to},
                )
                plan_candidate(ledger, each.candidate, SYSTEM)
    return found


def look(ledger: Ledger, candidate: str) -> Advanced:
    """Say whether a completed candidate would go on; changes nothing."""
    held, plan = known(ledger, candidate), current_candidate(ledger, candidate).plan
    later = next_phase(held.phase, plan.phases) if held.phase else None
    if later is None:
        said = Advance(verdict="wait", why="no phase is left; an audit decides")
    else:
        said = judge_phase(ledger, candidate, queue_of(ledger).policy.eta)
    to = later if said.verdict == "advance" else None
    return Advanced(
        candidate=candidate, phase=held.phase, to=to, verdict=said.verdict, why=said.why
    )


def completed(state: StudyState) -> list[str]:
    """Return the candidates whose phase is over."""
    return [n for n, each in state.candidates.items() if each.status == CandidateStatus.COMPLETED]


def planned_seeds(ledger: Ledger, candidate: Candidate, phase: Phase) -> frozenset[int]:
    """Return the seeds of a phase: those of the plan, and those that were asked for later."""
    asked = [
        job.seed
        for job in queue_of(ledger).jobs
        if (job.candidate, job.phase) == (candidate.id, phase) and job.status != "cancelled"
    ]
    return frozenset([*asked, *candidate.plan.seeds.get(phase, ())])


def fresh_seeds(
    state: StudyState, contract: Contract, phase: Phase, arms: Sequence[str], count: int
) -> tuple[int, ...]:
    """Return seeds of a phase's pool that none of the arms has run with."""
    used = {run.seed for arm in arms for run in state.runs_of(arm).values()}
    left = sorted(contract.seeds.pool(ROLES[phase]) - used)
    if len(left) < count:
        raise GateRefused(
            "E_SEEDS",
            f"The {ROLES[phase]} pool has {len(left)} fresh seeds left; {count} are needed.",
            hint="Amend the contract's seeds with a larger pool.",
        )
    return tuple(left[:count])


def policy_of(contract: Contract, held: QueuePolicy) -> QueuePolicy:
    """Return the policy that the contract allows: so many at a time, on these GPUs."""
    most, gpus = contract.scope.limits.max_concurrent, contract.hardware.gpus
    return held.model_copy(update={"max_parallel": most, "gpus": gpus})


def save_queue(ledger: Ledger) -> None:
    """Write queue.json from the ledger."""
    write_json(ledger.folder.queue, queue_of(ledger).as_data())


def _control_arm(state: StudyState, candidate: Candidate, priority: int) -> tuple[Job, ...]:
    """Return the incumbent's runs on a candidate's promotion seeds, so that pairs compare."""
    held = state.incumbent
    if held is None or held.candidate == candidate.id:
        return ()
    seeds = candidate.plan.seeds.get("promotion", ())
    return _arm(state, held.candidate, "promotion", seeds, priority)


def _arm(
    state: StudyState, candidate: str, phase: Phase, seeds: Sequence[int], priority: int
) -> tuple[Job, ...]:
    revision = state.candidates[candidate].revision
    return tuple(
        Job(
            job_id=job_id(candidate, revision, phase, seed),
            candidate=candidate,
            phase=phase,
            seed=seed,
            priority=priority,
        )
        for seed in seeds
    )


def _plan(
    ledger: Ledger,
    candidate: str,
    jobs: Sequence[Job],
    actor: Actor,
    policy: QueuePolicy | None = None,
    batch: str | None = None,
) -> None:
    """Enter the jobs that are not there yet, and cancel those of earlier revisions."""
    held = queue_of(ledger)
    there = {job.job_id for job in held.jobs if job.status != "cancelled"}
    new = [job for job in jobs if job.job_id not in there]
    mine = f"{candidate}/{ledger.state().candidates[candidate].revision}/"
    old = [
        job.job_id
        for job in held.jobs
        if job.candidate == candidate
        and not job.job_id.startswith(mine)
        and job.status != "cancelled"
    ]
    if not new and not old and policy in (None, held.policy):
        return
    facts = {
        "candidate": candidate,
        "batch": batch,
        "policy": None if policy is None else policy.as_data(),
        "jobs": [job.as_data() for job in new],
        "changes": {job: {"status": "cancelled", "reason": "a newer revision"} for job in old},
    }
    ledger.append("queue.planned", candidate, facts, actor)
    save_queue(ledger)
