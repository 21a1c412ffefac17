"""What is done with the queue: plan candidates, ask for more seeds, send them on, change the order.

Nothing here starts a run; each verb is one event, and queue.json is written from the ledger.
experiments.yaml, the plan of people, changes nothing by itself: what runs is in the queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from telic.errors import UnknownName
from telic.storage.files import write_json
from telic.studies import lifecycle
from telic.studies.canonical import check_slug, utc_now
from telic.studies.decide import previous_incumbent
from telic.studies.documents.base import SYSTEM, StudyActor, read_document, write_yaml
from telic.studies.documents.candidate import (
    BatchCandidate,
    CandidateStatus,
    Experiments,
    Job,
    QueueBatch,
    QueueManifest,
    QueuePolicy,
    Slot,
)
from telic.studies.documents.contract import ROLES, Phase
from telic.studies.errors import GateRefused
from telic.studies.lifecycle import LifecycleStep
from telic.studies.queue import QueueStep, job_of, planned_jobs, step
from telic.studies.rules.phases import PhaseStep, completed, phase_step
from telic.studies.state import CandidateState
from telic.studies.study import Study

SEED_BLOCK = 5
_OPEN = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)


def queue_step(study: Study) -> QueueStep:
    """Return what may start now; changes nothing."""
    return step(study.queue, study.state, utc_now())


# ---------------------------------------------------------------------------- planning


def plan_candidate(
    study: Study,
    candidate: str,
    actor: StudyActor,
    *,
    priority: int = 0,
    batch: str | None = None,
    slot: Slot | None = None,
) -> tuple[Job, ...]:
    """Queue all phases of a validated candidate; planning the same again adds nothing.

    Once it is in promotion, the incumbent's runs on the same seeds are queued beside it.
    """
    with study.locked():
        held = _require_open(study, candidate, "only a validated candidate is queued")
        seeds = study.candidate(candidate).plan.seeds
        jobs = planned_jobs(candidate, held.revision, seeds, priority, slot)
        if held.phase == "promotion":
            promoted = seeds.get("promotion", ())
            jobs += _control_arm(study, candidate, "promotion", promoted, priority)
        _plan(study, candidate, jobs, actor, batch)
    return jobs


def more_seeds(study: Study, candidate: str, actor: StudyActor, reason: str) -> tuple[Job, ...]:
    """Give an open question another block of seeds in the phase that it is in."""
    with study.locked():
        held = study.candidate_state(candidate)
        phase = held.phase or study.candidate(candidate).plan.phases[0]
        seeds = fresh_seeds(study, phase, [candidate], SEED_BLOCK)
        to, mover = CandidateStatus.VALIDATED, actor
        if held.status == CandidateStatus.COMPLETED:
            mover = SYSTEM
        facts = {"phase": phase, "seeds": list(seeds), "content_hash": held.content_hash}
        ahead = LifecycleStep(study.state, candidate, held, mover, reason, facts)
        if why := lifecycle.why_not(ahead, to):
            raise lifecycle.refused(candidate, held.status, to, why)
        jobs = planned_jobs(candidate, held.revision, {phase: seeds})
        jobs += _control_arm(study, candidate, phase, seeds)
        # The jobs first: until it moves they wait, and a rerun after a crash plans the same ones.
        _plan(study, candidate, jobs, actor)
        lifecycle.transition(study, candidate, to, mover, reason, facts)
    return jobs


def plan_incumbent_check(study: Study, actor: StudyActor) -> tuple[Job, ...]:
    """Queue five held-out seeds for the incumbent and the one before it; again: five more."""
    with study.locked():
        held = study.incumbent
        if held is None:
            raise GateRefused("E_NO_INCUMBENT", "There is no incumbent to check.")
        before = previous_incumbent(study.state, held.candidate)
        arms = [held.candidate, *([before.candidate] if before else [])]
        seeds = fresh_seeds(study, "incumbent_validation", arms, SEED_BLOCK)
        jobs = [job for arm in arms for job in _arm(study, arm, "incumbent_validation", seeds)]
        _plan(study, held.candidate, jobs, actor)
    return tuple(jobs)


def advance(study: Study) -> list[PhaseStep]:
    """Send every completed candidate on whose phase was good enough; says why others stay."""
    with study.locked():
        steps = [phase_step(study, name) for name in completed(study.state)]
        for candidate, to, why in [(x.candidate, x.to, x.why) for x in steps if x.to]:
            facts, status = {"phase": to}, CandidateStatus.VALIDATED
            lifecycle.transition(study, candidate, status, SYSTEM, why, facts)
            plan_candidate(study, candidate, SYSTEM)
    return steps


def fresh_seeds(study: Study, phase: Phase, arms: Sequence[str], count: int) -> tuple[int, ...]:
    """Return seeds of a phase's pool that none of the arms has run with."""
    used = {run.seed for arm in arms for run in study.state.runs_of(arm).values()}
    left = sorted(study.contract.seeds.pool(ROLES[phase]) - used)
    if len(left) < count:
        raise GateRefused(
            "E_SEEDS",
            f"The {ROLES[phase]} pool has {len(left)} fresh seeds left; {count} are needed.",
            hint="Amend the contract's seeds with a larger pool.",
        )
    return tuple(left[:count])


def _require_open(study: Study, candidate: str, rule: str) -> CandidateState:
    held = study.candidate_state(candidate)
    if held.status not in _OPEN:
        raise GateRefused(
            "E_QUEUE",
            f"{candidate} is {held.status}; {rule}.",
            hint=f"Run: telic study candidate validate {candidate}",
        )
    return held


