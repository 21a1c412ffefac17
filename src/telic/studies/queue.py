"""The queue: jobs follow from the ledger, and a step says which may start and why others wait.

Everything here is pure. A job is one candidate, phase and seed; planning it is an event, and what
became of it is read off the runs, so that the queue cannot disagree with what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from telic.studies.canonical import moment
from telic.studies.chain import LedgerEvent
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import (
    CandidateStatus,
    Job,
    JobStatus,
    QueueManifest,
    QueuePolicy,
    RunStatus,
    Slot,
)
from telic.studies.documents.contract import PHASES, ROLES, Contract, Phase, SeedPools
from telic.studies.state import RunState, StudyState

MOST_ATTEMPTS = 3
JOB_OVER: tuple[JobStatus, ...] = ("done", "failed", "cancelled")
_BUSY: tuple[JobStatus, ...] = ("leased", "running")
CONTROL_PHASES = ("promotion", "incumbent_validation")


class ReadyJob(DocumentPart):
    """A job that may start now, and where."""

    job: Job
    retry_of: str | None = None


class WaitingJob(DocumentPart):
    """A job that may not start yet."""

    job_id: str
    why: str


class QueueStep(DocumentPart):
    """What a look at the queue came to; nothing was started."""

    ready: tuple[ReadyJob, ...] = ()
    waiting: tuple[WaitingJob, ...] = ()
    running: tuple[str, ...] = ()


# ---------------------------------------------------------------------------- what was planned


def manifest_of(
    events: Iterable[LedgerEvent], state: StudyState, revisions: Mapping[str, int]
) -> QueueManifest:
    """Return the queue that the planning in a ledger comes to.

    Args:
        events: queue.planned and queue.reordered.
        state: of the study.
        revisions: of its candidate for which each run was started.
    """
    policy, jobs = QueuePolicy(), dict[str, Job]()
    for event in events:
        policy = QueuePolicy.model_validate(event.data.get("policy") or policy)
        for data in event.data.get("jobs", ()):
            job = Job.model_validate(data)
            jobs[job.job_id] = job
        for job_id, changes in event.data.get("changes", {}).items():
            if job_id in jobs:
                jobs[job_id] = Job.model_validate({**jobs[job_id].as_data(), **changes})
    tries = _tries(state, revisions)
    return QueueManifest(
        study=state.study,
        policy=policy,
        jobs=tuple(_settled(job, state, tries) for job in jobs.values()),
    )


Tries = dict[tuple[str, Phase, int], dict[str, RunState]]


def _tries(state: StudyState, revisions: Mapping[str, int]) -> Tries:
    """Return the runs of every candidate's present revision, by candidate, phase and seed."""
    found: Tries = {}
    for name, run in state.runs.items():
        held = state.candidates.get(run.candidate)
        now = None if held is None else held.revision
        if run.status != RunStatus.ABORTED and revisions.get(name, now) == now:
            found.setdefault((run.candidate, run.phase, run.seed), {})[name] = run
    return found


def as_agreed(manifest: QueueManifest, state: StudyState, contract: Contract) -> QueueManifest:
    """Return the queue as the contract of today allows it: so many at a time, with fresh seeds.

    A job whose seed an amendment took away can never start; it is as good as cancelled.
    """
    limits, gpus = contract.scope.limits, contract.hardware.gpus
    allowed = {"max_parallel": limits.max_concurrent, "gpus": gpus}
    policy = manifest.policy.model_copy(update=allowed)
    jobs = list[Job]()
    for job in manifest.jobs:
        is_open = job.status in ("waiting", "ready")
        spent = is_open and why_seed_is_spent(
            state, contract.seeds, job.candidate, job.phase, job.seed
        )
        gone = {"status": "cancelled", "reason": spent}
        jobs.append(job.model_copy(update=gone) if spent else job)
    return manifest.model_copy(update={"policy": policy, "jobs": tuple(jobs)})


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


def _settled(job: Job, state: StudyState, runs: Tries) -> Job:
    """Return the job with the status that its runs give it."""
    tries = runs.get((job.candidate, job.phase, job.seed))
    if job.status == "cancelled" or job.candidate not in state.candidates or not tries:
        return job
    name, last = list(tries.items())[-1]
    done = next((n for n, run in tries.items() if run.status == RunStatus.FINISHED), None)
    if done is not None:
        name, status, reason = done, "done", None
    elif last.is_live or last.status == RunStatus.PLANNED:
        status, reason = "running", None
    elif last.may_be_retried and len(tries) < MOST_ATTEMPTS:
        status, reason = "waiting", f"{name} was {_ending(last)}; the seed is tried again"
    else:
        status, reason = "failed", f"{name} was {_ending(last)}"
    changes = {"status": status, "run_id": name, "attempts": len(tries), "reason": reason}
    return job.model_copy(update=changes)


