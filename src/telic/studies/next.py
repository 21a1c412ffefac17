"""The next safe action of a study: the first that applies, in a fixed order.

Nothing is changed or started here: the action holds the exact command and the reason. A launch that
would be refused is never suggested: the next action is then the one that opens its gate.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

from pydantic import Field

from telic.errors import TelicError
from telic.studies.canonical import moment, run_id, utc_now
from telic.studies.contract import check_contract
from telic.studies.decide import NO_INCUMBENT, standing_audits
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.documents.contract import Phase
from telic.studies.errors import StudyError
from telic.studies.evidence.integrity import altered_artefacts
from telic.studies.evidence.monitor import WATCH_EVERY, fatal_alerts
from telic.studies.evidence.review import REVIEW, ask_for_review, is_unreviewed, own_praise_counts
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import due_move, is_over
from telic.studies.queue import JOB_OVER, TOKEN, Job, checked_arms, seeds_fit
from telic.studies.rules.checks import changed_since, check_candidate
from telic.studies.rules.gates import EVALUATOR_CHANGED, GATES, evaluate, shut
from telic.studies.rules.results import (
    PhaseStep,
    check_incumbent,
    completed,
    is_checked,
    judge_conditions,
    next_phase,
    phase_step,
    standing_exploit,
)
from telic.studies.rules.stops import (
    agreement_problems,
    ledger_problems,
    record_findings,
    standing_stops,
)
from telic.studies.rules.table import RuleResult
from telic.studies.smoke import proof_of
from telic.studies.study import Study

S = CandidateStatus
_CLAIM: Phase = "promotion"
_LAST_PHASES = (_CLAIM, "incumbent_validation")
_OVER = (S.ACCEPTED, S.REJECTED, S.REVERTED, S.INCONCLUSIVE)
_VERDICTS = {
    "valid_improvement": "accept",
    "baseline_established": "accept",
    "no_improvement": "reject",
    "inconclusive": "inconclusive",
    "provisional": "inconclusive",
    "invalid": "debug",
}
_RUN = "telic study run"
_PROVE = "telic study adapter --smoke --confirm RUN_CANDIDATE"
_AUDIT = "telic study audit {}"
_AMEND = "telic study contract --amend TEXT"
_APPROVE = "telic study approve experiment --candidate {}"
_WITHDRAW = "telic study decide {} withdraw --because TEXT"
_REVISE = "telic study propose FILE --revise {}"
_LOOKED_AT = tuple(code for code in GATES if code not in ("G01", "G03"))
"""gates of a launch that is not confirmed yet, in a study whose ledger is verified"""


class NextAction(DocumentPart):
    """The next action, its arguments, its command and the reason."""

    action: str
    """a step of `loop`, or agree, ask, mend, repair, review: left to a person or author"""
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


def _do(
    action: str, why: str, command: str | None = None, *blocking: str, **args: Any
) -> NextAction:
    return NextAction(action=action, args=args, why=why, blocking=blocking, command=command)


def next_step(study: Study) -> NextAction:
    """Return the next safe action and why; never takes it.

    A file that cannot be read has to be repaired first; the action names it.
    """
    try:
        return next(_due(study))
    except TelicError as error:
        ask = error.hint or "Restore the file from version control, or correct it."
        code = error.code if isinstance(error, StudyError) else None
        return _do("repair", error.message, None, ask, code=code)


def note_next(study: Study) -> NextAction:
    """Return the next safe action and note it in state.json.

    Stop rules that fired and conditions that were met since the last time are recorded first.
    """
    action = next_step(study)
    if action.action not in ("repair", "agree") and record_findings(study):
        action = next_step(study)
    if action.action != "repair":
        with study.locked():
            study.ledger.save_state(action.as_data())
    return action


def _due(study: Study) -> Iterator[NextAction]:
    """Yield what applies, the most urgent first; only as much is computed as is taken."""
    yield from _obstacles(study)
    yield from _results(study)
    yield from _doubts(study)
    yield from _objections(study)
    yield from _verdicts(study)
    yield from _stopped(study, ("stop", "ask"))
    yield from _work(study)
    yield from _ideas(study)


def _with_status(study: Study, *statuses: CandidateStatus) -> list[str]:
    return [name for name, held in study.state.candidates.items() if held.status in statuses]


def _waiting(study: Study) -> Iterator[NextAction]:
    if live := study.state.active_runs:
        yield _do("wait", "runs are under way", runs=list(live))


# ---------------------------------------------------------------------------- obstacles


def _obstacles(study: Study) -> Iterator[NextAction]:
    """Yield what keeps the study from continuing at all."""
    state, folder = study.state, study.folder
    if broken := ledger_problems(study):
        yield _do("repair", broken[0], "telic verify", *broken)
    if state.study_status == "closed":
        yield _do("stop", "the study is closed; nothing more is launched", rule="closed")
    for run in filter(lambda run: is_over(study, run), state.active_runs):
        yield _do("reconcile", f"{run}: it ended or vanished and is not settled", _RUN, run=run)
    for name in filter(lambda name: due_move(study, name), _with_status(study, S.LAUNCHED)):
        yield _do("reconcile", f"{name}: runs finished, status not updated", _RUN, candidate=name)
    if state.contract_version is None:
        found = check_contract(study)
        problems = [each for each in found.problems if "contract amend" not in each]
        ask = "is contract.yaml what may be tried? (telic study contract)"
        asks = (*found.questions, *problems) or (ask,)
        yield _do("agree", "no contract has been agreed on", _AMEND, *asks)
    needed = (folder.adapter, folder.metric_spec, folder.protocol)
    missing = [path.name for path in needed if not path.is_file()]
    if not missing:
        yield from _stopped(study, ("pause", "close"))
    for name in missing:
        command = "adapter --draft" if name == "adapter.yaml" else "contract"
        ask = f"what belongs into {name}?"
        yield _do("agree", f"{name} is not written", f"telic study {command}", ask)
    if (proof := proof_of(study)) is not None and not study.state.baseline:
        failed = [f"{each['name']}: {each['why']}" for each in proof if each["passed"] is False]
        if failed:
            again = "correct adapter.yaml or metric_spec.yaml and agree on it, then prove it again"
            why = f"the smoke test of the adapter failed: {'; '.join(failed)}"
            yield _do("ask", why, _PROVE, again)
    if problems := agreement_problems(study):
        is_approved_only = all("void" in each for each in problems)
        command = "telic study approve" if is_approved_only else _AMEND
        ask = "a person agrees to it as it is now; or undo what was changed"
        yield _do("agree", problems[0], command, ask, *problems)


def _unasked(study: Study) -> list[str]:
    """Return the live runs that were not asked to stop yet."""
    live = study.state.active_runs
    return [run for run in live if RunProcess(study.folder.run(run)).stop_request is None]


def _stopped(study: Study, effects: tuple[str, ...]) -> Iterator[NextAction]:
    """Yield what to do about stop rules: end runs, wait for them, ask a person."""
    stops = [each for each in standing_stops(study) if each.effect in effects]
    if not stops:
        return
    stop, asks = stops[0], [f"{each.rule}: {each.why}" for each in stops]
    args = stop.model_dump(include={"rule", "effect", "kill_running"})
    kills, pauses = any(each.kill_running for each in stops), stop.effect in ("pause", "ask")
    if kills and (runs := _unasked(study)):
        yield _do("stop", stop.why, f"{_RUN} --stop {runs[0]}", *asks, **args, run=runs[0])
    if kills or stop.effect != "pause":
        yield from _waiting(study)
    if not pauses:
        more = f"telic study contract --set PLACE=VALUE, then: {_AMEND}"
        asks.append(f"or a person allows more: {more}")
    command = f"{_RUN} --resume" if pauses else "telic study report --close"
    command = f"{command} --because TEXT"
    if stop.rule == "hacking_high" and (names := _unreviewed(study)):
        command = REVIEW.format(names[0])
    yield _do("stop", stop.why, command, *asks, **args)


# ---------------------------------------------------------------------------- results


def _results(study: Study) -> Iterator[NextAction]:
    """Yield what to do about runs and their results."""
    state = study.state
    finished = [name for name, run in state.runs.items() if run.status == RunStatus.FINISHED]
    covered = {x.run for x in state.evidence.values() if x.kind == "metrics"}
    unmeasured = [run for run in finished if run not in covered]
    for run in unmeasured:
        if why := altered_artefacts(study, run):
            ask = "restore the file; if it is lost, the run is entered as unusable"
            command = f"{_AUDIT.format(run)} --unusable"
            yield _do("repair", f"{run}: {why[0]}", command, ask, run=run)
    alerts = study.events_of("monitor.alert", about=state.active_runs)
    for run in _unasked(study) if state.automation.kill_fatal else ():
        if signs := fatal_alerts(alerts, [run]):
            why = f"{run}: {signs[0]}, and the contract ends such runs (automation.kill_fatal)"
            args = {"run": run, "by": "monitor", "rule": "kill_fatal"}
            yield _do("stop", why, f"{_RUN} --stop {run}", **args)
    for run in unmeasured:
        yield _do("ingest", f"{run}: it finished and was not measured", _AUDIT.format(run), run=run)
    last = {run: state.runs[run].intent_at for run in state.active_runs}
    last |= {str(alert.subject): alert.at for alert in alerts}
    for run, at in last.items():
        if moment(utc_now()) - moment(at) > WATCH_EVERY:
            why = f"{run}: it runs, and was not monitored for a while"
            yield _do("monitor", why, _AUDIT.format(run), run=run)
    for name in _unreviewed(study):
        why, asks = f"{name}: its reward may be gamed; is it?", ask_for_review(name)
        yield _do("review", why, REVIEW.format(name), *asks, candidate=name)
    trusted = study.incumbent.candidate if study.incumbent else None
    open_arms = {x.seed for x in _open_jobs(study) if (x.candidate, x.phase) == (trusted, _CLAIM)}
    for name in _claims(study, audited=False):
        seeds = {run.seed for run in state.runs_of(name, _CLAIM).values()}
        if not _has_no_rival(study, name) and not open_arms & seeds:  # its control arm has ended
            why = f"{name}: its runs are measured, its claim is not audited"
            yield _do("audit", why, _AUDIT.format(name), candidate=name)


def _unreviewed(study: Study) -> list[str]:
    """Return open candidates, as recorded, whose reward may be gamed and that have no review."""
    return [
        name
        for name, held in study.state.candidates.items()
        if held.status not in _OVER
        and is_unreviewed(study, name)
        and study.candidate(name).compute_hash() == held.content_hash
    ]


# ---------------------------------------------------------------------------- claims


def _steps(study: Study, *verdicts: str) -> list[PhaseStep]:
    """Return what the phase rules say about completed candidates."""
    steps = (phase_step(study, name) for name in completed(study.state))
    return [each for each in steps if each.verdict in verdicts]


def _claims(study: Study, *, audited: bool) -> list[str]:
    """Return completed candidates without a later phase, with or without a valid audit."""
    found: list[str] = []
    for step in _steps(study, "wait"):
        name = step.candidate
        has_audit = bool(standing_audits(study, name)) and (
            study.audits(name)[-1].protocol_hash == (study.state.protocol_hash or "")
        )
        if step.phase in _LAST_PHASES and has_audit == audited:
            found.append(name)
    return found


def _has_no_rival(study: Study, name: str) -> bool:
    return study.candidate_state(name).kind != "baseline" and study.incumbent is None


def _doubts(study: Study) -> Iterator[NextAction]:
    """Yield more seeds for an incumbent whose gain was not confirmed, or ask a person."""
    found = check_incumbent(study)
    if found is None or found.outcome == "holds":
        return
    is_lost, name = found.outcome == "lost", found.candidate
    arms = [name, *([found.control] if found.control else [])]
    if not is_lost and seeds_fit(study, arms, "incumbent_validation", found.n):
        yield _do("plan", found.why, _RUN, candidate=name, more_seeds=True)
    revert, keep = _revert(study, name), f"telic study decide {name} keep --because TEXT"
    first, second = (revert, keep) if is_lost else (keep, revert)
    verdict = "revert" if is_lost else "keep"
    asks = () if _decides(study) else (f"a person decides; instead: {second}",)
    to = {} if not is_lost or study.state.previous_incumbent(name) else {"to": NO_INCUMBENT}
    yield _do("decide", found.why, first, *asks, candidate=name, verdict=verdict, **to)


def _decides(study: Study) -> bool:
    """Return whether the contract lets the study decide without a person."""
    return study.state.automation.decide == "auto"


def _revert(study: Study, name: str) -> str:
    """Return the command that reverts an accepted candidate."""
    is_other = study.incumbent is not None and study.incumbent.candidate != name
    has_successor = is_other or study.state.previous_incumbent(name) is not None
    to = "" if has_successor else f" --to {NO_INCUMBENT}"
    return f"telic study decide {name} revert{to} --because TEXT"


def _exploits(study: Study) -> dict[str, str]:
    """Return candidates without live runs, and the incumbent, that a review calls an exploit."""
    state = study.state
    running = {state.runs[run].candidate for run in state.active_runs}
    trusted = study.incumbent.candidate if study.incumbent else None
    return {
        name: finding
        for name, held in state.candidates.items()
        if ((held.status not in _OVER and name not in running) or name == trusted)
        and (finding := standing_exploit(study, name))
    }


def _objections(study: Study) -> Iterator[NextAction]:
    """Yield the end of candidates that a review or their own condition refutes."""
    found = [(name, "exploit", why) for name, why in _exploits(study).items()]
    found += [
        (name, result.cause, result.why)
        for name in study.state.candidates
        for result in judge_conditions(study, name)
        if result.is_met
    ]
    for name, cause, why in found:
        status = study.candidate_state(name).status
        verdict, asks, command = "reject", (), _WITHDRAW.format(name)
        if status == S.ACCEPTED:
            verdict, command = "revert", _revert(study, name)
            asks = ("a person reverts it",)
        elif status in (S.COMPLETED, S.DEBUG):
            command = f"telic study decide {name} reject --cause {cause} --because TEXT"
        if cause == "exploit":
            asks = (f"a person may approve it anyway: {_APPROVE.format(name)}",)
        args = {"candidate": name, "verdict": verdict, "cause": cause}
        yield _do("decide", f"{name}: {why}", command, *asks, **args)


def _verdicts(study: Study) -> Iterator[NextAction]:
    """Yield the decisions that audits, used-up attempts and phase rules suggest."""
    for name in _claims(study, audited=True):
        audit, phase = study.audits(name)[-1], study.candidate_state(name).phase
        verdict = _VERDICTS[audit.verdict]
        why = ": ".join([f"{audit.id} says {audit.verdict}", *audit.reasons[:1]])
        is_open = verdict == "inconclusive"
        if is_open and phase and seeds_fit(study, [name], phase, audit.arms["x"].n):
            command = f"telic study decide {name} more-seeds --because TEXT"
            more = f"{why}, and more seeds fit the budget"
            yield _do("advance", more, command, candidate=name, more_seeds=True)
        asks = not _decides(study) and verdict == "accept"
        ask = ("a person accepts (automation.decide: ask)",) if asks else ()
        command = f"telic study decide {name} {verdict} --audit {audit.id} --because TEXT"
        yield _do("decide", why, command, *ask, candidate=name, verdict=verdict, audit=audit.id)
    for name in _with_status(study, S.DEBUG):
        if not _may_be_repaired(study, name):
            yield _decision(name, "reject", f"{name}: every attempt to repair it was used")
    for each in _steps(study, "wait"):
        if why := _why_unclaimed(study, each):
            yield _decision(each.candidate, "inconclusive", f"{each.candidate}: {why}")
    repair = f"correct metric_spec.yaml, then: {_AMEND}, telic study audit RUN"
    for each in _steps(study, "unreadable", "hold"):
        asks = (f"is it given up, or can its log be read otherwise? {repair}",)
        asks = asks if each.verdict == "unreadable" else ()
        yield _decision(
            each.candidate, "reject", f"{each.phase}: {each.why}", *asks, cause="phase_rule"
        )


def _decision(name: str, verdict: str, why: str, *asks: str, **cause: str) -> NextAction:
    flag = "".join(f" --cause {each}" for each in cause.values())
    command = f"telic study decide {name} {verdict}{flag} --because TEXT"
    return _do("decide", why, command, *asks, candidate=name, verdict=verdict, **cause)


def _why_unclaimed(study: Study, step: PhaseStep) -> str | None:
    """Return why no audit can decide about a completed candidate; None when one can."""
    name, phase = step.candidate, step.phase
    if standing_audits(study, name):
        return None
    if phase in _LAST_PHASES:
        alone = "the present protocol has no incumbent to compare with"
        return alone if _has_no_rival(study, name) else None
    later = phase and next_phase(phase, study.candidate(name).plan.phases)
    return None if later else "its plan ends before anything could be claimed"


def _may_be_repaired(study: Study, candidate: str) -> bool:
    state = study.state
    return state.candidates[candidate].debug_attempts < state.automation.max_debug_attempts


# ---------------------------------------------------------------------------- work and ideas


def _work(study: Study) -> Iterator[NextAction]:
    """Yield what moves the open candidates forward."""
    for each in _steps(study, "advance"):
        yield _do("advance", each.why, _RUN, candidate=each.candidate, phase=each.to)
    barred, valid = _exploits(study), _with_status(study, S.VALIDATED)
    ready = [x for x in study.jobs if x.status == "ready" and x.candidate not in barred]
    # Before anything is checked or given up for it: no revision of a candidate helps here.
    waits = ready or valid or _with_status(study, S.DRAFT)
    if waits and (changed := study.changed_evaluators(study.root)):
        why = f"{', '.join(changed)} is not the evaluator of the protocol"
        yield _do("ask", why, None, EVALUATOR_CHANGED, gate="G19")
    for name in valid:
        if changed := ", ".join(changed_since(study, name)):
            why = f"{name}: {changed} changed since it was validated"
            yield _do("validate", why, _RUN, candidate=name)
    if ready:
        name = ready[0].candidate
        is_first = study.candidate_state(name).kind == "baseline" and ready[0].phase == "smoke"
        if is_first and proof_of(study) is None and not study.state.runs_of(name):
            why = f"{name}: a smoke test has to prove the adapter first"
            blocked = remedy_for(study, ready[0])
            yield blocked or _do("prove", why, _PROVE, candidate=name)
        yield from _launch(study, ready[0])
    yield from _incumbent_check(study)
    yield from _repairs(study)


def _repairs(study: Study) -> Iterator[NextAction]:
    """Yield what drafts, failed and idle candidates need."""
    open_jobs = {(job.candidate, job.phase) for job in _open_jobs(study)}
    for name in _with_status(study, S.VALIDATED):
        if (name, study.state.candidates[name].phase) not in open_jobs:
            why = f"{name}: all its jobs are over and it was not completed; revise or withdraw it"
            yield _mend(name, why)
    faults = {name: _fault(study, name) for name in _with_status(study, S.DRAFT)}
    for name in [name for name, fault in faults.items() if not fault]:
        why = f"{name}: it is a draft that was not checked"
        yield _do("validate", why, _RUN, candidate=name)
    for name, fault in faults.items():
        yield _mend(name, f"{name}: {fault}")
    for name in _with_status(study, S.DEBUG):
        if _may_be_repaired(study, name):
            give_up = f"or a person gives it up: telic study decide {name} reject --because TEXT"
            why = f"{name}: {study.candidate_state(name).reason or 'it failed'}; repair it"
            yield _do("mend", why, _REVISE.format(name), give_up, candidate=name)


def _mend(name: str, why: str) -> NextAction:
    give_up = f"or withdraw it: {_WITHDRAW.format(name)}"
    return _do("mend", why, _REVISE.format(name), give_up, candidate=name)


def _fault(study: Study, draft: str) -> str:
    """Return the first check that a draft fails."""
    failed = (each for each in check_candidate(study, draft) if not each.passed)
    return next((f"{each.id}: {each.why}" for each in failed), "")


def _open_jobs(study: Study) -> list[Job]:
    return [job for job in study.jobs if job.status not in JOB_OVER]


def _incumbent_check(study: Study) -> Iterator[NextAction]:
    """Yield the check of an incumbent's claim on fresh seeds, if it was not checked yet."""
    if study.incumbent is None or is_checked(study):
        return
    name = study.incumbent.candidate
    if seeds_fit(study, checked_arms(study, name), "incumbent_validation", 0):
        yield _do("plan", f"{name}: its claim was not checked on fresh seeds", _RUN, candidate=name)
    why = f"{name}: no fresh seeds or no budget are left to check its claim with"
    ask = "a person trusts it unchecked, or allows more seeds in the contract"
    yield _decision(name, "keep", why, *(() if _decides(study) else (ask,)))


