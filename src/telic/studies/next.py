"""The next safe action of a study: the first thing that applies, in a fixed order.

Nothing is done here and nothing is started: whoever asks gets the exact command and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from telic.errors import TelicError
from telic.studies.errors import StudyError
from telic.studies.evidence.review import REVIEW, ask_for_review
from telic.studies.next_decisions import NextAction, doubts, first_of, objections, verdicts
from telic.studies.outlook import Outlook
from telic.studies.queue import TOKEN
from telic.studies.rules.stops import Stop, ledger_problems, record_findings
from telic.studies.state import WorkSource
from telic.studies.state_file import save_next
from telic.studies.study import Study

_REVISE = "telic study candidate revise {} --draft FILE"


def next_step(study: Study) -> NextAction:
    """Return the next safe action and why; never does it.

    A file that cannot be read is named, and what to do about it: that is the next thing, then.
    """
    try:
        if not ledger_problems(study) and study.source is not None:
            return _after_import(study, study.source)
        return next_action(Outlook(study))
    except TelicError as error:
        ask = error.hint or "Restore the file from version control, or correct it."
        return NextAction(
            action="repair", why=error.message, blocking=(ask,), args={"code": _code(error)}
        )


def _code(error: TelicError) -> str | None:
    return error.code if isinstance(error, StudyError) else None


def note_next(study: Study) -> NextAction:
    """Return the next safe action, and leave it in state.json for whoever reads only that.

    Stop rules that fired and conditions that spoke since the last time are written down, too.
    """
    action = next_step(study)
    is_made_here = action.action not in ("repair", "agree") and study.source is None
    if is_made_here and record_findings(study):
        action = next_step(study)
    if action.action != "repair":
        with study.locked():
            save_next(study.folder, study.state, action.as_data())
    return action


def _after_import(study: Study, source: WorkSource) -> NextAction:
    """Return what to do with a study whose work is done elsewhere."""
    closed = study.events_of("study.status")
    if closed and closed[-1].data["status"] == "closed":
        why = f"the {source.kind} {source.name} has ended: {closed[-1].data['reason']}"
        return NextAction(action="stop", why=why, args={"source": source.name})
    return NextAction(
        action="wait",
        args={"source": source.name},
        why=f"the {source.kind} {source.name} has not ended; its runs are made by "
        f"{source.continues_with}",
    )


def next_action(outlook: Outlook) -> NextAction:
    """Return the first thing that applies."""
    return next(_due(outlook))


def _due(o: Outlook) -> Iterator[NextAction]:
    """Give what applies, the most urgent first; only so much is looked at as is taken."""
    yield from _obstacles(o)
    yield from _results(o)
    yield from doubts(o)
    yield from objections(o)
    yield from verdicts(o)
    yield from _limits(o)
    yield from _work(o)
    yield from _ideas(o)


def _obstacles(o: Outlook) -> Iterator[NextAction]:
    """Give what keeps the study from going on at all."""
    if o.integrity:
        verify = "telic study ledger verify"
        why = o.integrity[0]
        yield NextAction(action="repair", why=why, blocking=o.integrity, command=verify)
    if o.is_closed:
        why = "the study is closed; nothing more is launched"
        yield NextAction(action="stop", args={"rule": "closed"}, why=why)
    why = "it ended or vanished and is not settled"
    yield from first_of(o.crashed, "reconcile", "run", why, "telic study run --reconcile")
    why = "its runs are over, and it was not sent on"
    yield from first_of(o.unmoved, "reconcile", "candidate", why, "telic study run --reconcile")
    why = "its reward may be gamed, and its files were edited: what ran is to be reviewed"
    put_back = "the files are put back; what they say now can be a candidate of its own"
    rebuild = "telic study state --rebuild"
    yield from first_of(o.disguised, "repair", "candidate", why, rebuild, put_back)
    yield from _stopped(o, [each for each in o.stops if each.effect in ("pause", "close")])
    if o.unwritten is not None and o.is_agreed:
        scans = o.unwritten == "adapter.yaml"
        command = "telic study adapter --draft" if scans else "telic study contract check"
        ask = f"what belongs into {o.unwritten}?"
        yield NextAction(
            action="agree", why=f"{o.unwritten} is not written", blocking=(ask,), command=command
        )
    if not o.is_agreed:
        why, command = "no contract has been agreed on", "telic study contract amend --reason TEXT"
        ask = "is contract.yaml what may be tried? (telic study contract check)"
        asks = o.contract_questions or (ask,)
        yield NextAction(action="agree", why=why, blocking=asks, command=command)
    if o.disagreement:
        keys = "telic study approve"
        command = keys if o.is_amended else "telic study contract amend --reason TEXT"
        ask = "a person agrees to it as it is now; or undo what was changed"
        why, blocking = o.disagreement[0], (ask, *o.disagreement)
        yield NextAction(action="agree", why=why, blocking=blocking, command=command)


def _stopped(o: Outlook, stops: Sequence[Stop]) -> Iterator[NextAction]:
    """Give what is to be done about rules that say stop: end runs, wait for them, ask a person."""
    if not stops:
        return
    stop, others = stops[0], tuple(f"{each.rule}: {each.why}" for each in stops)
    args = {"rule": stop.rule, "effect": stop.effect, "kill_running": stop.kill_running}
    kills = any(each.kill_running for each in stops)
    if kills and o.unasked:
        end = f"telic study run --stop {o.unasked[0]} --stopped-by stop_rule"
        args["run"] = o.unasked[0]
        yield NextAction(action="stop", args=args, why=stop.why, blocking=others, command=end)
    if o.live and (kills or stop.effect != "pause"):
        yield from _waiting(o)
    out = _way_out(o, stop)
    yield NextAction(
        action="stop", args=args, why=stop.why, blocking=(*others, *_instead(stop)), command=out
    )


def _way_out(o: Outlook, stop: Stop) -> str:
    """Return what lets a study go on after a stop, or ends it."""
    if stop.rule == "hacking_high" and o.unreviewed:
        return REVIEW.format(o.unreviewed[0])
    verb = "resume" if stop.effect in ("pause", "ask") else "close"
    return f"telic study {verb} --reason TEXT"


def _instead(stop: Stop) -> tuple[str, ...]:
    if stop.effect in ("pause", "ask"):
        return ()
    more = "telic study contract draft --set PLACE=VALUE, then: telic study contract amend"
    return (f"or a person allows more: {more} --reason TEXT",)


def _limits(o: Outlook) -> Iterator[NextAction]:
    """Give what ends new work and lets the old come to its end."""
    yield from _stopped(o, [each for each in o.stops if each.effect in ("stop", "ask")])


def _results(o: Outlook) -> Iterator[NextAction]:
    """Give what is to be done about runs and what they came to."""
    for run, said in o.changed_runs:
        yield NextAction(
            action="repair",
            args={"run": run},
            why=f"{run}: {said}",
            blocking=("restore the file; if it is lost, the run is given up as unusable",),
            command=f"telic study analyze {run} --unusable",
        )
    for run, sign in o.doomed:
        yield NextAction(
            action="stop",
            args={"run": run, "by": "monitor", "rule": "kill_fatal"},
            why=f"{run}: {sign}, and the contract ends such runs (automation.kill_fatal)",
            command=f"telic study run --stop {run} --stopped-by monitor",
        )
    why = "it finished and was not measured"
    yield from first_of(o.unmeasured, "ingest", "run", why, "telic study analyze {}")
    why = "it runs, and nobody looked at it for a while"
    yield from first_of(o.unwatched, "monitor", "run", why, "telic study monitor {}")
    why = "its reward may be gamed; is it?"
    for_people = ask_for_review(o.unreviewed[0]) if o.unreviewed else ()
    yield from first_of(o.unreviewed, "review", "candidate", why, REVIEW, *for_people)
    why = "its runs are measured, its claim is not audited"
    yield from first_of(o.unaudited, "audit", "candidate", why, "telic study audit-result {}")


# ---------------------------------------------------------------------------- work and ideas


def _work(o: Outlook) -> Iterator[NextAction]:
    """Give what brings the open candidates on."""
    for step in o.passing:
        args = {"candidate": step.candidate, "phase": step.to}
        advance = "telic study queue advance"
        yield NextAction(action="advance", args=args, why=step.why, command=advance)
    why = "reward work goes on from what its terms did"
    yield from first_of(o.unreflected, "reflect", "run", why, "telic study reflect {}")
    if o.changed_evaluators:
        from telic.studies.rules.remedies import EVALUATOR_CHANGED

        # Before anything is checked or given up for it: no revision of a candidate mends that.
        yield NextAction(
            action="ask",
            args={"gate": "G19"},
            why=f"{', '.join(o.changed_evaluators)} is not the evaluator of the protocol",
            blocking=(EVALUATOR_CHANGED,),
        )
    for name, changed in o.stale:
        yield NextAction(
            action="validate",
            args={"candidate": name},
            why=f"{name}: {changed} changed since it was validated",
            command=f"telic study candidate validate {name}",
        )
    yield from _launch(o)
    if o.unchecked and not o.can_be_checked:
        keep = f"telic study decide {o.unchecked} keep --because TEXT"
        yield NextAction(
            action="decide",
            args={"candidate": o.unchecked, "verdict": "keep"},
            why=f"{o.unchecked}: no fresh seeds or no budget are left to check its claim with",
            blocking=("a person trusts it unchecked, or allows more seeds in the contract",),
            command=keep,
        )
    if o.unchecked:
        yield NextAction(
            action="plan",
            args={"candidate": o.unchecked},
            why=f"{o.unchecked}: its claim was not checked on fresh seeds",
            command="telic study queue check-incumbent",
        )
    why = "it is validated and has no jobs"
    yield from first_of(o.unplanned, "plan", "candidate", why, "telic study queue plan {}")
    why = "all its jobs are over and it was not completed; revise it or give it up"
    yield from first_of(o.idle, "mend", "candidate", why, _REVISE, _give_up(o.idle))
    why = "it is a draft that was not checked yet"
    yield from first_of(o.drafts, "validate", "candidate", why, "telic study candidate validate {}")
    names = [name for name, _ in o.faulty]
    why = o.faulty[0][1] if names else ""
    yield from first_of(names, "mend", "candidate", why, _REVISE, _give_up(names))
    why = "it failed; mend it or give it up"
    yield from first_of(o.broken, "mend", "candidate", why, _REVISE, _give_up(o.broken, "decide"))


def _give_up(names: Sequence[str], verb: str = "withdraw") -> str:
    """Return the way out for whoever does not want to mend a candidate."""
    if not names:
        return ""
    if verb == "decide":
        return f"or a person gives it up: telic study decide {names[0]} reject --because TEXT"
    return f"or give it up: telic study candidate withdraw {names[0]} --because TEXT"


def _launch(o: Outlook) -> Iterator[NextAction]:
    if o.remedy:
        found = o.remedy
        is_given_up = found.action == "abandon" and o.is_running(str(found.args["candidate"]))
        if is_given_up or found.args.get("gate") == "G16":
            yield from _waiting(o)  # a run that goes on has to end first
        yield NextAction(
            action=found.action,
            args=dict(found.args),
            why=found.why,
            blocking=found.asks,
            command=found.command,
        )
    for ready in o.ready:
        job = ready.job
        retry = f" --retry-of {ready.retry_of}" if ready.retry_of else ""
        yield NextAction(
            action="launch",
            args={
                "candidate": job.candidate,
                "phase": job.phase,
                "seed": job.seed,
                "gpu": job.slot.gpu,
                "retry_of": ready.retry_of,
            },
            why=f"{job.job_id} is ready",
            command=f"telic study run {job.candidate} --phase {job.phase} --seed {job.seed}{retry} "
            f"--execute --confirm {TOKEN}",
        )


def _ideas(o: Outlook) -> Iterator[NextAction]:
    """Give what is left when nothing else is: an idea, patience, or a question."""
    if not o.has_baseline and not o.open_candidates:
        yield NextAction(
            action="propose",
            args={"kind": "baseline"},
            why="nothing can be compared before a baseline is measured",
            command="telic study baseline",
        )
    # A live run may be the check of the incumbent that an idea would start from.
    if o.has_baseline and not o.open_candidates and not o.live:
        yield NextAction(
            action="propose",
            args={"role": "candidate_proposer"},
            why="nothing is left to do with the candidates that there are",
            command="telic study candidate new TITLE --kind KIND --set PATH=VALUE",
        )
    yield from _waiting(o)
    yield NextAction(
        action="ask",
        args={"candidates": list(o.open_candidates)},
        why="no rule says what to do with what is open",
        blocking=("what shall become of it?",),
    )


def _waiting(o: Outlook) -> Iterator[NextAction]:
    if o.live:
        yield NextAction(action="wait", args={"runs": list(o.live)}, why="runs are under way")
