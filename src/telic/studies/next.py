"""The next safe action of a study: the first thing that applies, in a fixed order.

Nothing is done here and nothing is started: whoever asks gets the exact command and the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal

from pydantic import Field

from telic.studies.documents.base import DocumentPart
from telic.studies.documents.candidate import CandidateStatus
from telic.studies.launch.attempt import TOKEN
from telic.studies.outlook import Outlook
from telic.studies.projector import save_next
from telic.studies.rules.stops import Stop, ledger_problems, record_findings
from telic.studies.state import WorkSource
from telic.studies.study import Study

_REVIEW = "telic study review {} --exploit --says TEXT"
_VERDICTS = {
    "valid_improvement": "accept",
    "baseline_established": "accept",
    "no_improvement": "reject",
    "inconclusive": "inconclusive",
    "provisional": "inconclusive",
    "invalid": "debug",
}
ActionCode = Literal[
    "repair",
    "stop",
    "agree",
    "reconcile",
    "ingest",
    "monitor",
    "review",
    "audit",
    "decide",
    "advance",
    "reflect",
    "plan",
    "launch",
    "validate",
    "mend",
    "propose",
    "wait",
    "ask",
]


class NextAction(DocumentPart):
    """What to do next, with what, and why."""

    action: ActionCode
    args: dict[str, Any] = Field(default={})
    why: str
    blocking: tuple[str, ...] = ()
    """what a person has to settle before it can be done"""
    command: str | None = None
    """what to type"""


def next_step(study: Study) -> NextAction:
    """Return the next safe action and why; never does it."""
    if not ledger_problems(study) and study.source is not None:
        return _after_import(study, study.source)
    return next_action(Outlook(study))


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
    closed = [event for event in study.events if event.type == "study.status"]
    if closed and closed[-1].data["status"] == "closed":
        why = f"the {source.kind} {source.name} has ended: {closed[-1].data['reason']}"
        return NextAction(action="stop", why=why, args={"source": source.name})
    return NextAction(
        action="wait",
        args={"source": source.name},
        why=f"the {source.kind} {source.name} has not ended; its runs are made by "
        f"{source.continues_with}",
        command=f"telic study from {source.path}",
    )


def next_action(outlook: Outlook) -> NextAction:
    """Return the first thing that applies."""
    return next(_due(outlook))


def _due(o: Outlook) -> Iterator[NextAction]:
    """Give what applies, the most urgent first; only so much is looked at as is taken."""
    yield from _obstacles(o)
    yield from _results(o)
    yield from _doubts(o)
    yield from _objections(o)
    yield from _verdicts(o)
    yield from _work(o)
    yield from _ideas(o)


def _first(
    names: Sequence[str], action: ActionCode, what: str, why: str, command: str, *blocking: str
) -> Iterator[NextAction]:
    """Act on the first of some names."""
    if names:
        yield NextAction(
            action=action,
            args={what: names[0], "others": list(names[1:])},
            why=f"{names[0]}: {why}",
            blocking=blocking,
            command=command.format(names[0]),
        )


def _obstacles(o: Outlook) -> Iterator[NextAction]:
    """Give what keeps the study from going on at all."""
    if o.integrity:
        verify = "telic study ledger verify"
        why = o.integrity[0]
        yield NextAction(action="repair", why=why, blocking=o.integrity, command=verify)
    if o.is_closed:
        why = "the study is closed; nothing more is launched"
        yield NextAction(action="stop", args={"rule": "closed"}, why=why)
    if o.stops:
        stop = o.stops[0]
        yield NextAction(
            action="stop",
            args={"rule": stop.rule, "effect": stop.effect, "kill_running": stop.kill_running},
            why=stop.why,
            blocking=tuple(f"{each.rule}: {each.why}" for each in o.stops),
            command=_way_out(o, stop),
        )
    if o.unwritten is not None and o.is_agreed:
        scans = o.unwritten == "adapter.yaml"
        command = "telic study audit --write" if scans else "telic study contract check"
        yield NextAction(action="agree", why=f"{o.unwritten} is not written", command=command)
    if not o.is_agreed:
        why = "no contract has been agreed on"
        yield NextAction(action="agree", why=why, command="telic study contract check")


def _way_out(o: Outlook, stop: Stop) -> str | None:
    """Return what lets a study go on after a stop, where something does."""
    if stop.rule == "hacking_high" and o.unreviewed:
        return _REVIEW.format(o.unreviewed[0])
    verb = {"pause": "resume", "close": "close"}.get(stop.effect)
    return None if verb is None else f"telic study {verb} --reason TEXT"


def _results(o: Outlook) -> Iterator[NextAction]:
    """Give what is to be done about runs and what they came to."""
    why = "it ended or vanished and is not settled"
    yield from _first(o.crashed, "reconcile", "run", why, "telic study run --reconcile")
    why = "it finished and was not measured"
    yield from _first(o.unmeasured, "ingest", "run", why, "telic study analyze {}")
    why = "it runs, and nobody looked at it for a while"
    yield from _first(o.unwatched, "monitor", "run", why, "telic study monitor {}")
    why = "its reward may be gamed; is it?"
    asked = "somebody else than its author says whether it is (--no-exploit: it is not)"
    yield from _first(o.unreviewed, "review", "candidate", why, _REVIEW, asked)
    why = "its runs are measured, its claim is not audited"
    yield from _first(o.unaudited, "audit", "candidate", why, "telic study audit-result {}")


# ---------------------------------------------------------------------------- decisions


def _doubts(o: Outlook) -> Iterator[NextAction]:
    """Give the incumbent whose gain did not show again more seeds, or hand it to a person."""
    doubt = o.doubted
    if doubt is None:
        return
    if not doubt.is_lost and doubt.can_have_seeds:
        yield NextAction(
            action="plan",
            args={"candidate": doubt.candidate, "more_seeds": True},
            why=doubt.why,
            command="telic study queue check-incumbent",
        )
    revert = f"telic study revert {doubt.candidate} --because TEXT"
    keep = f"telic study decide {doubt.candidate} keep --because TEXT"
    first, second = (revert, keep) if doubt.is_lost else (keep, revert)
    yield NextAction(
        action="decide",
        args={"candidate": doubt.candidate, "verdict": "revert" if doubt.is_lost else "keep"},
        why=doubt.why,
        blocking=(f"a person decides; instead: {second}",),
        command=first,
    )


def _objections(o: Outlook) -> Iterator[NextAction]:
    """Give up what a reviewer or the author's own condition speaks against."""
    for objection in (*o.exploits, *o.disproved):
        name, verdict, instead = objection.candidate, "reject", ()
        if objection.status == CandidateStatus.ACCEPTED:
            verdict, command = "revert", f"telic study revert {name} --because TEXT"
        elif objection.status == CandidateStatus.COMPLETED:
            command = f"telic study decide {name} reject --cause {objection.cause} --because TEXT"
        else:
            command = f"telic study candidate withdraw {name} --because TEXT"
        if objection.cause == "exploit":
            anyway = f"telic study approve experiment --candidate {name}"
            instead = (f"a person may let it run all the same: {anyway}",)
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "cause": objection.cause},
            why=f"{name}: {objection.why}",
            blocking=instead,
            command=command,
        )