def lacks_jobs(study: Study, candidate: str) -> bool:
    """Tell whether planning a validated candidate again would queue something."""
    held = study.candidate_state(candidate)
    there = study.queue.table
    phase = held.phase
    if phase is None:
        return True
    seeds = study.candidate(candidate).plan.seeds.get(phase, ())
    wanted = [*_arm(study, candidate, phase, seeds)]
    if phase == "promotion":
        wanted += _control_arm(study, candidate, phase, seeds)
    return any(job.job_id not in there for job in wanted)


def _control_arm(
    study: Study, candidate: str, phase: Phase, seeds: Sequence[int], priority: int = 0
) -> tuple[Job, ...]:
    """Return the incumbent's runs on a candidate's seeds, so that pairs compare."""
    held = study.incumbent
    if held is None or held.candidate == candidate:
        return ()
    return _arm(study, held.candidate, phase, seeds, priority)


def _arm(
    study: Study, candidate: str, phase: Phase, seeds: Sequence[int], priority: int = 0
) -> tuple[Job, ...]:
    revision = study.candidate_state(candidate).revision
    return tuple(job_of(candidate, revision, phase, seed, priority=priority) for seed in seeds)


def _plan(
    study: Study,
    candidate: str,
    jobs: Sequence[Job],
    actor: StudyActor,
    batch: str | None = None,
) -> None:
    """Enter the jobs that are not there yet, and cancel those of earlier revisions."""
    queue = study.queue
    there = {name for name, status in queue.table.values_of("status") if status != "cancelled"}
    new = [job for job in jobs if job.job_id not in there]
    mine = f"{candidate}/{study.candidate_state(candidate).revision}/"
    old = [
        job.job_id
        for job in queue.where(candidate=candidate)
        if job.job_id in there and not job.job_id.startswith(mine)
    ]
    if not new and not old:
        return
    facts = {
        "candidate": candidate,
        "batch": batch,
        "policy": queue.policy.as_data(),
        "jobs": [job.as_data() for job in new],
        "changes": {job: {"status": "cancelled", "reason": "a newer revision"} for job in old},
    }
    study.append("queue.planned", candidate, facts, actor)
    _save_queue(study)


def _save_queue(study: Study) -> None:
    write_json(study.folder.queue, study.queue.manifest().as_data())


# ---------------------------------------------------------------------------- order and batches


def reorder(
    study: Study,
    actor: StudyActor,
    *,
    order: str | None = None,
    eta: int | None = None,
    priorities: Mapping[str, int] | None = None,
) -> QueueManifest:
    """Set the policy's order and eta, and the priority of candidates' jobs; returns the queue."""
    urgent = priorities or {}
    with study.locked():
        queue = study.queue
        queued = {candidate for _, candidate in queue.table.values_of("candidate")}
        for name in urgent:
            if name not in queued:
                raise UnknownName("candidate in the queue", name, sorted(queued))
        wishes: dict[str, Any] = {"order": order, "eta": eta}
        said = {key: value for key, value in wishes.items() if value is not None}
        policy = QueuePolicy.model_validate({**queue.policy.as_data(), **said})
        changes = {
            job.job_id: {"priority": priority}
            for candidate, priority in urgent.items()
            for job in queue.where(candidate=candidate)
        }
        facts = {"policy": policy.as_data(), "changes": changes}
        study.append("queue.reordered", None, facts, actor)
        _save_queue(study)
    return study.queue.manifest()


def read_experiments(study: Study) -> Experiments:
    """Return the plan of people; an empty one when there is no file."""
    path = study.folder.experiments
    return read_document(path, Experiments) if path.is_file() else Experiments()


def plan_batch(
    study: Study, batch_id: str, goal: str, candidates: Sequence[str], actor: StudyActor
) -> QueueBatch:
    """Give candidates that are tried side by side their places, queue them, write the plan down.

    A batch of the same name is replaced; other batches and the backlog stay.
    """
    check_slug("batch", batch_id)
    with study.locked():
        for name in candidates:
            _require_open(study, name, "a batch takes validated candidates")
        gpus = study.contract.hardware.gpus
        rows = [
            _row(study, name, gpus[place % len(gpus)] if gpus else None)
            for place, name in enumerate(candidates)
        ]
        batch = QueueBatch(
            batch_id=batch_id, goal=goal, created_at=utc_now(), candidates=tuple(rows)
        )
        for row in rows:
            slot = Slot(gpu=row.gpu, worktree=row.worktree)
            plan_candidate(study, row.id, actor, batch=batch_id, slot=slot)
        plan = read_experiments(study)
        kept = tuple(each for each in plan.batches if each.batch_id != batch_id)
        grown = plan.model_copy(update={"batches": (*kept, batch)})
        write_yaml(study.folder.experiments, grown.as_data())
    return batch


def _row(study: Study, name: str, gpu: int | None) -> BatchCandidate:
    record, held = study.candidate(name), study.candidate_state(name)
    phase = held.phase or record.plan.phases[0]
    own_tree = record.isolation.mode == "worktree"
    return BatchCandidate(
        id=name,
        seeds=record.plan.seeds.get(phase, ()),
        phase=phase,
        worktree=f"{name}-r{held.revision}" if own_tree else None,
        gpu=gpu if record.isolation.gpu is None else record.isolation.gpu,
        expected_output=record.hypothesis.statement,
        promotion_criteria=record.plan.promotion_rule or None,
    )
