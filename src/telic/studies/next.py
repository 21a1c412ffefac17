"""The next safe action of a study: the first that applies, in a fixed order.

Nothing is changed or started here: the action holds the exact command and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from telic.errors import TelicError
from telic.studies.canonical import moment, utc_now
from telic.studies.contract import check_contract
from telic.studies.decide import standing_audits
from telic.studies.documents.candidate import CandidateStatus, RunStatus
from telic.studies.errors import StudyError
from telic.studies.evidence.integrity import altered_artefacts
from telic.studies.evidence.monitor import WATCH_EVERY, fatal_alerts
from telic.studies.evidence.review import REVIEW, ask_for_review, is_unreviewed
from telic.studies.launch.process import RunProcess
from telic.studies.launch.recovery import due_move, is_over
from telic.studies.queue import JOB_OVER, TOKEN, Job, seeds_fit
from telic.studies.rules.actions import (
    AMEND,
    APPROVE_CANDIDATE,
    EVALUATOR_CHANGED,
    REVISE,
    WITHDRAW,
    ActionCode,
    NextAction,
    remedy_for,
    take_back,
)
from telic.studies.rules.change import changed_evaluators
from telic.studies.rules.checks import changed_since, check_candidate
from telic.studies.rules.results import (
    PhaseStep,
    check_incumbent,
    completed,
    is_checked,
    judge_conditions,
    measured,
    next_phase,
    phase_step,
    standing_exploit,
)
from telic.studies.rules.stops import (
    Stop,
    agreement_problems,
    ledger_problems,
    record_findings,
    standing_stops,
)
from telic.studies.study import Study

S = CandidateStatus
_LAST_PHASES = ("promotion", "incumbent_validation")
_OVER = (S.ACCEPTED, S.REJECTED, S.REVERTED, S.INCONCLUSIVE)
_REWARD_WORK = ("reward_tuning", "reward_engineering")
_VERDICTS = {
    "valid_improvement": "accept",
    "baseline_established": "accept",
    "no_improvement": "reject",
    "inconclusive": "inconclusive",
    "provisional": "inconclusive",
    "invalid": "debug",
}
_RUN = "telic study run"


def next_step(study: Study) -> NextAction:
    """Return the next safe action and why; never takes it.

    A file that cannot be read has to be repaired first; the action names it.
    """
    try:
        return next(_due(study))
    except TelicError as error:
        ask = error.hint or "Restore the file from version control, or correct it."
        code = error.code if isinstance(error, StudyError) else None
        return NextAction(action="repair", why=error.message, blocking=(ask,), args={"code": code})


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


def _first(
    names: Sequence[str], action: ActionCode, what: str, why: str, command: str, *blocking: str
) -> Iterator[NextAction]:
    """Act on the first of some names."""
    if names:
        name = names[0]
        yield NextAction(
            action=action,
            args={what: name, "others": list(names[1:])},
            why=f"{name}: {why}",
            blocking=tuple(text.format(name) for text in blocking),
            command=command.format(name),
        )


def _with_status(study: Study, *statuses: CandidateStatus) -> list[str]:
    candidates = study.state.candidates.items()
    return [name for name, held in candidates if held.status in statuses]


# ---------------------------------------------------------------------------- obstacles


def _obstacles(study: Study) -> Iterator[NextAction]:
    """Yield what keeps the study from continuing at all."""
    state, folder = study.state, study.folder
    if broken := ledger_problems(study):
        verify = "telic study verify"
        yield NextAction(action="repair", why=broken[0], blocking=broken, command=verify)
    if state.study_status == "closed":
        why = "the study is closed; nothing more is launched"
        yield NextAction(action="stop", args={"rule": "closed"}, why=why)
    crashed = [run for run in state.active_runs if is_over(study, run)]
    why, command = "it ended or vanished and is not settled", _RUN
    yield from _first(crashed, "reconcile", "run", why, command)
    unmoved = [name for name in _with_status(study, S.LAUNCHED) if due_move(study, name)]
    why = "runs finished, status not updated"
    yield from _first(unmoved, "reconcile", "candidate", why, command)
    needed = (folder.adapter, folder.metric_spec, folder.protocol)
    unwritten = next((path.name for path in needed if not path.is_file()), None)
    is_agreed = state.contract_version is not None
    if is_agreed and unwritten is None:
        yield from _stopped(study, ("pause", "close"))
    if is_agreed and unwritten is not None:
        is_adapter = unwritten == "adapter.yaml"
        command = "telic study adapter --draft" if is_adapter else "telic study contract"
        ask = f"what belongs into {unwritten}?"
        why = f"{unwritten} is not written"
        yield NextAction(action="agree", why=why, blocking=(ask,), command=command)
    if not is_agreed:
        found = check_contract(study)
        problems = [each for each in found.problems if "contract amend" not in each]
        ask = "is contract.yaml what may be tried? (telic study contract)"
        asks = (*found.questions, *problems) or (ask,)
        why = "no contract has been agreed on"
        yield NextAction(action="agree", why=why, blocking=asks, command=AMEND)
    if problems := agreement_problems(study):
        is_amended = all("void" in each for each in problems)
        command = "telic study approve" if is_amended else AMEND
        ask = "a person agrees to it as it is now; or undo what was changed"
        blocking = (ask, *problems)
        yield NextAction(action="agree", why=problems[0], blocking=blocking, command=command)


def _unasked(study: Study) -> list[str]:
    """Return the live runs that nobody asked to stop yet."""
    live = study.state.active_runs
    return [run for run in live if RunProcess(study.folder.run(run)).stop_request is None]


def _stopped(study: Study, effects: tuple[str, ...]) -> Iterator[NextAction]:
    """Yield what to do about stop rules: end runs, wait for them, ask a person."""
    stops = [each for each in standing_stops(study) if each.effect in effects]
    if not stops:
        return
    stop, others = stops[0], tuple(f"{each.rule}: {each.why}" for each in stops)
    args: dict[str, Any] = {
        "rule": stop.rule,
        "effect": stop.effect,
        "kill_running": stop.kill_running,
    }
    kills = any(each.kill_running for each in stops)
    if kills and (runs := _unasked(study)):
        end = f"telic study run --stop {runs[0]}"
        args["run"] = runs[0]
        yield NextAction(action="stop", args=args, why=stop.why, blocking=others, command=end)
    if kills or stop.effect != "pause":
        yield from _waiting(study)
    if stop.effect not in ("pause", "ask"):
        more = "telic study contract --set PLACE=VALUE, then: telic study contract --amend TEXT"
        others = (*others, f"or a person allows more: {more}")
    command = _way_out(study, stop)
    yield NextAction(action="stop", args=args, why=stop.why, blocking=others, command=command)


def _way_out(study: Study, stop: Stop) -> str:
    """Return what continues a study after a stop, or ends it."""
    if stop.rule == "hacking_high" and (names := _unreviewed(study)):
        return REVIEW.format(names[0])
    words = "run --resume" if stop.effect in ("pause", "ask") else "report --close"
    return f"telic study {words} --because TEXT"


# ---------------------------------------------------------------------------- results


def _results(study: Study) -> Iterator[NextAction]:
    """Yield what to do about runs and their results."""
    state = study.state
    finished = [name for name, run in state.runs.items() if run.status == RunStatus.FINISHED]
    unmeasured = _without(study, "metrics", finished)
    for run in unmeasured:
        if why := altered_artefacts(study, run):
            yield NextAction(
                action="repair",
                args={"run": run},
                why=f"{run}: {why[0]}",
                blocking=("restore the file; if it is lost, the run is entered as unusable",),
                command=f"telic study audit {run} --unusable",
            )
    if state.automation.kill_fatal and state.active_runs:
        alerts = study.events_of("monitor.alert", about=state.active_runs)
        for run in _unasked(study):
            if signs := fatal_alerts(alerts, [run]):
                yield NextAction(
                    action="stop",
                    args={"run": run, "by": "monitor", "rule": "kill_fatal"},
                    why=f"{run}: {signs[0]}, and the contract ends such runs "
                    "(automation.kill_fatal)",
                    command=f"telic study run --stop {run}",
                )
    why = "it finished and was not measured"
    yield from _first(unmeasured, "ingest", "run", why, "telic study audit {}")
    last = {run: state.runs[run].intent_at for run in state.active_runs}
    for event in study.events_of("monitor.alert", about=state.active_runs):
        last[str(event.subject)] = event.at
    now = moment(utc_now())
    unwatched = [run for run, at in last.items() if now - moment(at) > WATCH_EVERY]
    why = "it runs, and was not monitored for a while"
    yield from _first(unwatched, "monitor", "run", why, "telic study audit {}")
    why = "its reward may be gamed; is it?"
    yield from _first(_unreviewed(study), "review", "candidate", why, REVIEW, *ask_for_review("{}"))
    why = "its runs are measured, its claim is not audited"
    yield from _first(_unaudited(study), "audit", "candidate", why, "telic study audit {}")


def _without(study: Study, kind: str, runs: Sequence[str]) -> list[str]:
    """Return the runs about which there is no evidence of a kind."""
    covered = {x.run for x in study.state.evidence.values() if x.kind == kind}
    return [run for run in runs if run not in covered]


def _unreviewed(study: Study) -> list[str]:
    """Return open candidates, as recorded, whose reward may be gamed and that nobody reviewed."""
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


def _claims(study: Study) -> list[str]:
    """Return completed candidates without a later phase: an audit decides about them."""
    return [each.candidate for each in _steps(study, "wait") if each.phase in _LAST_PHASES]


def _has_no_rival(study: Study, name: str) -> bool:
    return study.candidate_state(name).kind != "baseline" and study.incumbent is None


def _has_audit(study: Study, name: str) -> bool:
    """Return whether it was audited since it was completed, under the present protocol."""
    if not standing_audits(study, name):
        return False
    return study.audits(name)[-1].protocol_hash == (study.state.protocol_hash or "")


def _unaudited(study: Study) -> list[str]:
    """Return claims without audit whose control arm, where one is queued, has ended."""
    trusted = study.incumbent
    open_arms = {
        job.seed
        for job in _open_jobs(study)
        if trusted is not None and (job.candidate, job.phase) == (trusted.candidate, "promotion")
    }
    return [
        name
        for name in _claims(study)
        if not _has_audit(study, name)
        and not _has_no_rival(study, name)
        and not open_arms & {x.seed for x in study.state.runs_of(name, "promotion").values()}
    ]


def _doubts(study: Study) -> Iterator[NextAction]:
    """Yield more seeds for an incumbent whose gain was not confirmed, or ask a person."""
    found = check_incumbent(study)
    if found is None or found.outcome == "holds":
        return
    is_lost, name = found.outcome == "lost", found.candidate
    arms = [name, *([found.control] if found.control else [])]
    if not is_lost and seeds_fit(study, arms, "incumbent_validation", found.n):
        yield NextAction(
            action="plan",
            args={"candidate": name, "more_seeds": True},
            why=found.why,
            command=_RUN,
        )
    revert, keep = take_back(study, name), f"telic study decide {name} keep --because TEXT"
    first, second = (revert, keep) if is_lost else (keep, revert)
    yield NextAction(
        action="decide",
        args={"candidate": name, "verdict": "revert" if is_lost else "keep"},
        why=found.why,
        blocking=(f"a person decides; instead: {second}",),
        command=first,
    )


def _exploits(study: Study) -> dict[str, str]:
    """Return candidates without live runs, and the incumbent, that a review calls an exploit."""
    state, trusted = study.state, study.incumbent
    running = {state.runs[run].candidate for run in state.active_runs}
    is_trusted = "" if trusted is None else trusted.candidate
    return {
        name: finding
        for name, held in state.candidates.items()
        if ((held.status not in _OVER and name not in running) or name == is_trusted)
        and (finding := standing_exploit(study, name))
    }


def _objections(study: Study) -> Iterator[NextAction]:
    """Yield the end of candidates that a reviewer or their own condition refutes."""
    found = [(name, "exploit", why) for name, why in _exploits(study).items()]
    found += [
        (name, result.cause, result.why)
        for name in study.state.candidates
        for result in judge_conditions(study, name)
        if result.is_met
    ]
    for name, cause, why in found:
        verdict, instead, status = "reject", (), study.candidate_state(name).status
        command = WITHDRAW.format(name)
        if status == S.ACCEPTED:
            verdict, command = "revert", take_back(study, name)
            instead = ("a person takes it back",)
        elif status in (S.COMPLETED, S.DEBUG):
            command = f"telic study decide {name} reject --cause {cause} --because TEXT"
        if cause == "exploit":
            instead = (f"a person may approve it anyway: {APPROVE_CANDIDATE.format(name)}",)
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "cause": cause},
            why=f"{name}: {why}",
            blocking=instead,
            command=command,
        )


def _verdicts(study: Study) -> Iterator[NextAction]:
    """Yield the decisions that audits, used-up attempts and phase rules suggest."""
    state = study.state
    for name in _claims(study):
        if not _has_audit(study, name):
            continue
        audit, phase = study.audits(name)[-1], study.candidate_state(name).phase
        verdict, said = _VERDICTS[audit.verdict], f"{audit.id} says {audit.verdict}"
        n = audit.arms["x"].n
        if verdict == "inconclusive" and phase and seeds_fit(study, [name], phase, n):
            yield NextAction(
                action="advance",
                args={"candidate": name, "more_seeds": True},
                why=f"{said}, and more seeds fit the budget",
                command=f"telic study decide {name} more-seeds --because TEXT",
            )
        asks = state.automation.decide != "auto" and verdict == "accept"
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "audit": audit.id},
            why=said,
            blocking=("a person accepts (automation.decide: ask)",) if asks else (),
            command=f"telic study decide {name} {verdict} --audit {audit.id} --because TEXT",
        )
    for name in _with_status(study, S.DEBUG):
        if not _may_be_mended(study, name):
            yield _decision(name, "reject", f"{name}: every attempt to mend it was used")
    for each in _steps(study, "wait"):
        if why := _why_unclaimed(study, each):
            yield _decision(each.candidate, "inconclusive", f"{each.candidate}: {why}")
    mend = "mend metric_spec.yaml, then: telic study contract --amend TEXT, telic study audit RUN"
    for each in _steps(study, "unreadable", "hold"):
        asks = (f"is it given up, or can its log be read otherwise? {mend}",)
        blocking = asks if each.verdict == "unreadable" else ()
        why = f"{each.phase}: {each.why}"
        yield _decision(each.candidate, "reject", why, "phase_rule", blocking)


def _decision(
    name: str, verdict: str, why: str, cause: str | None = None, blocking: tuple[str, ...] = ()
) -> NextAction:
    said = f" --cause {cause}" if cause else ""
    return NextAction(
        action="decide",
        args={"candidate": name, "verdict": verdict, **({"cause": cause} if cause else {})},
        why=why,
        blocking=blocking,
        command=f"telic study decide {name} {verdict}{said} --because TEXT",
    )


def _why_unclaimed(study: Study, step: PhaseStep) -> str | None:
    """Return why no audit can decide about a completed candidate; None when one can."""
    name, phase = step.candidate, step.phase
    if standing_audits(study, name):
        return None
    if phase in _LAST_PHASES:
        nobody = "under the present protocol there is no incumbent to compare with"
        return nobody if _has_no_rival(study, name) else None
    later = phase and next_phase(phase, study.candidate(name).plan.phases)
    return None if later else "its plan ends before anything could be claimed"


def _may_be_mended(study: Study, candidate: str) -> bool:
    state = study.state
    return state.candidates[candidate].debug_attempts < state.automation.max_debug_attempts


# ---------------------------------------------------------------------------- work and ideas


def _work(study: Study) -> Iterator[NextAction]:
    """Yield what moves the open candidates forward."""
    for each in _steps(study, "advance"):
        args = {"candidate": each.candidate, "phase": each.to}
        command = _RUN
        yield NextAction(action="advance", args=args, why=each.why, command=command)
    why = "reward work starts from what its terms did"
    yield from _first(_unreflected(study), "reflect", "run", why, "telic study audit {}")
    barred = _exploits(study)
    ready = [x for x in study.jobs if x.status == "ready" and x.candidate not in barred]
    waits = ready or _with_status(study, S.DRAFT, S.VALIDATED)
    # Before anything is checked or given up for it: no revision of a candidate mends that.
    if waits and (changed := changed_evaluators(study, study.root)):
        yield NextAction(
            action="ask",
            args={"gate": "G19"},
            why=f"{', '.join(changed)} is not the evaluator of the protocol",
            blocking=(EVALUATOR_CHANGED,),
        )
    for name in _with_status(study, S.VALIDATED):
        if changed := ", ".join(changed_since(study, name)):
            why = f"{changed} changed since it was validated"
            yield from _first([name], "validate", "candidate", why, _RUN)
    if ready:
        yield from _launch(study, ready)
    yield from _incumbent_check(study)
    open_jobs = {(job.candidate, job.phase) for job in _open_jobs(study)}
    held = study.state.candidates
    idle = [x for x in _with_status(study, S.VALIDATED) if (x, held[x].phase) not in open_jobs]
    give_up = f"or withdraw it: {WITHDRAW}"
    why = "all its jobs are over and it was not completed; revise it or withdraw it"
    yield from _first(idle, "mend", "candidate", why, REVISE, give_up)
    faults = {name: _fault(study, name) for name in _with_status(study, S.DRAFT)}
    why = "it is a draft that was not checked yet"
    sound = [name for name, fault in faults.items() if fault is None]
    yield from _first(sound, "validate", "candidate", why, _RUN)
    faulty = [name for name, fault in faults.items() if fault]
    why = (faults[faulty[0]] if faulty else "") or ""
    yield from _first(faulty, "mend", "candidate", why, REVISE, give_up)
    broken = [name for name in _with_status(study, S.DEBUG) if _may_be_mended(study, name)]
    give_up = "or a person gives it up: telic study decide {} reject --because TEXT"
    yield from _first(
        broken, "mend", "candidate", "it failed; mend it or give it up", REVISE, give_up
    )


def _unreflected(study: Study) -> list[str]:
    """Return finished runs of reward work whose logged terms were not reflected on."""
    state, terms = study.state, {each.key for each in study.metric_spec.components}
    runs = [
        name
        for name, run in state.runs.items()
        if run.status == RunStatus.FINISHED
        and run.phase != "smoke"
        and state.candidates[run.candidate].kind in _REWARD_WORK
    ]
    return [
        run
        for run in _without(study, "reflection", runs)
        if (sheet := measured(study, run)) is not None
        and not sheet.problem
        and not terms.isdisjoint(sheet.curves)
    ]


def _fault(study: Study, draft: str) -> str | None:
    """Return the first check that a draft fails."""
    failed = (each for each in check_candidate(study, draft) if not each.passed)
    return next((f"{each.id}: {each.why}" for each in failed), None)


def _launch(study: Study, ready: Sequence[Job]) -> Iterator[NextAction]:
    """Yield the launch of the first ready job, or what its first shut gate needs."""
    state, job = study.state, ready[0]
    if found := remedy_for(study, job):
        is_running = any(state.runs[run].candidate == job.candidate for run in state.active_runs)
        if found.args["gate"] == "G16" or (found.action == "abandon" and is_running):
            yield from _waiting(study)  # a live run has to end first
        yield found
    yield NextAction(
        action="launch",
        args={
            **job.model_dump(include={"candidate", "phase", "seed", "gpu"}),
            "retry_of": job.run_id,
        },
        why=f"{job.name} is ready",
        command=f"{_RUN} {job.candidate} --phase {job.phase} --seed {job.seed} --confirm {TOKEN}",
    )


def _open_jobs(study: Study) -> list[Job]:
    return [job for job in study.jobs if job.status not in JOB_OVER]


def _incumbent_check(study: Study) -> Iterator[NextAction]:
    """Yield the check of an incumbent's claim on fresh seeds, if it was not checked yet."""
    trusted = study.incumbent
    if trusted is None or is_checked(study):
        return
    name = trusted.candidate
    before = study.state.previous_incumbent(name)
    arms = [name, *([before.candidate] if before else [])]
    if seeds_fit(study, arms, "incumbent_validation", 0):
        why = "its claim was not checked on fresh seeds"
        yield from _first([name], "plan", "candidate", why, _RUN)
    yield NextAction(
        action="decide",
        args={"candidate": name, "verdict": "keep"},
        why=f"{name}: no fresh seeds or no budget are left to check its claim with",
        blocking=("a person trusts it unchecked, or allows more seeds in the contract",),
        command=f"telic study decide {name} keep --because TEXT",
    )


def _ideas(study: Study) -> Iterator[NextAction]:
    """Yield what is left when nothing else is: an idea, patience, or a question."""
    state = study.state
    is_idle = all(held.status in _OVER for held in state.candidates.values())
    if study.incumbent is None and is_idle:
        yield NextAction(
            action="propose",
            args={"kind": "baseline"},
            why="nothing can be compared before a baseline is measured",
            command=_RUN,
        )
    # A live run may be the check of the incumbent that an idea would start from.
    if study.incumbent is not None and is_idle and not state.active_runs:
        yield NextAction(
            action="propose",
            args={"role": "candidate_proposer"},
            why="no candidate is open",
            command="telic study propose FILE",
        )
    yield from _waiting(study)
    names = [name for name, held in state.candidates.items() if held.status not in _OVER]
    why, asks = "no rule says what to do with what is open", ("what should become of it?",)
    yield NextAction(action="ask", args={"candidates": names}, why=why, blocking=asks)


def _waiting(study: Study) -> Iterator[NextAction]:
    if live := study.state.active_runs:
        yield NextAction(action="wait", args={"runs": list(live)}, why="runs are under way")
