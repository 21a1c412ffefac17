"""What candidates have come to and what is to be said about it: phases, claims, doubts, objections.

Reads files, starts nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from telic.errors import TelicError
from telic.studies.budget import shortfalls
from telic.studies.candidates import REVISABLE
from telic.studies.decide import previous_incumbent, standing_audits
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.documents.contract import Amounts, Phase
from telic.studies.evidence.hacking import is_unreviewed
from telic.studies.rules.objections import (
    check_incumbent,
    is_checked,
    judge_conditions,
    standing_exploit,
)
from telic.studies.rules.phases import PhaseStep, completed, next_phase, phase_step
from telic.studies.schedule import SEED_BLOCK, fresh_seeds
from telic.studies.study import Study

MOST_SEEDS = 10
"""runs of an arm after which an open question stays open"""
_LAST_PHASES = ("promotion", "incumbent_validation")
_OVER = (
    CandidateStatus.ACCEPTED,
    CandidateStatus.REJECTED,
    CandidateStatus.REVERTED,
    CandidateStatus.INCONCLUSIVE,
)
_MAY_BE_GIVEN_UP = (
    CandidateStatus.DRAFT,
    CandidateStatus.VALIDATED,
    CandidateStatus.LAUNCHED,
    CandidateStatus.COMPLETED,
    CandidateStatus.DEBUG,
)


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


class Prospects:
    """What the candidates of a study have come to; each list is ready to act on."""

    def __init__(self, study: Study) -> None:
        self.study = study

    @cached_property
    def live(self) -> tuple[str, ...]:
        """Runs that are under way."""
        return self.study.state.active_runs

    @cached_property
    def open_candidates(self) -> tuple[str, ...]:
        """Candidates that still have a way to go."""
        candidates = self.study.state.candidates.items()
        return tuple(name for name, held in candidates if held.status not in _OVER)

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
    def unclaimed(self) -> tuple[tuple[str, str], ...]:
        """Completed candidates that no audit can decide about, each with the reason."""
        found = list[tuple[str, str]]()
        for name, step in self._steps.items():
            if step.verdict != "wait" or standing_audits(self.study, name):
                continue
            if step.phase not in _LAST_PHASES and self._has_no_later_phase(name):
                found.append((name, "its plan ends before anything could be claimed"))
            elif step.phase in _LAST_PHASES and self._has_no_rival(name):
                found.append((name, "under the present protocol there is nobody to compare with"))
        return tuple(found)

    def _has_no_later_phase(self, name: str) -> bool:
        phase = self.study.candidate_state(name).phase
        return phase is None or next_phase(phase, self.study.candidate(name).plan.phases) is None

    def _has_no_rival(self, name: str) -> bool:
        is_baseline = self.study.candidate_state(name).kind == "baseline"
        return not is_baseline and self.study.incumbent is None

    @cached_property
    def unaudited(self) -> tuple[str, ...]:
        """Claims without audit whose control arm, where one is queued, has come to its end."""
        state, trusted = self.study.state, self.study.incumbent
        open_arms = {
            job.seed
            for job in self.study.queue.open_jobs
            if trusted is not None
            and (job.candidate, job.phase) == (trusted.candidate, "promotion")
        }
        return tuple(
            name
            for name in self._claims
            if not self._has_audit(name)
            and not self._has_no_rival(name)
            and not open_arms & {run.seed for run in state.runs_of(name, "promotion").values()}
        )

    @cached_property
    def judged(self) -> tuple[ClaimVerdict, ...]:
        """Claims with their newest audit."""
        asks = self.study.state.automation.decide != "auto"
        verdicts = list[ClaimVerdict]()
        for name in self._claims:
            if self._has_audit(name):
                audit, phase = self.study.audits(name)[-1], self._steps[name].phase
                n = audit.arms["x"].n
                more = phase is not None and self._seeds_fit([name], phase, n)
                verdicts.append(ClaimVerdict(name, audit.id, audit.verdict, asks, more))
        return tuple(verdicts)

    def _has_audit(self, name: str) -> bool:
        """An audit since it was completed, under the protocol of today."""
        if not standing_audits(self.study, name):
            return False
        return self.study.audits(name)[-1].protocol_hash == (self.study.state.protocol_hash or "")

    def _seeds_fit(self, arms: list[str], phase: Phase, n: int) -> bool:
        """Return whether pool and budget have another block of seeds for an arm of n runs."""
        if n >= MOST_SEEDS:
            return False
        try:
            seeds = fresh_seeds(self.study, phase, arms, SEED_BLOCK)
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
    def unreadable(self) -> tuple[PhaseStep, ...]:
        """Completed candidates of which a run could not be measured."""
        return tuple(each for each in self._steps.values() if each.verdict == "unreadable")

    @cached_property
    def unchecked(self) -> str | None:
        """An incumbent whose claim was not yet checked on fresh seeds."""
        trusted = self.study.incumbent
        return None if trusted is None or is_checked(self.study) else trusted.candidate

    @cached_property
    def can_be_checked(self) -> bool:
        """The pool has seeds for a check of the incumbent."""
        arms, trusted = list[str](), self.study.incumbent
        if trusted is not None:
            before = previous_incumbent(self.study.state, trusted.candidate)
            arms = [trusted.candidate, *([before.candidate] if before else [])]
        return self._seeds_fit(arms, "incumbent_validation", 0) if arms else False

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
        """Candidates at rest, and the incumbent, where a reviewer calls them an exploit."""
        trusted = self.study.incumbent.candidate if self.study.incumbent else None
        return tuple(
            Objection(name, held.status, "exploit", finding)
            for name, held in self.study.state.candidates.items()
            if (self._may_be_given_up(name) or name == trusted)
            and (finding := standing_exploit(self.study, name))
        )

    def _may_be_given_up(self, name: str) -> bool:
        status = self.study.candidate_state(name).status
        return status in _MAY_BE_GIVEN_UP and not self.is_running(name)

    def is_running(self, name: str) -> bool:
        """Say whether a run of a candidate is under way."""
        return any(self.study.state.runs[run].candidate == name for run in self.live)

    @cached_property
    def has_successor(self) -> bool:
        """Somebody was trusted before the incumbent and may be trusted again."""
        trusted = self.study.incumbent
        state = self.study.state
        return trusted is not None and previous_incumbent(state, trusted.candidate) is not None

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
        return tuple(name for name in self._risky if self._is_as_recorded(name))

    @cached_property
    def disguised(self) -> tuple[str, ...]:
        """Those of them whose files say something else than what ran, which is still there.

        Where it is not, whoever looks would look at something else: it is audited, and fails that.
        """
        held, can_be_put_back = self.study.state.candidates, self.study.can_be_put_back
        tried = (name for name in self._risky if held[name].status not in REVISABLE)
        return tuple(name for name in tried if can_be_put_back(name))

    @cached_property
    def _risky(self) -> tuple[str, ...]:
        return tuple(name for name in self.open_candidates if is_unreviewed(self.study, name))

    def _is_as_recorded(self, name: str) -> bool:
        recorded = self.study.state.candidates[name].content_hash
        return self.study.candidate(name).compute_hash() == recorded

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
