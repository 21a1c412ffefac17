"""The queue: jobs follow from the ledger, and a step says which may start and why others wait.

Everything here is pure. A job is one candidate, phase and seed; planning it is an event, and what
became of it is read off the runs, so that the queue cannot disagree with what happened.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from telic.studies.canonical import moment
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
from telic.studies.table import RecordTable

TOKEN = "RUN_CANDIDATE"
"""the word of whoever starts a job: it shows that they mean it"""
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


class PlannedJobs(NamedTuple):
    """What the planning in a ledger comes to, whatever became of it."""

    policy: QueuePolicy
    jobs: RecordTable[Job]
    settled: RecordTable[Job] | None = None
    """the first of them, with what had become of them at an earlier line of the ledger"""
    touched: frozenset[str] = frozenset()
    """candidates that lines after it are about; what became of the others' jobs stays as it was"""


class JobQueue(NamedTuple):
    """What is planned and what became of it; jobs that are over are many and seldom looked at."""

    study: str
    policy: QueuePolicy
    table: RecordTable[Job]

    @property
    def jobs(self) -> tuple[Job, ...]:
        """All of them, in the order in which they were planned."""
        return tuple(self.table.values())

    @property
    def open_jobs(self) -> tuple[Job, ...]:
        """Those that are not over."""
        statuses = self.table.values_of("status")
        return tuple(self.table[name] for name, status in statuses if status not in JOB_OVER)

    def where(self, **wanted: Any) -> tuple[Job, ...]:
        """Return the jobs whose fields have these values."""
        return tuple(self.table[name] for name in self.table.where(**wanted))

    def manifest(self) -> QueueManifest:
        """Return the queue as it is written down."""
        return QueueManifest(study=self.study, policy=self.policy, jobs=self.jobs)


Tries = dict[tuple[str, Phase, int], list[tuple[str, RunStatus]]]


def queue_of(planned: PlannedJobs, state: StudyState, revisions: Mapping[str, int]) -> JobQueue:
    """Return the queue that planning and runs come to.

    Args:
        planned: what the ledger comes to.
        state: of the study.
        revisions: of its candidate for which each run was started.
    """
    jobs, settled = planned.jobs, planned.settled
    if settled is not None and len(settled) == len(jobs) and not planned.touched:
        return JobQueue(state.study, planned.policy, settled)  # as it was found at the last line
    count = 0 if settled is None else len(settled)
    columns = {
        field: [*(() if settled is None else settled.column(field)), *jobs.column(field)[count:]]
        for field in OUTCOME
    }
    touched = None if settled is None else planned.touched
    plans, cases = jobs.column("status"), [jobs.column(field) for field in _CASE]
    tries = _tries(state, revisions, touched)
    for row in _rows_of(jobs, touched):
        candidate, phase, seed = (column[row] for column in cases)
        runs = tries.get((candidate, phase, seed))
        is_due = runs and plans[row] != "cancelled" and candidate in state.candidates
        as_planned = (jobs.column(field)[row] for field in OUTCOME)
        outcome = _settled(runs, state) if runs and is_due else as_planned
        for field, value in zip(OUTCOME, outcome, strict=True):
            columns[field][row] = value
    return JobQueue(state.study, planned.policy, jobs.replaced(columns))


def _rows_of(jobs: RecordTable[Job], candidates: frozenset[str] | None) -> Iterable[int]:
    """Return the rows of jobs of some candidates, or of all."""
    if candidates is None:
        return range(len(jobs))
    return [jobs.place(name) for each in candidates for name in jobs.where(candidate=each)]


def _tries(
    state: StudyState, revisions: Mapping[str, int], candidates: frozenset[str] | None
) -> Tries:
    """Return runs of the candidates' present revisions, by candidate, phase and seed.

    Of thousands of runs only what tells them apart is looked at.
    """
    found: Tries = {}
    now = {name: held.revision for name, held in state.candidates.items()}
    for name, status, candidate, phase, seed in state.runs.values_of("status", *_CASE):
        if candidates is not None and candidate not in candidates:
            continue
        revision = now.get(candidate)
        if status != RunStatus.ABORTED and revisions.get(name, revision) == revision:
            found.setdefault((candidate, phase, seed), []).append((name, status))
    return found


_CASE = ("candidate", "phase", "seed")
"""what tells jobs apart"""
OUTCOME = ("status", "run_id", "attempts", "reason")
"""what the runs of a job say about it"""


def _settled(
    tries: Sequence[tuple[str, RunStatus]], state: StudyState
) -> tuple[JobStatus, str, int, str | None]:
    """Return what the runs of a job make of it: the fields of `OUTCOME`."""
    for name, status in tries:
        if status == RunStatus.FINISHED:
            return "done", name, len(tries), None
    name = tries[-1][0]
    last = state.runs[name]
    if last.is_live or last.status == RunStatus.PLANNED:
        return "running", name, len(tries), None
    if last.may_be_retried and len(tries) < MOST_ATTEMPTS:
        why = f"{name} was {_ending(last)}; the seed is tried again"
        return "waiting", name, len(tries), why
    return "failed", name, len(tries), f"{name} was {_ending(last)}"


def _ending(run: RunState) -> str:
    return f"{run.status}{f' by {run.killed_by}' if run.killed_by else ''}"


def as_agreed(queue: JobQueue, state: StudyState, contract: Contract) -> JobQueue:
    """Return the queue as the contract of today allows it: so many at a time, with fresh seeds.

    A job whose seed an amendment took away can never start; it is as good as cancelled.
    """
    limits, gpus = contract.scope.limits, contract.hardware.gpus
    allowed = {"max_parallel": limits.max_concurrent, "gpus": gpus}
    policy = queue.policy.model_copy(update=allowed)
    gone = dict[str, Job]()
    for job in (*queue.where(status="waiting"), *queue.where(status="ready")):
        spent = why_seed_is_spent(state, contract.seeds, job.candidate, job.phase, job.seed)
        if spent:
            gone[job.job_id] = job.model_copy(update={"status": "cancelled", "reason": spent})
    return queue._replace(policy=policy, table=queue.table.grown(gone))


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


def step(queue: JobQueue, state: StudyState, now: str) -> QueueStep:
    """Return the jobs that may start and why each of the others waits; never starts one."""
    busy = [job for job in queue.open_jobs if is_busy(job, now)]
    # A run may be live of which no job knows: of a candidate that was revised since.
    unplanned = set(state.active_runs) - {job.run_id for job in busy}
    places = max(0, queue.policy.max_parallel - len(busy) - len(unplanned))
    gpus = _free_gpus(queue.policy, busy, state)
    ready, waiting = list[ReadyJob](), list[WaitingJob]()
    for job in _ordered(queue):
        if is_busy(job, now):
            continue
        why = _why_blocked(job, queue.table, state)
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


def is_busy(job: Job, now: str) -> bool:
    """Return whether somebody runs the job or holds it; a lease that ran out holds nothing."""
    if job.status == "leased" and job.lease is not None:
        return moment(job.lease.until) > moment(now)
    return job.status in _BUSY


def _ordered(queue: JobQueue) -> Sequence[Job]:
    """Return open jobs as the policy orders them; equal ones keep the order of their planning."""
    if queue.policy.order == "priority":
        return sorted(queue.open_jobs, key=lambda job: -job.priority)
    if queue.policy.order == "successive_halving":
        # the cheap phase of the whole batch first: its results decide who goes on
        return sorted(queue.open_jobs, key=lambda job: (PHASES.index(job.phase), -job.priority))
    return queue.open_jobs


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