def _ideas(study: Study) -> Iterator[NextAction]:
    """Yield what is left when nothing else is: an idea, patience, or a question."""
    state = study.state
    names = [name for name, held in state.candidates.items() if held.status not in _OVER]
    if study.incumbent is None and all(state.candidates[x].kind != "baseline" for x in names):
        why = "nothing can be compared before a baseline is measured"
        yield _do("propose", why, _RUN, kind="baseline")
    # A live run may be the check of the incumbent that an idea would start from.
    if study.incumbent is not None and not names and not state.active_runs:
        command = "telic study propose FILE"
        yield _do("propose", "no candidate is open", command, role="candidate_proposer")
    yield from _waiting(study)
    why, ask = "no rule says what to do with what is open", "what should become of it?"
    yield _do("ask", why, None, ask, candidates=names)


# ---------------------------------------------------------------------------- launches


def _launch(study: Study, job: Job) -> Iterator[NextAction]:
    """Yield the launch of a ready job, or what its first shut gate needs."""
    if found := remedy_for(study, job):
        live = [study.state.runs[run].candidate for run in study.state.active_runs]
        is_running = job.candidate in live
        if found.args["gate"] == "G16" or (found.action == "abandon" and is_running):
            yield from _waiting(study)  # a live run has to end first
        yield found
    command = f"{_RUN} {job.candidate} --phase {job.phase} --seed {job.seed} --confirm {TOKEN}"
    args = job.model_dump(include={"candidate", "phase", "seed", "gpu"})
    yield _do("launch", f"{job.name} is ready", command, **args, retry_of=job.run_id)


