"""The queue: jobs follow from the ledger; `step` tells which may start and why others wait.

A job is one candidate, phase and seed. Planning it is an entry of the ledger, and its outcome is
read off the runs, so that the queue cannot disagree with what happened. Nothing here starts a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from telic.errors import TelicError, UnknownName
from telic.studies.budget import shortfalls
from telic.studies.canonical import check_slug, utc_now
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import (
    BatchCandidate,
    CandidateStatus,
    Job,
    JobStatus,
    QueueBatch,
    QueuePolicy,
    RunStatus,
    Slot,
)
from telic.studies.documents.contract import PHASES, ROLES, Amounts, Contract, Phase, SeedPools
from telic.studies.errors import GateRefused
from telic.studies.state import CandidateState, RunState, StudyState

if TYPE_CHECKING:
    from telic.studies.rules.results import PhaseStep
    from telic.studies.study import Study

TOKEN = "RUN_CANDIDATE"
"""the word that confirms a launch"""
MOST_ATTEMPTS = 3
SEED_BLOCK = 5
MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
JOB_OVER: tuple[JobStatus, ...] = ("done", "failed", "cancelled")
CONTROL_PHASES = ("promotion", "incumbent_validation")
_OPEN = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)


class ReadyJob(DocumentPart):
    """A job that may start now, and where."""

    job: Job
    retry_of: str | None = None


class WaitingJob(DocumentPart):
    """A job that may not start yet."""

    job_id: str
    why: str


class QueueStep(DocumentPart):
    """Which jobs may start now; nothing was started."""

    ready: tuple[ReadyJob, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    running: tuple[str, ...] = ()


class JobQueue(DocumentPart):
    """What is planned and what became of it."""

    study: str
    policy: QueuePolicy
    jobs: tuple[Job, ...] = ()

    @property
    def open_jobs(self) -> tuple[Job, ...]:
        """Those that are not over."""
        return tuple(job for job in self.jobs if job.status not in JOB_OVER)

    def where(self, **wanted: Any) -> tuple[Job, ...]:
        """Return the jobs whose fields have these values."""
        return tuple(
            job
            for job in self.jobs
            if all(getattr(job, field) == value for field, value in wanted.items())
        )


def queue_of(state: StudyState, contract: Contract | None) -> JobQueue:
    """Return the queue that planning and runs come to, within the present contract.

    A job whose seed an amendment took away can never start; it counts as cancelled.
    """
    tries: dict[tuple[str, Phase, int], list[tuple[str, RunState]]] = {}
    for name, run in state.runs.items():
        held = state.candidates.get(run.candidate)
        is_current = held is not None and run.revision == held.revision
        if is_current and run.status != RunStatus.ABORTED:
            tries.setdefault((run.candidate, run.phase, run.seed), []).append((name, run))
    jobs = list[Job]()
    for job in state.jobs.values():
        runs = tries.get((job.candidate, job.phase, job.seed))
        if runs and job.status != "cancelled":
            job = job.model_copy(update=_outcome(runs))
        if contract is not None and job.status == "waiting":
            pools = contract.seeds
            if why := why_seed_is_spent(state, pools, job.candidate, job.phase, job.seed):
                job = job.model_copy(update={"status": "cancelled", "reason": why})
        jobs.append(job)
    policy = state.policy
    if contract is not None:
        limits = {"max_parallel": contract.scope.limits.max_concurrent}
        policy = policy.model_copy(update={**limits, "gpus": contract.hardware.gpus})
    return JobQueue.model_construct(study=state.study, policy=policy, jobs=tuple(jobs))


def _outcome(tries: Sequence[tuple[str, RunState]]) -> dict[str, Any]:
    """Return what the runs of a job make of it."""
    common: dict[str, Any] = {"attempts": len(tries), "reason": None}
    for name, run in tries:
        if run.status == RunStatus.FINISHED:
            return {**common, "status": "done", "run_id": name}
    name, last = tries[-1]
    common["run_id"] = name
    if last.is_live or last.status == RunStatus.PLANNED:
        return {**common, "status": "running"}
    ending = f"{name} was {last.status}{f' by {last.killed_by}' if last.killed_by else ''}"
    if last.may_be_retried and len(tries) < MOST_ATTEMPTS:
        return {**common, "status": "waiting", "reason": f"{ending}; the seed is tried again"}
    return {**common, "status": "failed", "reason": ending}


def why_seed_is_spent(
    state: StudyState, pools: SeedPools, candidate: str, phase: Phase, seed: int
) -> str | None:
    """Return why a seed cannot serve a phase any more; None when it can."""
    if seed not in pools.pool(ROLES[phase]):
        return f"{seed} is not in the {ROLES[phase]} pool"
    for name, run in state.runs_of(candidate).items():
        is_seen = run.seed == seed and run.status == RunStatus.FINISHED
        if is_seen and ROLES[run.phase] != ROLES[phase]:
            return f"{name} used this seed in another role"
    return None


# ---------------------------------------------------------------------------- what may start


def queue_step(study: Study) -> QueueStep:
    """Return what may start now; changes nothing."""
    return step(study.queue, study.state)


def step(queue: JobQueue, state: StudyState) -> QueueStep:
    """Return the jobs that may start and why each of the others waits."""
    busy = [job for job in queue.open_jobs if job.status == "running"]
    # A run may be live of which no job knows: of a candidate that was revised since.
    unplanned = set(state.active_runs) - {job.run_id for job in busy}
    places = max(0, queue.policy.max_parallel - len(busy) - len(unplanned))
    taken = {job.slot.gpu for job in busy} | {state.runs[name].gpu for name in state.active_runs}
    gpus = [gpu for gpu in queue.policy.gpus if gpu not in taken]
    statuses: dict[str, JobStatus] = {job.job_id: job.status for job in queue.jobs}
    ready, waiting = list[ReadyJob](), list[WaitingJob]()
    for job in _ordered(queue):
        if job.status == "running":
            continue
        why = _why_blocked(job, statuses, state)
        if why is None and not places:
            why = f"all {queue.policy.max_parallel} places are taken"
        if why is None and queue.policy.gpus and not gpus:
            why = "no GPU is free"
        if why is not None:
            waiting.append(WaitingJob(job_id=job.job_id, why=why))
            continue
        places -= 1
        slot = job.slot.model_copy(update={"gpu": _take(gpus, job.slot)})
        placed = job.model_copy(update={"status": "ready", "slot": slot})
        ready.append(ReadyJob(job=placed, retry_of=job.run_id))
    running = tuple(job.job_id for job in busy)
    return QueueStep(ready=tuple(ready), waiting=tuple(waiting), running=running)


def _ordered(queue: JobQueue) -> Sequence[Job]:
    """Return open jobs as the policy orders them; equal ones keep the order of their planning."""
    if queue.policy.order == "priority":
        return sorted(queue.open_jobs, key=lambda job: -job.priority)
    if queue.policy.order == "successive_halving":
        # the cheap phase of the whole batch first: its results decide which candidates continue
        return sorted(queue.open_jobs, key=lambda job: (PHASES.index(job.phase), -job.priority))
    return queue.open_jobs


def _why_blocked(job: Job, statuses: Mapping[str, JobStatus], state: StudyState) -> str | None:
    if state.study_status != "open":
        return f"the study is {state.study_status}"
    if state.fired_stops:
        return f"the stop rule {state.fired_stops[0].rule} fired"
    candidate = state.candidates[job.candidate]
    if candidate.status == CandidateStatus.ACCEPTED:
        if job.phase not in CONTROL_PHASES:
            return f"an accepted candidate only runs in {' or '.join(CONTROL_PHASES)}"
    elif candidate.status not in _OPEN:
        return f"{job.candidate} is {candidate.status}"
    elif candidate.phase != job.phase:
        return f"{job.candidate} is in phase {candidate.phase}"
    for needed in job.depends_on:
        if statuses.get(needed) != "done":
            return f"{needed} is {statuses.get(needed, 'not planned')}"
    runs = state.runs_of(job.candidate, job.phase).values()
    if any(run.is_live and run.seed == job.seed for run in runs):
        return "this seed is already running"
    return None


def _take(gpus: list[int], slot: Slot) -> int | None:
    if slot.gpu in gpus:
        gpus.remove(slot.gpu)
        return slot.gpu
    return gpus.pop(0) if gpus else slot.gpu


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
        common = {"priority": priority, "slot": slot or Slot()}
        jobs, before = list[Job](), tuple[str, ...]()
        for phase in PHASES:  # each phase waits for all of the one before
            wave = _arm(study, candidate, phase, seeds.get(phase, ()), depends_on=before, **common)
            jobs += wave
            before = tuple(job.job_id for job in wave) or before
        if held.phase == "promotion":
            promoted = seeds.get("promotion", ())
            jobs += _control_arm(study, candidate, "promotion", promoted, priority)
        _plan(study, candidate, jobs, actor, batch)
    return tuple(jobs)


def more_seeds(study: Study, candidate: str, actor: StudyActor, reason: str) -> tuple[Job, ...]:
    """Give an open question another block of seeds in its present phase."""
    from telic.studies import lifecycle

    with study.locked():
        held = study.candidate_state(candidate)
        phase = held.phase or study.candidate(candidate).plan.phases[0]
        seeds = fresh_seeds(study, phase, [candidate], SEED_BLOCK)
        to, mover = CandidateStatus.VALIDATED, actor
        if held.status == CandidateStatus.COMPLETED:
            mover = SYSTEM
        facts = {"phase": phase, "seeds": list(seeds), "content_hash": held.content_hash}
        lifecycle.require(study, candidate, to, mover, reason, facts)
        jobs = _arm(study, candidate, phase, seeds)
        jobs += _control_arm(study, candidate, phase, seeds)
        # The jobs first: until it moves they wait, and a rerun after a crash plans the same ones.
        _plan(study, candidate, jobs, actor)
        lifecycle.transition(study, candidate, to, mover, reason, facts)
    return jobs


def plan_incumbent_check(study: Study, actor: StudyActor) -> tuple[Job, ...]:
    """Queue five held-out seeds for the incumbent and the one before it; again: five more."""
    from telic.studies.decide import previous_incumbent

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
    """Move every completed candidate to its next phase where the phase rule allows it."""
    from telic.studies import lifecycle
    from telic.studies.rules.results import completed, phase_step

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


def seeds_fit(study: Study, arms: list[str], phase: Phase, n: int) -> bool:
    """Return whether pool and budget have another block of seeds for an arm of n runs."""
    if n >= MOST_SEEDS:
        return False
    try:
        seeds = fresh_seeds(study, phase, arms, SEED_BLOCK)
    except TelicError:  # the pool has too few
        return False
    wanted = Amounts(launches=len(arms) * len(seeds))
    return not shortfalls(study.state, wanted, arms[0], phase)


def lacks_jobs(study: Study, candidate: str) -> bool:
    """Return whether planning a validated candidate again would queue something."""
    phase = study.candidate_state(candidate).phase
    if phase is None:
        return True
    seeds = study.candidate(candidate).plan.seeds.get(phase, ())
    wanted = _arm(study, candidate, phase, seeds)
    if phase == "promotion":
        wanted += _control_arm(study, candidate, phase, seeds)
    return any(job.job_id not in study.state.jobs for job in wanted)


def _require_open(study: Study, candidate: str, rule: str) -> CandidateState:
    held = study.candidate_state(candidate)
    if held.status not in _OPEN:
        raise GateRefused(
            "E_QUEUE",
            f"{candidate} is {held.status}; {rule}.",
            hint="Run: telic study run",
        )
    return held


def _control_arm(
    study: Study, candidate: str, phase: Phase, seeds: Sequence[int], priority: int = 0
) -> tuple[Job, ...]:
    """Return the incumbent's runs on a candidate's seeds, so that pairs compare."""
    held = study.incumbent
    if held is None or held.candidate == candidate:
        return ()
    return _arm(study, held.candidate, phase, seeds, priority=priority)


def _arm(
    study: Study, candidate: str, phase: Phase, seeds: Sequence[int], **facts: Any
) -> tuple[Job, ...]:
    """Return the jobs of a candidate on some seeds, named e.g. c-0007-smoother/2/promotion/101."""
    name = f"{candidate}/{study.candidate_state(candidate).revision}/{phase}"
    return tuple(
        Job(job_id=f"{name}/{seed}", candidate=candidate, phase=phase, seed=seed, **facts)
        for seed in seeds
    )


def _plan(
    study: Study,
    candidate: str,
    jobs: Sequence[Job],
    actor: StudyActor,
    batch: str | None = None,
) -> None:
    """Enter the jobs that are not there yet, and cancel those of earlier revisions."""
    queue = study.queue
    there = {job.job_id for job in queue.jobs if job.status != "cancelled"}
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


# ---------------------------------------------------------------------------- order and batches


def reorder(
    study: Study,
    actor: StudyActor,
    *,
    order: str | None = None,
    eta: int | None = None,
    priorities: Mapping[str, int] | None = None,
) -> JobQueue:
    """Set the policy's order and eta, and the priority of candidates' jobs; returns the queue."""
    urgent = priorities or {}
    with study.locked():
        queue = study.queue
        queued = {job.candidate for job in queue.jobs}
        for name in urgent:
            if name not in queued:
                raise UnknownName("candidate in the queue", name, sorted(queued))
        wishes: dict[str, Any] = {"order": order, "eta": eta}
        given = {key: value for key, value in wishes.items() if value is not None}
        policy = QueuePolicy.model_validate({**queue.policy.as_data(), **given})
        changes = {
            job.job_id: {"priority": priority}
            for candidate, priority in urgent.items()
            for job in queue.where(candidate=candidate)
        }
        facts = {"policy": policy.as_data(), "changes": changes}
        study.append("queue.reordered", None, facts, actor)
    return study.queue


def plan_batch(
    study: Study, batch_id: str, goal: str, candidates: Sequence[str], actor: StudyActor
) -> QueueBatch:
    """Queue candidates that are tried side by side, each with its GPU and worktree."""
    check_slug("batch", batch_id)
    with study.locked():
        for name in candidates:
            _require_open(study, name, "a batch takes validated candidates")
        gpus = study.contract.hardware.gpus
        rows = [
            _row(study, name, gpus[place % len(gpus)] if gpus else None)
            for place, name in enumerate(candidates)
        ]
        for row in rows:
            slot = Slot(gpu=row.gpu, worktree=row.worktree)
            plan_candidate(study, row.id, actor, batch=batch_id, slot=slot)
    return QueueBatch(batch_id=batch_id, goal=goal, created_at=utc_now(), candidates=tuple(rows))


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
