"""Queue of the runs that open candidates need, with their outcomes and readiness.

Jobs are derived from the ledger: the seeds of every open candidate in its current phase, the
incumbent's runs on a challenger's seeds, and the check of an incumbent on fresh seeds. It does
not start runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from telic.errors import TelicError
from telic.studies.candidates import transition
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import ROLES, Resources, SeedPools, StudyPhase
from telic.studies.errors import GateRefused
from telic.studies.state import RunState, StudyState, shortfalls

if TYPE_CHECKING:
    from telic.studies.study import Study

TOKEN = "RUN_CANDIDATE"
"""confirmation word of a launch"""
_MAX_ATTEMPTS = 3
_SEED_BLOCK = 5
_MAX_SEEDS = 10
"""number of runs per arm at which no more seeds are added"""
JOB_OVER = ("done", "failed", "cancelled")
_OPEN = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)


class Job(DocumentPart):
    """Required run, given by candidate, phase and seed, with its outcome."""

    candidate: str
    phase: StudyPhase
    seed: int
    status: Literal["ready", "waiting", "running", "done", "failed", "cancelled"] = "waiting"
    reason: str = ""
    run_id: str | None = None
    """latest run that is repeated if the job is ready"""
    attempts: int = 0
    gpu: int | None = None

    @property
    def name(self) -> str:
        """Name that consists of the candidate, phase and seed."""
        return f"{self.candidate}/{self.phase}/{self.seed}"


def jobs_of(study: Study) -> tuple[Job, ...]:
    """Return all jobs in start order and mark the jobs that may start now."""
    state, contract = study.state, study.contract
    trusted = state.incumbent.candidate if state.incumbent else None
    arms: list[tuple[str, StudyPhase, tuple[int, ...]]] = []
    for name, held in state.candidates.items():
        phase = held.phase
        if held.status not in (*_OPEN, CandidateStatus.COMPLETED) or phase is None:
            continue
        own = study.candidate(name).plan.seeds.get(phase, ())
        seeds = (*own, *held.added_seeds.get(phase, ()))
        arms.append((name, phase, seeds))
        if phase == "promotion" and trusted is not None and trusted != name:
            arms.append((trusted, "promotion", seeds))
    if trusted is not None and (check := state.checks.get(trusted)):
        arms.append((trusted, "incumbent_validation", check.seeds))
        if check.control is not None:
            arms.append((check.control, "incumbent_validation", check.seeds))
    live = [state.runs[name] for name in state.active_runs]
    places, gpus = contract.scope.limits.max_concurrent - len(live), contract.hardware.gpus
    free = [gpu for gpu in gpus if gpu not in {run.gpu for run in live}]
    jobs: list[Job] = []
    for name, phase, seed in dict.fromkeys((n, p, seed) for n, p, seeds in arms for seed in seeds):
        job = _job(state, contract.seeds, name, phase, seed)
        if job.status == "waiting":
            why = _why_blocked(job, state, live)
            if why is None and places <= 0:
                why = f"all {contract.scope.limits.max_concurrent} slots are in use"
            if why is None and gpus and not free:
                why = "no GPU is free"
            if why is None:
                places -= 1
                gpu = free.pop(0) if free else None
                job = job.model_copy(update={"status": "ready", "reason": "", "gpu": gpu})
            else:
                job = job.model_copy(update={"reason": why})
        jobs.append(job)
    return tuple(jobs)


def _job(state: StudyState, pools: SeedPools, candidate: str, phase: StudyPhase, seed: int) -> Job:
    """Return a job with the outcome of the previous runs."""
    revision = state.candidates[candidate].revision
    tries = {
        name: run
        for name, run in state.runs_of(candidate, phase).items()
        if (run.seed, run.revision) == (seed, revision) and run.status != RunStatus.ABORTED
    }
    job = Job(candidate=candidate, phase=phase, seed=seed, attempts=len(tries))
    for name, run in tries.items():
        if run.status == RunStatus.FINISHED:
            return job.model_copy(update={"run_id": name, "status": "done"})
    if tries:
        name, last = list(tries.items())[-1]
        job = job.model_copy(update={"run_id": name})
        if last.is_live:
            return job.model_copy(update={"status": "running"})
        if not last.may_be_retried or len(tries) >= _MAX_ATTEMPTS:
            reason = f"{name} was {last.status} {last.why}".strip()
            return job.model_copy(update={"status": "failed", "reason": reason})
    if spent := why_seed_is_spent(state, pools, candidate, phase, seed):
        # an amendment removed the seed, so the job can never start
        return job.model_copy(update={"status": "cancelled", "reason": spent})
    return job


def why_seed_is_spent(
    state: StudyState, pools: SeedPools, candidate: str, phase: StudyPhase, seed: int
) -> str | None:
    """Return the reason why a seed cannot be reused in a phase, or None if it can."""
    if seed not in pools.pool(ROLES[phase]):
        return f"{seed} is not in the {ROLES[phase]} pool"
    for name, run in state.runs_of(candidate).items():
        is_seen = run.seed == seed and run.status == RunStatus.FINISHED
        if is_seen and ROLES[run.phase] != ROLES[phase]:
            return f"{name} used this seed in another role"
    return None


def _why_blocked(job: Job, state: StudyState, live: Sequence[RunState]) -> str | None:
    status = state.candidates[job.candidate].status
    if state.study_status != "open":
        return f"the study is {state.study_status}"
    if state.fired_stops:
        return f"the stop rule {state.fired_stops[0].rule} fired"
    if status not in (*_OPEN, CandidateStatus.ACCEPTED):
        return f"{job.candidate} is {status}"
    if state.incumbent is None and state.candidates[job.candidate].kind != "baseline":
        return "it waits for an accepted baseline"
    wanted = (job.candidate, job.phase, job.seed)
    if any((run.candidate, run.phase, run.seed) == wanted for run in live):
        return "an earlier revision is running with this seed"
    return None


# ---------------------------------------------------------------------------- more seeds


def more_seeds(study: Study, candidate: str, actor: StudyActor, reason: str) -> tuple[int, ...]:
    """Add another block of seeds to an undecided candidate in its current phase."""
    with study.locked():
        held = study.candidate_state(candidate)
        phase = held.phase or study.candidate(candidate).plan.phases[0]
        seeds = fresh_seeds(study, phase, [candidate])
        mover = SYSTEM if held.status == CandidateStatus.COMPLETED else actor
        facts = {"phase": phase, "seeds": list(seeds), "content_hash": held.content_hash}
        transition(study, candidate, CandidateStatus.VALIDATED, mover, reason, facts)
    return seeds


def plan_incumbent_check(study: Study, actor: StudyActor) -> tuple[int, ...]:
    """Plan five more fresh seeds for the incumbent and its predecessor."""
    with study.locked():
        held = study.incumbent
        if held is None:
            raise GateRefused("E_NO_INCUMBENT", "The study has no incumbent to check.")
        arms = checked_arms(study, held.candidate)
        seeds = fresh_seeds(study, "incumbent_validation", arms)
        control = arms[1] if len(arms) > 1 else None
        facts = {"candidate": held.candidate, "control": control, "seeds": list(seeds)}
        study.append("incumbent.check", held.candidate, facts, actor)
    return seeds


def checked_arms(study: Study, incumbent: str) -> list[str]:
    """Return the arms of a gain check: the incumbent and its predecessor, if any."""
    before = study.state.previous_incumbent(incumbent)
    return [incumbent, before.candidate] if before else [incumbent]


def fresh_seeds(
    study: Study, phase: StudyPhase, arms: Sequence[str], count: int = _SEED_BLOCK
) -> tuple[int, ...]:
    """Return the seeds in the pool of a phase that no arm has used."""
    used = {run.seed for arm in arms for run in study.state.runs_of(arm).values()}
    left = sorted(study.contract.seeds.pool(ROLES[phase]) - used)
    if len(left) < count:
        raise GateRefused(
            "E_SEEDS",
            f"The {ROLES[phase]} pool has {len(left)} fresh seeds left, but {count} are required.",
            hint="Amend the contract's seeds with a larger pool.",
        )
    return tuple(left[:count])


def seeds_fit(study: Study, arms: list[str], phase: StudyPhase, n: int) -> bool:
    """Return whether seed pool and budget allow another block of seeds for arms of n runs."""
    if n >= _MAX_SEEDS:
        return False
    try:
        seeds = fresh_seeds(study, phase, arms)
    except TelicError:  # the pool has too few
        return False
    wanted = Resources(launches=len(arms) * len(seeds))
    return not shortfalls(study.state, wanted, arms[0])
