"""Take every next step that needs neither a person nor an author, and stop with one question."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

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

LOOK_EVERY_S = 0.1
_NEEDS_SOMEBODY = ("agree", "ask", "repair", "review", "mend")


def needs_somebody(said: NextAction) -> bool:
    """Return whether a step needs a person or an author."""
    match said.action:
        case "propose":
            return said.args.get("kind") != "baseline"
        case "stop":
            return "run" not in said.args
        case "decide":
            return bool(said.blocking) or said.args["verdict"] in ("accept", "revert", "keep")
        case _:
            return said.action in _NEEDS_SOMEBODY


def go(
    study: Study, actor: StudyActor, *, may_launch: bool, processes: bool = True
) -> Iterator[NextAction]:
    """Yield each step before it is taken; the last one is left to a person or an author.

    Without `may_launch` the first launch ends it; without `processes` no scheduler is asked.
    """
    while True:
        said = note_next(study)
        yield said
        if said.action == "launch" and not may_launch:
            return
        if needs_somebody(said) and not _may_agree(study, said):
            return
        if said.action == "reconcile" and not processes:
            reconcile(study)
        else:
            take_step(study, said, actor)


def _may_agree(study: Study, said: NextAction) -> bool:
    """Return whether a first contract can be recorded: no question, no approval yet."""
    state = study.state
    if said.action != "agree" or state.contract_version is not None or state.approvals:
        return False
    found = check_contract(study)
    return not found.questions and len(found.problems) == 1  # it is not agreed on yet


def take_step(study: Study, said: NextAction, actor: StudyActor) -> None:
    """Take one step that needs neither a person nor an author."""
    _STEPS[said.action](study, said.args, actor, said.why)


# ---------------------------------------------------------------------------- one by one

_Step = Callable[[Study, dict[str, Any], StudyActor, str], Any]


def _launch(study: Study, args: dict[str, Any], actor: StudyActor, why: str) -> None:
    request = LaunchRequest(
        args["candidate"],
        args["phase"],
        args["seed"],
        execute=True,
        confirm=TOKEN,
        gpu=args["gpu"],
        retry_of=args["retry_of"],
    )
    launch(study, request, actor)


def _wait(study: Study, args: dict[str, Any], actor: StudyActor, why: str) -> None:
    time.sleep(LOOK_EVERY_S)
    reconcile(study, processes=True)


def _advance(study: Study, args: dict[str, Any], actor: StudyActor, why: str) -> None:
    if args.get("more_seeds"):
        more_seeds(study, args["candidate"], actor, why)
    else:
        advance(study)


def _decide(study: Study, args: dict[str, Any], actor: StudyActor, why: str) -> None:
    decide(
        study,
        args["candidate"],
        args["verdict"],
        actor,
        why,
        audit=args.get("audit"),
        cause=args.get("cause"),
    )


_STEPS: dict[str, _Step] = {
    "agree": lambda study, args, actor, why: amend(study, actor, "first version"),
    "reconcile": lambda study, args, actor, why: reconcile(study, processes=True),
    "ingest": lambda study, args, actor, why: ingest(study, args["run"], actor),
    "monitor": lambda study, args, actor, why: monitor_run(study, args["run"], actor),
    "reflect": lambda study, args, actor, why: reflect_run(study, args["run"], actor),
    "audit": lambda study, args, actor, why: audit_result(study, args["candidate"], actor),
    "decide": _decide,
    "advance": _advance,
    "plan": lambda study, args, actor, why: plan_incumbent_check(study, actor),
    "launch": _launch,
    "validate": lambda study, args, actor, why: validate_candidate(study, args["candidate"]),
    "abandon": lambda study, args, actor, why: withdraw(study, args["candidate"], actor, why),
    "propose": lambda study, args, actor, why: new_candidate(
        study, "baseline", {"kind": "baseline"}, actor
    ),
    "stop": lambda study, args, actor, why: stop_run(
        study, args["run"], args.get("by", "stop_rule"), why
    ),
    "wait": _wait,
}
