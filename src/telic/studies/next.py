"""Select the next safe action of a study, i.e. the first applicable action in a fixed order.

This module only reads files. Each action contains its command and the reason. If a launch would be
refused, the action that opens its gate is suggested instead. Failed checks are quoted with their
codes and remedies.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field

from telic.errors import TelicError
from telic.studies.adapter_check import proof_of
from telic.studies.contract import check_contract
from telic.studies.decide import NO_INCUMBENT, current_audits
from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CLOSED_STATUSES, CandidateStatus, RunStatus
from telic.studies.documents.contract import StudyPhase
from telic.studies.errors import StudyError
from telic.studies.evidence.measurement import divergence, read_run_log
from telic.studies.evidence.review import is_unreviewed
from telic.studies.evidence.store import altered_artifacts
from telic.studies.launch.attempt import LaunchAttempt, LaunchRequest
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import due_move, is_over
from telic.studies.queue import JOB_OVER, TOKEN, Job, checked_arms, seeds_fit
from telic.studies.rules._table import RuleResult
from telic.studies.rules.checks import CHECKS, changed_since, check_candidate
from telic.studies.rules.gates import GATES, evaluate
from telic.studies.rules.results import (
    PhaseStep,
    active_stops,
    agreement_problems,
    check_incumbent,
    completed,
    is_checked,
    ledger_problems,
    phase_step,
    record_findings,
    unresolved_exploit,
)
from telic.studies.study import Study

S = CandidateStatus
_CLAIM: StudyPhase = "promotion"
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
_DECIDE = "telic study decide {} {} --because TEXT"
_REVISE = "telic study propose FILE --revise {}"
_REVIEW = "telic study audit {} --exploit --finding TEXT"
_LOOKED_AT = tuple(code for code in GATES if code not in ("G01", "G03"))
"""gates to skip for an unconfirmed launch in a study with a verified ledger"""


class NextAction(DocumentPart):
    """Next action of a study, with its arguments, command and reason."""

    action: str
    """step of `loop`, or of a person or author (agree, ask, revise, repair, review)"""
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """questions that a person must answer first"""
    command: str | None = None
    """shell command of the action"""


def _do(
    action: str, why: str, command: str | None = None, *blocking: str, **args: Any
) -> NextAction:
    return NextAction(action=action, args=args, why=why, blocking=blocking, command=command)


def next_step(study: Study) -> NextAction:
    """Return the next safe action and its reason without executing it.

    If a file is unreadable, the next action is to repair that file.
    """
    try:
        return next(_due(study))
    except TelicError as error:
        ask = error.hint or "Restore the file from version control, or fix it."
        code = error.code if isinstance(error, StudyError) else None
        return _do("repair", error.message, None, ask, code=code)


def note_next(study: Study) -> NextAction:
    """Record fired stop rules and met conditions and return the next safe action."""
    action = next_step(study)
    if action.action not in ("repair", "agree") and record_findings(study):
        action = next_step(study)
    return action


def _due(study: Study) -> Iterator[NextAction]:
    """Yield the applicable actions lazily, most urgent first."""
    yield from _obstacles(study)
    yield from _results(study)
    yield from _doubts(study)
    yield from _objections(study)
    yield from _verdicts(study)
    yield from _stopped(study, ("stop", "ask"))
    yield from _work(study)
    yield from _repairs(study)
    yield from _ideas(study)


def _with_status(study: Study, *statuses: CandidateStatus) -> list[str]:
    return [name for name, held in study.state.candidates.items() if held.status in statuses]


def _waiting(study: Study) -> Iterator[NextAction]:
    if live := study.state.active_runs:
        yield _do("wait", "runs are active", runs=list(live))


def _trusted(study: Study) -> str | None:
    return study.incumbent.candidate if study.incumbent else None


def _decides(study: Study) -> bool:
    """Return whether the contract allows decisions without human approval."""
    return study.state.automation.decide == "auto"


# ---------------------------------------------------------------------------- obstacles


def _obstacles(study: Study) -> Iterator[NextAction]:
    """Yield actions for problems that block the whole study."""
    state, folder = study.state, study.folder
    if broken := ledger_problems(study):
        yield _do("repair", broken[0], "telic verify", *broken)
    if state.study_status == "closed":
        yield _do("stop", "the study is closed; no further launches are possible", rule="closed")
    for run in filter(lambda run: is_over(study, run), state.active_runs):
        yield _do("reconcile", f"{run}: it ended or vanished and is not settled", _RUN, run=run)
    for name in filter(lambda name: due_move(study, name), _with_status(study, S.LAUNCHED)):
        yield _do("reconcile", f"{name}: runs finished, status not updated", _RUN, candidate=name)
    if state.contract_version is None:
        found = check_contract(study)
        problems = [each for each in found.problems if "contract amend" not in each]
        ask = "does contract.yaml describe the allowed changes? (telic study contract)"
        asks = (*found.questions, *problems) or (ask,)
        yield _do("agree", "no contract is agreed yet", _AMEND, *asks)
    needed = (folder.adapter, folder.metric_spec, folder.protocol)
    missing = [path.name for path in needed if not path.is_file()]
    if not missing:
        yield from _stopped(study, ("pause", "close"))
    for name in missing:
        command = f"init --task {folder.task_id} --study {folder.study_id}"
        ask = f"what is the value of {name}?"
        yield _do("agree", f"{name} is not written", f"telic study {command}", ask)
    proof = None if study.state.baseline else proof_of(study)
    failed = [f"{x['name']}: {x['why']}" for x in proof or () if x["passed"] is False]
    if failed:
        again = "fix adapter.yaml or metric_spec.yaml and agree on it, then verify it again"
        why = f"the smoke test of the adapter failed: {'; '.join(failed)}"
        yield _do("ask", why, _PROVE, again)
    if problems := agreement_problems(study):
        is_approved_only = all("void" in each for each in problems)
        command = "telic study approve" if is_approved_only else _AMEND
        ask = "a person approves the current version; or undo the change"
        yield _do("agree", problems[0], command, ask, *problems)


def _unasked(study: Study) -> list[str]:
    """Return the live runs without a stop request."""
    live = study.state.active_runs
    return [run for run in live if RunProcess(study.folder.run(run)).stop_request is None]


def _stopped(study: Study, effects: tuple[str, ...]) -> Iterator[NextAction]:
    """Yield actions after a stop rule fired: end or await live runs, or ask a person."""
    stops = [each for each in active_stops(study) if each.effect in effects]
    if not stops:
        return
    stop, asks = stops[0], [f"{each.rule}: {each.why}" for each in stops]
    args = stop.model_dump(include={"rule", "effect", "kill_running"})
    kills, pauses = any(each.kill_running for each in stops), stop.effect in ("pause", "ask")
    if kills and (runs := _unasked(study)):
        yield _do("stop", stop.why, f"{_RUN} --stop {runs[0]}", *asks, **args, run=runs[0])
    if kills or stop.effect != "pause":
        yield from _waiting(study)
    command = f"{_RUN} --resume --because TEXT"
    if not pauses:
        command = "telic study report --close --because TEXT"
        more = f"telic study contract --set PLACE=VALUE, then: {_AMEND}"
        asks.append(f"or a person raises the limit: {more}")
    yield _do("stop", stop.why, command, *asks, **args)


# ---------------------------------------------------------------------------- results


def _results(study: Study) -> Iterator[NextAction]:
    """Yield actions for runs and their results."""
    state = study.state
    finished = [name for name, run in state.runs.items() if run.status == RunStatus.FINISHED]
    covered = {x.run for x in state.evidence.values() if x.kind == "metrics"}
    unmeasured = [run for run in finished if run not in covered]
    for run in unmeasured:
        if why := altered_artifacts(study, run):
            ask = "restore the file; if it is lost, the run is recorded as unusable"
            command = f"{_AUDIT.format(run)} --unusable"
            yield _do("repair", f"{run}: {why[0]}", command, ask, run=run)
    for run in _unasked(study) if state.automation.kill_fatal else ():
        series = read_run_log(study, run).series
        if names := divergence(series, study.metric_spec.primary.key):
            why = f"{run}: {names[0]} is not finite; the contract ends such runs (kill_fatal)"
            args = {"run": run, "by": "monitor", "rule": "kill_fatal"}
            yield _do("stop", why, f"{_RUN} --stop {run}", **args)
    for run in unmeasured:
        yield _do("ingest", f"{run}: it finished but was not measured", _AUDIT.format(run), run=run)
    for name in _unreviewed(study):
        why = f"{name}: does it exploit its reward?"
        yield _do("review", why, _REVIEW.format(name), *_review_asks(name), candidate=name)
    control = (_trusted(study), _CLAIM)
    open_arms = {x.seed for x in _open_jobs(study) if (x.candidate, x.phase) == control}
    for name in _claims(study):
        seeds = {run.seed for run in state.runs_of(name, _CLAIM).values()}
        is_waiting = open_arms & seeds or _has_no_rival(study, name)  # for its control arm
        if not is_waiting and not _is_audited(study, name):
            why = f"{name}: its runs are measured, but its claim is not audited"
            yield _do("audit", why, _AUDIT.format(name), candidate=name)


def _unreviewed(study: Study) -> list[str]:
    """Return open candidates with an unreviewed reward-hacking risk."""
    return [
        name
        for name, held in study.state.candidates.items()
        if held.status not in CLOSED_STATUSES
        and is_unreviewed(study, name)
        and study.candidate(name).compute_hash() == held.content_hash
    ]


def _review_asks(candidate: str) -> tuple[str, ...]:
    return (
        "a person or another agent decides (--no-exploit: the reward is not exploited)",
        f"or a person approves it: {_APPROVE.format(candidate)}",
    )


def _steps(study: Study, *verdicts: str) -> list[PhaseStep]:
    """Return the phase transitions of completed candidates that have one of these verdicts."""
    steps = (phase_step(study, name) for name in completed(study.state))
    return [each for each in steps if each.verdict in verdicts]


def _claims(study: Study) -> list[str]:
    """Return completed candidates that need an audit."""
    return [step.candidate for step in _steps(study, "claim")]


def _is_audited(study: Study, name: str) -> bool:
    now = study.state.protocol_hash or ""
    return bool(current_audits(study, name)) and study.audits(name)[-1].protocol_hash == now


def _has_no_rival(study: Study, name: str) -> bool:
    return study.candidate_state(name).kind != "baseline" and study.incumbent is None


# ---------------------------------------------------------------------------- decisions


def _decision(name: str, verdict: str, why: str, *asks: str, **cited: str) -> NextAction:
    """Return the action of recording a decision. `cited` has an audit, a cause or a successor."""
    words = [f"--{key} {value}" for key, value in cited.items()]
    command = _DECIDE.format(name, " ".join([verdict, *words]))
    return _do("decide", why, command, *asks, candidate=name, verdict=verdict, **cited)


def _successor(study: Study, name: str) -> dict[str, str]:
    """Return the extra option of a revert if the study would have no incumbent afterwards."""
    has_other = _trusted(study) not in (None, name) or study.state.previous_incumbent(name)
    return {} if has_other else {"to": NO_INCUMBENT}


def _doubts(study: Study) -> Iterator[NextAction]:
    """Yield actions for an incumbent with an unconfirmed gain: add seeds, or ask a person."""
    found = check_incumbent(study)
    if found is None or found.outcome == "holds":
        return
    is_lost, name = found.outcome == "lost", found.candidate
    arms = [name, *([found.control] if found.control else [])]
    if not is_lost and seeds_fit(study, arms, "incumbent_validation", found.n):
        yield _do("plan", found.why, _RUN, candidate=name, more_seeds=True)
    choices = {"keep": dict[str, str](), "revert": _successor(study, name)}
    verdict, other = ("revert", "keep") if is_lost else ("keep", "revert")
    second = _decision(name, other, "", **choices[other]).command
    asks = () if _decides(study) else (f"a person decides; instead: {second}",)
    yield _decision(name, verdict, found.why, *asks, **choices[verdict])


def _exploits(study: Study) -> dict[str, str]:
    """Return the exploits found by reviews of the incumbent and of candidates without live runs."""
    state = study.state
    running = {state.runs[run].candidate for run in state.active_runs}
    return {
        name: finding
        for name, held in state.candidates.items()
        if ((held.status not in CLOSED_STATUSES and name not in running) or name == _trusted(study))
        and (finding := unresolved_exploit(study, name))
    }


def _objections(study: Study) -> Iterator[NextAction]:
    """Yield decisions that end candidates with an exploit according to a review."""
    for name, why in _exploits(study).items():
        status = study.candidate_state(name).status
        step = _decision(name, "reject", f"{name}: {why}", cause="exploit")
        if status == S.ACCEPTED:
            step = _decision(name, "revert", step.why, **_successor(study, name))
        is_tried = status in (S.ACCEPTED, S.COMPLETED, S.DEBUG)
        command = step.command if is_tried else _DECIDE.format(name, "withdraw")
        args = {**step.args, "cause": "exploit"}
        asks = (f"a person may approve it anyway: {_APPROVE.format(name)}",)
        yield step.model_copy(update={"blocking": asks, "command": command, "args": args})


def _verdicts(study: Study) -> Iterator[NextAction]:
    """Yield decisions suggested by audits, by phase rules, or because no attempts are left."""
    for name in filter(lambda name: _is_audited(study, name), _claims(study)):
        audit, phase = study.audits(name)[-1], study.candidate_state(name).phase
        verdict = _VERDICTS[audit.verdict]
        why = ": ".join([f"{audit.id} says {audit.verdict}", *audit.reasons[:1]])
        is_open = verdict == "inconclusive"
        if is_open and phase and seeds_fit(study, [name], phase, audit.arms["x"].n):
            command, more = _DECIDE.format(name, "more-seeds"), f"{why}; more seeds are left"
            yield _do("advance", more, command, candidate=name, more_seeds=True)
        asks = not _decides(study) and verdict == "accept"
        ask = ("a person accepts (automation.decide: ask)",) if asks else ()
        yield _decision(name, verdict, why, *ask, audit=audit.id)
    for name in _with_status(study, S.DEBUG):
        if not _may_be_repaired(study, name):
            yield _decision(name, "reject", f"{name}: all repair attempts are used up")
    alone = "the current protocol has no incumbent for comparison"
    for name in filter(lambda name: _has_no_rival(study, name), _claims(study)):
        yield _decision(name, "inconclusive", f"{name}: {alone}")
    for each in _steps(study, "pointless"):
        yield _decision(each.candidate, "inconclusive", f"{each.candidate}: {each.why}")
    repair = f"fix metric_spec.yaml, then: {_AMEND}, telic study audit RUN"
    for each in _steps(study, "unreadable", "hold"):
        ask = f"is it abandoned, or can its log be read in another way? {repair}"
        asks, why = (ask,) if each.verdict == "unreadable" else (), f"{each.phase}: {each.why}"
        yield _decision(each.candidate, "reject", why, *asks, cause="phase_rule")


def _may_be_repaired(study: Study, candidate: str) -> bool:
    state = study.state
    return state.candidates[candidate].debug_attempts < state.automation.max_debug_attempts


# ---------------------------------------------------------------------------- work and ideas


def _open_jobs(study: Study) -> list[Job]:
    return [job for job in study.jobs if job.status not in JOB_OVER]


def _work(study: Study) -> Iterator[NextAction]:
    """Yield actions that advance open candidates and check a new incumbent."""
    for each in _steps(study, "advance"):
        yield _do("advance", each.why, _RUN, candidate=each.candidate, phase=each.to)
    barred, valid = _exploits(study), _with_status(study, S.VALIDATED)
    ready = [x for x in study.jobs if x.status == "ready" and x.candidate not in barred]
    # Comes before checks and withdrawals, since revising a candidate cannot fix it.
    waits = ready or valid or _with_status(study, S.DRAFT)
    if waits and (changed := study.changed_evaluators(study.root)):
        why = f"G19 {', '.join(changed)} differs from the protocol's evaluator"
        yield _do("ask", why, None, GATES["G19"].fix, gate="G19")
    for name in valid:
        if changed := ", ".join(changed_since(study, name)):
            why = f"{name}: {changed} changed since it was validated"
            yield _do("validate", why, _RUN, candidate=name)
    if ready:
        name = ready[0].candidate
        is_first = study.candidate_state(name).kind == "baseline" and ready[0].phase == "smoke"
        if is_first and proof_of(study) is None and not study.state.runs_of(name):
            why = f"{name}: a smoke test must verify the adapter first"
            blocked = remedy_for(study, ready[0])
            yield blocked or _do("prove", why, _PROVE, candidate=name)
        yield from _launch(study, ready[0])
    if (trusted := _trusted(study)) is not None and not is_checked(study):
        if seeds_fit(study, checked_arms(study, trusted), "incumbent_validation", 0):
            why = f"{trusted}: its claim was not checked on fresh seeds"
            yield _do("plan", why, _RUN, candidate=trusted)
        why = f"{trusted}: no fresh seeds or no budget are left to check its claim"
        ask = "a person trusts it unchecked, or allows more seeds in the contract"
        yield _decision(trusted, "keep", why, *(() if _decides(study) else (ask,)))


def _repairs(study: Study) -> Iterator[NextAction]:
    """Yield actions for drafts and for failed or idle candidates."""
    open_jobs = {(job.candidate, job.phase) for job in _open_jobs(study)}
    for name in _with_status(study, S.VALIDATED):
        if (name, study.state.candidates[name].phase) not in open_jobs:
            yield _revise(name, "all its jobs are finished, but it was not completed", "withdraw")
    checks = {name: check_candidate(study, name) for name in _with_status(study, S.DRAFT)}
    failed = {name: [x for x in found if not x.passed] for name, found in checks.items()}
    for name in (name for name, found in failed.items() if not found):
        why = f"{name}: the draft has not been checked"
        yield _do("validate", why, _RUN, candidate=name)
    for name, found in failed.items():
        why = f"{found[0].id} ({found[0].title}): {found[0].why}"
        yield _revise(name, why, "withdraw", CHECKS[found[0].id].fix)
    for name in _with_status(study, S.DEBUG):
        if _may_be_repaired(study, name):
            yield _revise(name, study.candidate_state(name).reason or "it failed", "reject")


def _revise(name: str, why: str, end: str, *asks: str) -> NextAction:
    """Return an action to revise or end a candidate."""
    give_up = f"or abandon it: {_DECIDE.format(name, end)}"
    return _do("revise", f"{name}: {why}", _REVISE.format(name), *asks, give_up, candidate=name)


def _ideas(study: Study) -> Iterator[NextAction]:
    """Yield fallback actions: propose a candidate, wait, or ask a person."""
    state = study.state
    names = [name for name, held in state.candidates.items() if held.status not in CLOSED_STATUSES]
    if study.incumbent is None and all(state.candidates[x].kind != "baseline" for x in names):
        why = "nothing can be compared until a baseline is measured"
        yield _do("propose", why, _RUN, kind="baseline")
    # A live run may be the check of the incumbent that a new idea builds on.
    if study.incumbent is not None and not names and not state.active_runs:
        command = "telic study propose FILE"
        yield _do("propose", "no candidate is open", command, role="candidate_proposer")
    yield from _waiting(study)
    why, ask = "no rule applies to the open items", "how should they be handled?"
    yield _do("ask", why, None, ask, candidates=names)


# ---------------------------------------------------------------------------- launches


def _launch(study: Study, job: Job) -> Iterator[NextAction]:
    """Yield the launch of a ready job, or the remedy for its first closed gate."""
    if found := remedy_for(study, job):
        live = [study.state.runs[run].candidate for run in study.state.active_runs]
        is_running = job.candidate in live
        if found.args["gate"] == "G16" or (found.action == "abandon" and is_running):
            yield from _waiting(study)  # a live run must end first
        yield found
    command = f"{_RUN} {job.candidate} --phase {job.phase} --seed {job.seed} --confirm {TOKEN}"
    args = job.model_dump(include={"candidate", "phase", "seed", "gpu"})
    yield _do("launch", f"{job.name} is ready", command, **args)


def remedy_for(study: Study, job: Job) -> NextAction | None:
    """Return the remedy for the first closed gate of a ready job, or None if all gates are open."""
    request = LaunchRequest(job.candidate, job.phase, job.seed, gpu=job.gpu)
    attempt = LaunchAttempt(study, request, processes=False)
    gate = next((x for x in evaluate(attempt, _LOOKED_AT) if not x.passed), None)
    if gate is None:
        return None
    action, command, *asks = _remedy(attempt, gate)
    args: dict[str, Any] = job.model_dump(include={"candidate", "phase", "seed"})
    args |= {"gate": gate.id, **({"verdict": "revert"} if action == "decide" else {})}
    why = f"{job.name} cannot start: {gate.id} ({gate.title}) {gate.why}"
    return NextAction(action=action, args=args, why=why, blocking=tuple(asks), command=command)


def _remedy(attempt: LaunchAttempt, gate: RuleResult) -> tuple[Any, ...]:
    """Return the action that opens a gate, with its command and the questions for a person."""
    study, name, status = attempt.study, attempt.request.candidate, attempt.held.status
    revert = _decision(name, "revert", "", **_successor(study, name)).command
    give_up = f"or abandon it: {_DECIDE.format(name, 'withdraw')}"
    give_up = f"or revert it: {revert}" if status == S.ACCEPTED else give_up
    fix = GATES[gate.id].fix
    match gate.id, gate.remedy:
        case "G04", _:
            return "agree", _AMEND, gate.why, fix
        case "G05", _:
            keys = " ".join(each.key for each in study.missing_approvals)
            return "agree", f"telic study approve {keys}", *gate.why.split("; ")
        case "G06", _:
            asks = () if status == S.ACCEPTED else (give_up,)
            return "agree", _APPROVE.format(name), gate.why, *asks
        case (("G10" | "G22"), "review"):
            return "review", _REVIEW.format(name), *_review_asks(name)
        case "G19", "old base" if status == S.VALIDATED:
            newer = "its base_commit must contain the protocol's evaluator"
            return "revise", _REVISE.format(name), newer, give_up
        # Revalidate a validated candidate, withdraw a running one, restore an incumbent.
        case (("G07" | "G08" | "G11"), _) | ("G19", "old base"):
            if status == S.VALIDATED:
                return "validate", _RUN
            if status == S.LAUNCHED:
                return "abandon", _DECIDE.format(name, "withdraw")
            return "decide", revert, f"restore the requirements of {name}, or a person reverts it"
        case "G23", "actuation":
            return "agree", f"telic study approve physical_actuation --candidate {name}", gate.why
        case _:
            return "ask", _AMEND if gate.id in ("G13", "G14", "G22") else None, fix, give_up
