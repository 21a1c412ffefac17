"""What waits for somebody in a study: everything that the choice of the next action looks at.

Reads files and the process table, starts nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

from telic.errors import TelicError
from telic.studies.budget import shortfalls
from telic.studies.canonical import moment, utc_now
from telic.studies.decide import standing_audits
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.evidence.hacking import is_unreviewed
from telic.studies.launch.machine import is_alive, is_given_up, is_here, read_exit, read_pid_record
from telic.studies.launch.recovery import GRACE_S
from telic.studies.queue import JOB_OVER, ReadyJob
from telic.studies.rules.checks import check_candidate
from telic.studies.rules.objections import (
    check_incumbent,
    is_checked,
    judge_conditions,
    standing_exploit,
)
from telic.studies.rules.phases import PhaseStep, completed, phase_step
from telic.studies.rules.stops import Stop, agreement_problems, ledger_problems, standing_stops
from telic.studies.schedule import fresh_seeds, queue_step
from telic.studies.study import Study

MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
WATCH_EVERY = timedelta(minutes=10)
_REWARD_WORK = ("reward_tuning", "reward_engineering")
_LAST_PHASES = ("promotion", "incumbent_validation")
_OVER = (
    CandidateStatus.ACCEPTED,
    CandidateStatus.REJECTED,
    CandidateStatus.REVERTED,
    CandidateStatus.INCONCLUSIVE,
)
_MAY_BE_GIVEN_UP = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED, CandidateStatus.COMPLETED)


@dataclass(frozen=True)
class ClaimVerdict:
    """A completed candidate and the audit that was made of it."""

    candidate: str
    audit: str
    verdict: str
    falls_to_people: bool
    """accepting is a person's"""
    can_have_seeds: bool = False
    """another block of seeds fits pool and budget"""


@dataclass(frozen=True)
class IncumbentDoubt:
    """An incumbent whose gain was not confirmed."""

    candidate: str
    is_lost: bool
    """or else the seeds so far cannot tell"""
    why: str
    can_have_seeds: bool = False
    """another block of held-out seeds fits pool and budget"""


@dataclass(frozen=True)
class Objection:
    """Something on record that speaks against a candidate."""

    candidate: str
    status: CandidateStatus
    cause: str
    why: str