def remedy_for(study: Study, job: Job) -> NextAction | None:
    """Return what opens the first shut gate of a ready job; None when all are open."""
    request = LaunchRequest(job.candidate, job.phase, job.seed, gpu=job.gpu, retry_of=job.run_id)
    nonce = secrets.token_hex(8)
    attempt = LaunchAttempt(study, request, run_id=run_id(), nonce=nonce, processes=False)
    closed = shut(evaluate(attempt, _LOOKED_AT), dry=True)
    if not closed:
        return None
    gate = closed[0]
    action, command, *asks = _remedy(attempt, gate)
    args: dict[str, Any] = job.model_dump(include={"candidate", "phase", "seed"})
    args |= {"gate": gate.id, **({"verdict": "revert"} if action == "decide" else {})}
    why = f"{job.name} cannot start: {gate.id} {gate.why}"
    return NextAction(action=action, args=args, why=why, blocking=tuple(asks), command=command)


_Remedy = tuple[Any, ...]
"""an action, its command, and what a person is asked"""


def _remedy(attempt: LaunchAttempt, gate: RuleResult) -> _Remedy:
    """Return the action that opens a gate, its command, and what a person is asked."""
    study, name, why = attempt.study, attempt.request.candidate, gate.why
    is_trusted = attempt.held.status == S.ACCEPTED
    give_up = f"or withdraw the candidate: {_WITHDRAW.format(name)}"
    give_up = f"or revert it: {_revert(study, name)}" if is_trusted else give_up
    match gate.id, gate.remedy:
        case "G04", _:
            return "agree", _AMEND, why
        case "G05", _:
            unmet = study.missing_approvals
            command = f"telic study approve {' '.join(each.key for each in unmet)}"
            asks = [f"approval {each.name} is {each.status}: {each.why}" for each in unmet]
            return "agree", command, *asks
        case "G06", _:
            ask = f"approval experiment:{name}: {why}"
            return "agree", _APPROVE.format(name), ask, *(() if is_trusted else (give_up,))
        case (("G07" | "G08" | "G11"), _):
            return _check_again(attempt)
        case "G10", "review":
            return "review", REVIEW.format(name), *ask_for_review(name)
        case "G19", "old base" if attempt.held.status != S.VALIDATED:
            return _check_again(attempt)
        case "G19", "old base":
            newer = "the draft names as base_commit a commit that has the evaluator of the protocol"
            return "mend", _REVISE.format(name), newer, give_up
        case "G20", field if field:
            return "ask", "telic study approve", f"is {field} in adapter.yaml right?"
        case "G22", "review":
            ask = "a reviewer other than its author looks at it"
            command = f"telic study audit {name} --no-exploit --finding TEXT"
            return "review", command, ask, own_praise_counts(name)
        case "G23", "actuation":
            return "agree", f"telic study approve physical_actuation --candidate {name}", why
        case _:
            command = _AMEND if gate.id in ("G13", "G14", "G22") else None
            return "ask", command, GATES[gate.id].question, give_up


def _check_again(attempt: LaunchAttempt) -> _Remedy:
    """Validate again what was validated, give up what already runs, restore an incumbent."""
    name, status = attempt.request.candidate, attempt.held.status
    if status == S.VALIDATED:
        return "validate", _RUN
    if status == S.LAUNCHED:
        return "abandon", _WITHDRAW.format(name)
    ask = f"restore what {name} needs, or a person reverts it"
    return "decide", _revert(attempt.study, name), ask