def _verdicts(o: Outlook) -> Iterator[NextAction]:
    """Give the decisions that audits, used-up attempts and the rules of phases suggest."""
    for claim in o.judged:
        name, verdict = claim.candidate, _VERDICTS[claim.verdict]
        if claim.can_have_seeds and verdict == "inconclusive":
            yield NextAction(
                action="advance",
                args={"candidate": name, "more_seeds": True},
                why=f"{claim.audit} says {claim.verdict}, and more seeds fit the budget",
                command=f"telic study queue more-seeds {name} --because TEXT",
            )
        asks = claim.falls_to_people and verdict == "accept"
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": verdict, "audit": claim.audit},
            why=f"{claim.audit} says {claim.verdict}",
            blocking=("a person accepts (automation.decide: ask)",) if asks else (),
            command=f"telic study decide {name} {verdict} --audit {claim.audit} --because TEXT",
        )
    for name in o.given_up:
        yield NextAction(
            action="decide",
            args={"candidate": name, "verdict": "reject"},
            why=f"{name}: every attempt to mend it was used",
            command=f"telic study decide {name} reject --because TEXT",
        )
    for step in o.stuck:
        yield NextAction(
            action="decide",
            args={"candidate": step.candidate, "verdict": "reject", "cause": "phase_rule"},
            why=f"{step.phase}: {step.why}",
            command=f"telic study decide {step.candidate} reject --cause phase_rule --because TEXT",
        )


# ---------------------------------------------------------------------------- work and ideas


def _work(o: Outlook) -> Iterator[NextAction]:
    """Give what brings the open candidates on."""
    for step in o.passing:
        args = {"candidate": step.candidate, "phase": step.to}
        advance = "telic study queue advance"
        yield NextAction(action="advance", args=args, why=step.why, command=advance)
    why = "reward work goes on from what its terms did"
    yield from _first(o.unreflected, "reflect", "run", why, "telic study reflect {}")
    yield from _launch(o)
    if o.unchecked:
        yield NextAction(
            action="plan",
            args={"candidate": o.unchecked},
            why=f"{o.unchecked}: its claim was not checked on fresh seeds",
            command="telic study queue check-incumbent",
        )
    why = "it is validated and has no jobs"
    yield from _first(o.unplanned, "plan", "candidate", why, "telic study queue plan {}")
    why = "it is a draft that was not checked yet"
    yield from _first(o.drafts, "validate", "candidate", why, "telic study candidate validate {}")
    revise = "telic study candidate revise {} --draft FILE"
    names = [name for name, _ in o.faulty]
    yield from _first(names, "mend", "candidate", o.faulty[0][1] if names else "", revise)
    why = "it failed; mend it or give it up"
    yield from _first(o.broken, "mend", "candidate", why, revise)


def _launch(o: Outlook) -> Iterator[NextAction]:
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
            blocking=o.launch_blocks,
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
    if o.live:
        yield NextAction(action="wait", args={"runs": list(o.live)}, why="runs are under way")
    yield NextAction(
        action="ask",
        args={"candidates": list(o.open_candidates)},
        why="no rule says what to do with what is open",
        blocking=o.launch_blocks,
    )