class Outlook:
    """What a study waits for; each list is ready to act on, the first one first."""

    def __init__(self, study: Study) -> None:
        self.study = study

    # ------------------------------------------------------------------ may it go on at all

    @cached_property
    def integrity(self) -> tuple[str, ...]:
        """What is wrong with the ledger, or with what was agreed on."""
        broken = ledger_problems(self.study)
        return broken or (agreement_problems(self.study) if self._is_under_way else ())

    @cached_property
    def is_closed(self) -> bool:
        """The study has ended."""
        return self.study.state.study_status == "closed"

    @cached_property
    def is_agreed(self) -> bool:
        """There is a contract in the ledger."""
        return self.study.state.contract_version is not None

    @cached_property
    def unwritten(self) -> str | None:
        """A file that the study cannot do without, and that nobody has written."""
        folder = self.study.folder
        needed = (folder.adapter, folder.metric_spec, folder.protocol)
        return next((path.name for path in needed if not path.is_file()), None)

    @property
    def _is_under_way(self) -> bool:
        return not self.is_closed and self.is_agreed and self.unwritten is None

    @cached_property
    def stops(self) -> tuple[Stop, ...]:
        """Stop rules that hold."""
        return standing_stops(self.study) if self._is_under_way else ()

    # ------------------------------------------------------------------ runs

    @cached_property
    def live(self) -> tuple[str, ...]:
        """Runs that are under way."""
        return self.study.state.active_runs

    @cached_property
    def crashed(self) -> tuple[str, ...]:
        """Runs that ended or vanished and are not settled."""
        return tuple(name for name in self.live if _is_over(self.study, name))

    @cached_property
    def unmeasured(self) -> tuple[str, ...]:
        """Finished runs without metrics."""
        return self._without("metrics", self._finished)

    @cached_property
    def unwatched(self) -> tuple[str, ...]:
        """Live runs that nobody looked at for a while."""
        runs, now = self.study.state.runs, moment(utc_now())
        looks = {run: self.study.latest("monitor", run=run) for run in self.live}
        last = {run: at.created_at if at else runs[run].intent_at for run, at in looks.items()}
        return tuple(run for run, at in last.items() if now - moment(at) > WATCH_EVERY)

    @cached_property
    def unreflected(self) -> tuple[str, ...]:
        """Finished runs of reward work on whose terms nobody has reflected."""
        if not self.study.metric_spec.components:
            return ()
        state = self.study.state
        runs = [
            name
            for name in self._finished
            if state.candidates[state.runs[name].candidate].kind in _REWARD_WORK
            and state.runs[name].phase != "smoke"
        ]
        return self._without("reflection", runs)

    @property
    def _finished(self) -> list[str]:
        runs = self.study.state.runs.items()
        return [name for name, run in runs if run.status == RunStatus.FINISHED]

    def _without(self, kind: str, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the runs about which there is no evidence of a kind."""
        entries = self.study.state.evidence.values()
        covered = {entry.run for entry in entries if entry.kind == kind}
        return tuple(run for run in runs if run not in covered)

    # ------------------------------------------------------------------ claims

    @cached_property
    def _steps(self) -> dict[str, PhaseStep]:
        """Completed candidates and whether they go on."""
        return {name: phase_step(self.study, name) for name in completed(self.study.state)}

    @property
    def _claims(self) -> list[str]:
        """Completed candidates that have no phase left: an audit decides about them."""
        steps = self._steps.items()
        return [n for n, each in steps if each.verdict == "wait" and each.phase in _LAST_PHASES]

    @cached_property
    def unaudited(self) -> tuple[str, ...]:
        """Claims without audit whose control arm, where one is queued, has come to its end."""
        state, trusted = self.study.state, self.study.incumbent
        open_arms = {
            job.seed
            for job in self.study.queue.jobs
            if trusted is not None
            and (job.candidate, job.phase) == (trusted.candidate, "promotion")
            and job.status not in JOB_OVER
        }
        return tuple(
            name
            for name in self._claims
            if not standing_audits(self.study, name)
            and not open_arms & {run.seed for run in state.runs_of(name, "promotion").values()}
        )

    @cached_property
    def judged(self) -> tuple[ClaimVerdict, ...]:
        """Claims with their newest audit."""
        asks = self.study.state.automation.decide != "auto"
        verdicts = list[ClaimVerdict]()
        for name in self._claims:
            if standing_audits(self.study, name):
                audit, phase = self.study.audits(name)[-1], self._steps[name].phase
                n = audit.arms["x"].n
                more = phase is not None and self._seeds_fit([name], phase, n)
                verdicts.append(ClaimVerdict(name, audit.id, audit.verdict, asks, more))
        return tuple(verdicts)

    def _seeds_fit(self, arms: list[str], phase: Phase, n: int) -> bool:
        """Return whether pool and budget have what an arm of n runs lacks of the most it may."""
        if n >= MOST_SEEDS:
            return False
        try:
            seeds = fresh_seeds(self.study, phase, arms, MOST_SEEDS - n)
        except TelicError:  # the pool has too few: the answer is no
            return False
        wanted = Amounts(launches=len(arms) * len(seeds))
        return not shortfalls(self.study.state, wanted, arms[0], phase)

    @cached_property
    def passing(self) -> tuple[PhaseStep, ...]:
        """Completed candidates that may go on."""
        return tuple(each for each in self._steps.values() if each.to is not None)

    @cached_property
    def stuck(self) -> tuple[PhaseStep, ...]:
        """Completed candidates that their phase's rule holds back."""
        return tuple(each for each in self._steps.values() if each.verdict == "hold")

    # ------------------------------------------------------------------ doubts

    @cached_property
    def unchecked(self) -> str | None:
        """An incumbent whose claim was not yet checked on fresh seeds."""
        trusted = self.study.incumbent
        return None if trusted is None or is_checked(self.study) else trusted.candidate

    @cached_property
    def doubted(self) -> IncumbentDoubt | None:
        """An incumbent whose gain fresh seeds did not confirm."""
        said = check_incumbent(self.study)
        if said is None or said.outcome == "holds":
            return None
        arms = [said.candidate, *([said.control] if said.control else [])]
        more = self._seeds_fit(arms, "incumbent_validation", said.n)
        return IncumbentDoubt(said.candidate, said.outcome == "lost", said.why, more)

    @cached_property
    def exploits(self) -> tuple[Objection, ...]:
        """Open candidates, and the incumbent, where a reviewer calls them an exploit."""
        trusted = self.study.incumbent.candidate if self.study.incumbent else None
        return tuple(
            Objection(name, held.status, "exploit", finding)
            for name, held in self.study.state.candidates.items()
            if (held.status in _MAY_BE_GIVEN_UP or name == trusted)
            and (finding := standing_exploit(self.study, name))
        )

    @cached_property
    def disproved(self) -> tuple[Objection, ...]:
        """Candidates of which their author's own condition says that they are wrong."""
        return tuple(
            Objection(name, held.status, said.cause, said.why)
            for name, held in self.study.state.candidates.items()
            for said in judge_conditions(self.study, name)
            if said.is_met
        )

    @cached_property
    def unreviewed(self) -> tuple[str, ...]:
        """Open candidates whose reward may be gamed, at which nobody but the author has looked."""
        return tuple(name for name in self.open_candidates if is_unreviewed(self.study, name))

    # ------------------------------------------------------------------ candidates and the queue

    @cached_property
    def open_candidates(self) -> tuple[str, ...]:
        """Candidates that still have a way to go."""
        candidates = self.study.state.candidates.items()
        return tuple(name for name, held in candidates if held.status not in _OVER)

    @cached_property
    def has_baseline(self) -> bool:
        """Something was measured that others can be compared with."""
        return self.study.incumbent is not None

    @cached_property
    def ready(self) -> tuple[ReadyJob, ...]:
        """Jobs that may start."""
        barred = {each.candidate for each in self.exploits}
        return tuple(x for x in queue_step(self.study).ready if x.job.candidate not in barred)

    @cached_property
    def launch_blocks(self) -> tuple[str, ...]:
        """Approvals that the first ready job lacks."""
        if not self.ready:
            return ()
        job, unmet = self.ready[0].job, self.study.missing_approvals
        blocks = [f"approval {each.key} is {each.status}" for each in unmet]
        own = self.study.experiment_standing(job.candidate, job.phase)
        if own.status != "approved":
            blocks.append(f"approval {own.name} is {own.status}: {own.why}")
        return tuple(blocks)

    @cached_property
    def unplanned(self) -> tuple[str, ...]:
        """Validated candidates without jobs."""
        jobs = self.study.queue.jobs
        queued = {(job.candidate, job.phase) for job in jobs if job.status != "cancelled"}
        validated = self._with_status(CandidateStatus.VALIDATED)
        candidates = self.study.state.candidates
        return tuple(name for name in validated if (name, candidates[name].phase) not in queued)

    @cached_property
    def _drafts(self) -> dict[str, str | None]:
        """Every draft with the first check that it fails; None when it passes all."""
        faults: dict[str, str | None] = {}
        for name in self._with_status(CandidateStatus.DRAFT):
            failed = (each for each in check_candidate(self.study, name) if not each.passed)
            faults[name] = next((f"{each.id}: {each.why}" for each in failed), None)
        return faults

    @cached_property
    def drafts(self) -> tuple[str, ...]:
        """Drafts that pass their checks."""
        return tuple(name for name, why in self._drafts.items() if why is None)

    @cached_property
    def faulty(self) -> tuple[tuple[str, str], ...]:
        """Drafts that do not, each with the first thing that is wrong."""
        return tuple((name, why) for name, why in self._drafts.items() if why is not None)

    @cached_property
    def broken(self) -> tuple[str, ...]:
        """Candidates in debug that may be mended."""
        return tuple(n for n in self._with_status(CandidateStatus.DEBUG) if self._may_be_mended(n))

    @cached_property
    def given_up(self) -> tuple[str, ...]:
        """Candidates in debug that used up their attempts."""
        in_debug = self._with_status(CandidateStatus.DEBUG)
        return tuple(name for name in in_debug if not self._may_be_mended(name))

    def _with_status(self, status: CandidateStatus) -> tuple[str, ...]:
        candidates = self.study.state.candidates.items()
        return tuple(name for name, held in candidates if held.status == status)

    def _may_be_mended(self, candidate: str) -> bool:
        state = self.study.state
        return state.candidates[candidate].debug_attempts < state.automation.max_debug_attempts


def _is_over(study: Study, run: str) -> bool:
    """Tell whether a run that the ledger believes alive is not."""
    folder = study.folder.run(run)
    record = read_pid_record(folder)
    if read_exit(folder) is not None or (record is not None and is_given_up(record)):
        return True
    if record is None:
        age = moment(utc_now()) - moment(study.state.runs[run].intent_at)
        return age.total_seconds() > GRACE_S
    return is_here(record) and not is_alive(record)