def _ending(run: RunState) -> str:
    return f"{run.status}{f' by {run.killed_by}' if run.killed_by else ''}"


# ---------------------------------------------------------------------------- what may start


def step(manifest: QueueManifest, state: StudyState, now: str) -> QueueStep:
    """Return the jobs that may start and why each of the others waits; never starts one."""
    busy = [job for job in manifest.jobs if is_busy(job, now)]
    # A run may be live of which no job knows: of a candidate that was revised since.
    unplanned = set(state.active_runs) - {job.run_id for job in busy}
    places = max(0, manifest.policy.max_parallel - len(busy) - len(unplanned))
    by_id = {job.job_id: job for job in manifest.jobs}
    gpus = _free_gpus(manifest.policy, busy, state)
    ready, waiting = list[ReadyJob](), list[WaitingJob]()
    for job in _ordered(manifest):
        if job.status in JOB_OVER or is_busy(job, now):
            continue
        why = _why_blocked(job, by_id, state)
        if why is None and not places:
            why = f"all {manifest.policy.max_parallel} places are taken"
        if why is None and manifest.policy.gpus and not gpus:
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


def is_busy(job: Job, now: str) -> bool:
    """Return whether somebody runs the job or holds it; a lease that ran out holds nothing."""
    if job.status == "leased" and job.lease is not None:
        return moment(job.lease.until) > moment(now)
    return job.status in _BUSY


def _ordered(manifest: QueueManifest) -> Sequence[Job]:
    """Return jobs in the order of the policy; equal ones keep the order they were planned in."""
    if manifest.policy.order == "priority":
        return sorted(manifest.jobs, key=lambda job: -job.priority)
    if manifest.policy.order == "successive_halving":
        # the cheap phase of the whole batch first: its results decide who goes on
        return sorted(manifest.jobs, key=lambda job: (PHASES.index(job.phase), -job.priority))
    return manifest.jobs


def _why_blocked(job: Job, jobs: Mapping[str, Job], state: StudyState) -> str | None:
    if state.study_status != "open":
        return f"the study is {state.study_status}"
    if state.fired_stops:
        return f"the stop rule {state.fired_stops[0].rule} fired"
    if why := _why_candidate_waits(job, state):
        return why
    for needed in job.depends_on:
        before = jobs.get(needed)
        if before is None or before.status != "done":
            return f"{needed} is {before.status if before else 'not planned'}"
    runs = state.runs_of(job.candidate, job.phase).values()
    if any(run.is_live and run.seed == job.seed for run in runs):
        return "this seed is already running"
    return None


def _why_candidate_waits(job: Job, state: StudyState) -> str | None:
    candidate = state.candidates.get(job.candidate)
    if candidate is None:
        return f"there is no candidate {job.candidate}"
    if candidate.status == CandidateStatus.ACCEPTED:
        if job.phase in CONTROL_PHASES:
            return None
        return f"an accepted candidate only runs in {' or '.join(CONTROL_PHASES)}"
    if candidate.status not in (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED):
        return f"{job.candidate} is {candidate.status}"
    if candidate.phase != job.phase:
        return f"{job.candidate} is in phase {candidate.phase}"
    return None


def _free_gpus(policy: QueuePolicy, busy: Sequence[Job], state: StudyState) -> list[int]:
    taken = {job.slot.gpu for job in busy}
    taken |= {state.runs[name].gpu for name in state.active_runs}
    return [gpu for gpu in policy.gpus if gpu not in taken]


def _take(gpus: list[int], slot: Slot) -> int | None:
    if slot.gpu in gpus:
        gpus.remove(slot.gpu)
        return slot.gpu
    return gpus.pop(0) if gpus else slot.gpu


def planned_jobs(
    candidate: str,
    revision: int,
    seeds: Mapping[Phase, Sequence[int]],
    priority: int = 0,
    slot: Slot | None = None,
) -> tuple[Job, ...]:
    """Return the jobs of a candidate's phases; each phase waits for all of the one before."""
    jobs, before = list[Job](), tuple[str, ...]()
    common = {"priority": priority, "slot": slot or Slot()}
    for phase in PHASES:
        wave = [
            job_of(candidate, revision, phase, seed, depends_on=before, **common)
            for seed in seeds.get(phase, ())
        ]
        jobs += wave
        before = tuple(job.job_id for job in wave) or before
    return tuple(jobs)


def job_of(candidate: str, revision: int, phase: Phase, seed: int, **facts: Any) -> Job:
    """Return a job; the same job has the same name, e.g. c-0007-smoother/2/promotion/101."""
    name = f"{candidate}/{revision}/{phase}/{seed}"
    return Job(job_id=name, candidate=candidate, phase=phase, seed=seed, **facts)
