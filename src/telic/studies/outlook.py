"""What waits for somebody in a study: everything that the choice of the next action looks at.

Reads files and the process table, starts nothing. What only drafts, launches or live runs need is
loaded with them: most looks at a study find none, and loading it would take longer than the look.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

from telic.studies.canonical import moment, utc_now
from telic.studies.contract import check_contract
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.evidence.artefacts import altered_artefacts
from telic.studies.evidence.measurement import Measurement
from telic.studies.evidence.signatures import fatal_alerts
from telic.studies.prospects import Prospects
from telic.studies.queue import ReadyJob
from telic.studies.rules.phases import measured
from telic.studies.rules.stops import Stop, agreement_problems, ledger_problems, standing_stops
from telic.studies.schedule import lacks_jobs, queue_step
from telic.studies.study import Study

if TYPE_CHECKING:
    from telic.studies.rules.remedies import Remedy

_REWARD_WORK = ("reward_tuning", "reward_engineering")


class Outlook(Prospects):
    """What a study waits for; each list is ready to act on, the first one first."""

    # ------------------------------------------------------------------ may it go on at all

    @cached_property
    def integrity(self) -> tuple[str, ...]:
        """What is wrong with the ledger."""
        return ledger_problems(self.study)

    @cached_property
    def disagreement(self) -> tuple[str, ...]:
        """Where files and approvals are no longer what was agreed on."""
        return agreement_problems(self.study) if self._is_under_way else ()

    @cached_property
    def is_amended(self) -> bool:
        """The files are those of the agreement; what is void is only an approval."""
        return not any("void" not in each for each in self.disagreement)

    @cached_property
    def is_closed(self) -> bool:
        """The study has ended."""
        return self.study.state.study_status == "closed"

    @cached_property
    def is_agreed(self) -> bool:
        """There is a contract in the ledger."""
        return self.study.state.contract_version is not None

    @cached_property
    def contract_questions(self) -> tuple[str, ...]:
        """What the contract leaves open, and what is wrong with it besides not being agreed on."""
        found = check_contract(self.study)
        return (
            *found.questions,
            *(each for each in found.problems if "contract amend" not in each),
        )

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
    def crashed(self) -> tuple[str, ...]:
        """Runs that ended or vanished and are not settled."""
        return tuple(name for name in self.live if _is_over(self.study, name))

    @cached_property
    def unasked(self) -> tuple[str, ...]:
        """Runs under way that nobody asked to stop yet."""
        from telic.studies.launch.machine import stop_request

        return tuple(run for run in self.live if stop_request(self.study.folder.run(run)) is None)

    @cached_property
    def doomed(self) -> tuple[tuple[str, str], ...]:
        """Live runs that a look found beyond help, where the contract has such runs ended."""
        if not self.study.state.automation.kill_fatal:
            return ()
        alerts = self.study.events_of("monitor.alert", about=self.live)
        signs = ((run, fatal_alerts(alerts, [run])) for run in self.live)
        return tuple((run, found[0]) for run, found in signs if found and run in self.unasked)

    @cached_property
    def unmoved(self) -> tuple[str, ...]:
        """Launched candidates whose runs are over, and that a crash left where they were."""
        if not (launched := self._with_status(CandidateStatus.LAUNCHED)):
            return ()
        from telic.studies.launch.recovery import due_move

        return tuple(name for name in launched if due_move(self.study, name))

    @cached_property
    def unmeasured(self) -> tuple[str, ...]:
        """Finished runs without metrics."""
        return self._without("metrics", self._finished)

    @cached_property
    def unwatched(self) -> tuple[str, ...]:
        """Live runs that nobody looked at for a while."""
        if not self.live:
            return ()
        from telic.studies.evidence.monitor import WATCH_EVERY

        runs, now = self.study.state.runs, moment(utc_now())
        last = {run: runs[run].intent_at for run in self.live}
        for event in self.study.events_of("monitor.alert", about=self.live):
            last[str(event.subject)] = event.at
        return tuple(run for run, at in last.items() if now - moment(at) > WATCH_EVERY)

    @cached_property
    def unreflected(self) -> tuple[str, ...]:
        """Finished runs of reward work on whose terms nobody has reflected."""
        if not self.study.metric_spec.components:
            return ()
        state = self.study.state
        return tuple(
            name
            for name in self._without("reflection", self._finished)
            if state.candidates[state.runs[name].candidate].kind in _REWARD_WORK
            and state.runs[name].phase != "smoke"
            and (sheet := measured(self.study, name)) is not None
            and self._has_terms(sheet)
        )

    def _has_terms(self, sheet: Measurement) -> bool:
        """A log without any term of the reward tells nothing about them."""
        terms = {each.key for each in self.study.metric_spec.components}
        return not sheet.problem and not terms.isdisjoint(sheet.curves)

    @property
    def _finished(self) -> list[str]:
        statuses = self.study.state.runs.values_of("status")
        return [name for name, status in statuses if status == RunStatus.FINISHED]

    def _without(self, kind: str, runs: Iterable[str]) -> tuple[str, ...]:
        """Return the runs about which there is no evidence of a kind."""
        sheets = self.study.state.evidence
        rows = zip(sheets.column("kind"), sheets.column("run"), strict=True)
        covered = {run for each, run in rows if each == kind}
        return tuple(run for run in runs if run not in covered)

    @cached_property
    def changed_runs(self) -> tuple[tuple[str, str], ...]:
        """Unmeasured runs whose files are not what they left, each with what is wrong."""
        whys = ((run, altered_artefacts(self.study, run)) for run in self.unmeasured)
        return tuple((run, why[0]) for run, why in whys if why)

    # ------------------------------------------------------------------ candidates and the queue

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
    def remedy(self) -> Remedy | None:
        """What the first ready job needs before it can start."""
        if not self.ready:
            return None
        from telic.studies.rules.remedies import remedy_for

        return remedy_for(self.study, self.ready[0])

    @cached_property
    def changed_evaluators(self) -> tuple[str, ...]:
        """Evaluators that are not those of the protocol, where something waits to be measured."""
        waits = (CandidateStatus.DRAFT, CandidateStatus.VALIDATED)
        if not self.ready and not any(map(self._with_status, waits)):
            return ()
        from telic.studies.rules.change import changed_evaluators

        return tuple(changed_evaluators(self.study, self.study.root))

    @cached_property
    def stale(self) -> tuple[tuple[str, str], ...]:
        """Validated candidates that were checked against something else, with what changed."""
        if not (validated := self._with_status(CandidateStatus.VALIDATED)):
            return ()
        from telic.studies.rules.checks import changed_since

        changes = ((name, changed_since(self.study, name)) for name in validated)
        return tuple((name, ", ".join(changed)) for name, changed in changes if changed)

    @cached_property
    def unplanned(self) -> tuple[str, ...]:
        """Validated candidates without jobs, or whose rival is not queued beside them."""
        held = (CandidateStatus.VALIDATED, CandidateStatus.LAUNCHED)
        names = [name for status in held for name in self._with_status(status)]
        return tuple(name for name in names if lacks_jobs(self.study, name))

    @cached_property
    def idle(self) -> tuple[str, ...]:
        """Validated candidates all of whose jobs are over: nothing would ever bring them on."""
        open_jobs = {(job.candidate, job.phase) for job in self.study.queue.open_jobs}
        held = self.study.state.candidates
        return tuple(
            name
            for name in self._with_status(CandidateStatus.VALIDATED)
            if (name, held[name].phase) not in open_jobs
        )

    @cached_property
    def _drafts(self) -> dict[str, str | None]:
        """Every draft with the first check that it fails; None when it passes all."""
        faults: dict[str, str | None] = {}
        if not (drafts := self._with_status(CandidateStatus.DRAFT)):
            return faults
        from telic.studies.rules.checks import check_candidate

        for name in drafts:
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


def _is_over(study: Study, run: str) -> bool:
    """Tell whether a run that the ledger believes alive is not."""
    from telic.studies.launch.machine import (
        is_alive,
        is_given_up,
        is_here,
        read_exit,
        read_pid_record,
    )
    from telic.studies.launch.recovery import GRACE_S

    folder = study.folder.run(run)
    record = read_pid_record(folder)
    if read_exit(folder) is not None or (record is not None and is_given_up(record)):
        return True
    if record is None:
        age = moment(utc_now()) - moment(study.state.runs[run].intent_at)
        return age.total_seconds() > GRACE_S
    return is_here(record) and not is_alive(record)
