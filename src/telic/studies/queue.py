"""Jobs: which runs the open candidates need, what became of them, and which may start now.

Nothing is planned by hand. The jobs follow from the ledger: the seeds of every open candidate in
its present phase, the incumbent's runs on the seeds of a challenger, and the check of an incumbent
on fresh seeds. Nothing here starts a run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from telic.errors import TelicError
from telic.studies import lifecycle
from telic.studies.budget import shortfalls
from telic.studies.documents.base import SYSTEM, DocumentPart, StudyActor
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import ROLES, Amounts, Phase, SeedPools
from telic.studies.errors import GateRefused
from telic.studies.state import RunState, StudyState

if TYPE_CHECKING:
    from telic.studies.study import Study

TOKEN = "RUN_CANDIDATE"
"""the word that confirms a launch"""
MOST_ATTEMPTS = 3
_SEED_BLOCK = 5
_MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
JOB_OVER = ("done", "failed", "cancelled")
CONTROL_PHASES = ("promotion", "incumbent_validation")
_OPEN = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)
_MAY_RUN = (*_OPEN, CandidateStatus.ACCEPTED)


class Job(DocumentPart):
    """One run that is needed: a candidate, a phase, a seed, and what became of it."""

    candidate: str
    phase: Phase
    seed: int
    status: Literal["ready", "waiting", "running", "done", "failed", "cancelled"] = "waiting"
    reason: str = ""
    run_id: str | None = None
    """the last run; a ready job repeats it"""
    attempts: int = 0
    gpu: int | None = None

    @property
    def name(self) -> str:
        """Candidate, phase and seed in one word."""
        return f"{self.candidate}/{self.phase}/{self.seed}"


def jobs_of(study: Study) -> tuple[Job, ...]:
    """Return all jobs in the order in which they start, with those marked that may start now."""
    state = study.state
    trusted = state.incumbent.candidate if state.incumbent else None
    arms: list[tuple[str, Phase, tuple[int, ...]]] = []
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
    pools = study.contract.seeds if study.folder.contract.is_file() else None
    jobs = {
        (name, phase, seed): _job(state, pools, name, phase, seed)
        for name, phase, seeds in arms
        for seed in seeds
    }
    return _placed(study, [*jobs.values()])


def _job(
    state: StudyState, pools: SeedPools | None, candidate: str, phase: Phase, seed: int
) -> Job:
    """Return a job and what its runs came to."""
    revision = state.candidates[candidate].revision
    tries = [
        (name, run)
        for name, run in state.runs_of(candidate, phase).items()
        if (run.seed, run.revision) == (seed, revision) and run.status != RunStatus.ABORTED
    ]
    spent = pools and why_seed_is_spent(state, pools, candidate, phase, seed)
    outcome = _outcome(tries) if tries else {}
    if spent and outcome.get("status", "waiting") == "waiting":
        # an amendment took the seed away: the job can never start
        outcome |= {"status": "cancelled", "reason": spent}
    return Job(candidate=candidate, phase=phase, seed=seed, **outcome)


def _outcome(tries: Sequence[tuple[str, RunState]]) -> dict[str, Any]:
    done = next((name for name, run in tries if run.status == RunStatus.FINISHED), None)
    if done is not None:
        return {"attempts": len(tries), "run_id": done, "status": "done"}
    name, last = tries[-1]
    status = "failed"
    if last.is_live or last.status == RunStatus.PLANNED:
        status = "running"
    elif last.may_be_retried and len(tries) < MOST_ATTEMPTS:
        status = "waiting"
    reason = "" if status == "running" else f"{name} was {last.status} {last.why}".strip()
    return {"attempts": len(tries), "run_id": name, "status": status, "reason": reason}


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


def _placed(study: Study, jobs: Sequence[Job]) -> tuple[Job, ...]:
    """Give free places and GPUs to the first waiting jobs; say why each of the others waits."""
    state = study.state
    live = [state.runs[name] for name in state.active_runs]
    most, gpus = 1, list[int]()
    if study.folder.contract.is_file():
        most, gpus = study.contract.scope.limits.max_concurrent, [*study.contract.hardware.gpus]
    free = [gpu for gpu in gpus if gpu not in {run.gpu for run in live}]
    places, placed = most - len(live), list[Job]()
    for job in jobs:
        if job.status == "waiting":
            why = _why_blocked(job, state, live)
            if why is None and places <= 0:
                why = f"all {most} places are taken"
            if why is None and gpus and not free:
                why = "no GPU is free"
            changes: dict[str, Any] = {"reason": why}
            if why is None:
                places -= 1
                changes = {"status": "ready", "gpu": free.pop(0) if free else None}
            job = job.model_copy(update=changes)
        placed.append(job)
    return tuple(placed)


def _why_blocked(job: Job, state: StudyState, live: Iterable[RunState]) -> str | None:
    status = state.candidates[job.candidate].status
    if state.study_status != "open":
        return f"the study is {state.study_status}"
    if state.fired_stops:
        return f"the stop rule {state.fired_stops[0].rule} fired"
    if status not in _MAY_RUN:
        return f"{job.candidate} is {status}"
    wanted = (job.candidate, job.phase, job.seed)
    if any((run.candidate, run.phase, run.seed) == wanted for run in live):
        return "an earlier revision runs with this seed"
    return None


# ---------------------------------------------------------------------------- more seeds


def more_seeds(study: Study, candidate: str, actor: StudyActor, reason: str) -> tuple[int, ...]:
    """Give an open question another block of seeds in its present phase."""
    with study.locked():
        held = study.candidate_state(candidate)
        phase = held.phase or study.candidate(candidate).plan.phases[0]
        seeds = fresh_seeds(study, phase, [candidate], _SEED_BLOCK)
        mover = SYSTEM if held.status == CandidateStatus.COMPLETED else actor
        facts = {"phase": phase, "seeds": list(seeds), "content_hash": held.content_hash}
        lifecycle.transition(study, candidate, CandidateStatus.VALIDATED, mover, reason, facts)
    return seeds


def plan_incumbent_check(study: Study, actor: StudyActor) -> tuple[int, ...]:
    """Plan five held-out seeds for the incumbent and the one before it; again: five more."""
    with study.locked():
        held = study.incumbent
        if held is None:
            raise GateRefused("E_NO_INCUMBENT", "There is no incumbent to check.")
        before = study.state.previous_incumbent(held.candidate)
        arms = [held.candidate, *([before.candidate] if before else [])]
        seeds = fresh_seeds(study, "incumbent_validation", arms, _SEED_BLOCK)
        control = before.candidate if before else None
        facts = {"candidate": held.candidate, "control": control, "seeds": list(seeds)}
        study.append("incumbent.check", held.candidate, facts, actor)
    return seeds


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
    if n >= _MOST_SEEDS:
        return False
    try:
        seeds = fresh_seeds(study, phase, arms, _SEED_BLOCK)
    except TelicError:  # the pool has too few
        return False
    wanted = Amounts(launches=len(arms) * len(seeds))
    return not shortfalls(study.state, wanted, arms[0], phase)
