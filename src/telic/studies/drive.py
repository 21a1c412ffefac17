"""Take every next step that needs neither a person nor an author, and stop with one question."""

from __future__ import annotations

import time
from collections.abc import Iterator

from telic.studies.candidates import new_candidate, withdraw
from telic.studies.contract import amend, check_contract
from telic.studies.decide import decide
from telic.studies.documents.base import StudyActor
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.monitor import monitor_run
from telic.studies.evidence.reflection import reflect_run
from telic.studies.launch.attempt import LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile, stop_run
from telic.studies.next import NextAction, note_next
from telic.studies.queue import TOKEN, more_seeds, plan_incumbent_check
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import advance
from telic.studies.rules.stops import ingest
from telic.studies.study import Study

_POLL_S = 0.1


def needs_somebody(step: NextAction) -> bool:
    """Return whether a step needs a person or an author."""
    match step.action:
        case "propose":
            return step.args.get("kind") != "baseline"
        case "stop":
            return "run" not in step.args
        case "decide":
            return bool(step.blocking) or step.args["verdict"] in ("accept", "revert", "keep")
        case _:
            return step.action in ("agree", "ask", "repair", "review", "mend")


def go(
    study: Study, actor: StudyActor, *, may_launch: bool, processes: bool = True
) -> Iterator[NextAction]:
    """Yield each step before it is taken; the last one is left to a person or an author.

    Without `may_launch` it ends at the first launch; without `processes` no scheduler is queried.
    """
    while True:
        step = note_next(study)
        yield step
        if step.action == "launch" and not may_launch:
            return
        if needs_somebody(step) and not _may_agree(study, step):
            return
        if step.action == "reconcile" and not processes:
            reconcile(study)
        else:
            take_step(study, step, actor)


def _may_agree(study: Study, step: NextAction) -> bool:
    """Return whether a first contract can be recorded: no question, no approval yet."""
    state = study.state
    if step.action != "agree" or state.contract_version is not None or state.approvals:
        return False
    found = check_contract(study)
    return not found.questions and len(found.problems) == 1  # it is not agreed on yet


def take_step(study: Study, step: NextAction, actor: StudyActor) -> None:
    """Take one step that needs neither a person nor an author."""
    args, why = step.args, step.why
    candidate, run = args.get("candidate", ""), args.get("run", "")
    match step.action:
        case "agree":
            amend(study, actor, "first version")
        case "reconcile":
            reconcile(study, processes=True)
        case "wait":
            time.sleep(_POLL_S)
            reconcile(study, processes=True)
        case "ingest":
            ingest(study, run, actor)
        case "monitor":
            monitor_run(study, run, actor)
        case "reflect":
            reflect_run(study, run, actor)
        case "stop":
            stop_run(study, run, args.get("by", "stop_rule"), why)
        case _:
            _take_candidate_step(study, step, candidate, actor)


def _take_candidate_step(study: Study, step: NextAction, candidate: str, actor: StudyActor) -> None:
    args, why = step.args, step.why
    match step.action:
        case "audit":
            audit_result(study, candidate, actor)
        case "decide":
            audit, cause = args.get("audit"), args.get("cause")
            decide(study, candidate, args["verdict"], actor, why, audit=audit, cause=cause)
        case "advance" if args.get("more_seeds"):
            more_seeds(study, candidate, actor, why)
        case "advance":
            advance(study)
        case "plan":
            plan_incumbent_check(study, actor)
        case "validate":
            validate_candidate(study, candidate)
        case "abandon":
            withdraw(study, candidate, actor, why)
        case "propose":
            new_candidate(study, "baseline", {"kind": "baseline"}, actor)
        case "launch":
            fields = {key: args[key] for key in ("candidate", "phase", "seed", "gpu", "retry_of")}
            launch(study, LaunchRequest(**fields, execute=True, confirm=TOKEN), actor)
        case action:
            raise ValueError(f"{action} is not a step that can be taken here")
