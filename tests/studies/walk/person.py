"""A person who answers what a study asks, and an author who has ideas; both mean well."""

import shlex

from telic.studies.administration import set_study_status
from telic.studies.approvals import Consent, grant
from telic.studies.candidates import PATCH_NAME, new_candidate, revise_candidate, withdraw
from telic.studies.canonical import utc_now
from telic.studies.contract import amend
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import StudyActor, update_yaml
from telic.studies.errors import GateRefused
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.review import review_candidate
from telic.studies.queue import fresh_seeds
from tests.studies.launch.toy_study import EVALUATOR, PATCH

HUMAN = StudyActor(kind="human", name="ada")
AGENT = StudyActor(kind="agent", name="coder", session="s1")
TWIN = StudyActor(kind="agent", name="reviewer", session="s1")
"""who may be the author by another name"""
BETTER_EVALUATOR = EVALUATOR + "# better\n"
COST = {"wall_clock_h": 0.01}
CLAIMS = ("promotion", "incumbent_validation")


def consent() -> Consent:
    return Consent(by="ada", method="tty", at=utc_now())


def answer(world, step) -> None:
    """Do what a person or an author would do about what is asked; raises when that is refused."""
    _ANSWERS[step.action](world, world.study, step)


def _agree(world, study, step) -> None:
    if "approve" not in step.command:
        amend(study, HUMAN, "agreed")
        return
    words = shlex.split(step.command)
    if "--candidate" in words:
        grant(study, words[3], consent(), candidate=words[-1])
        return
    for each in study.missing_approvals:
        grant(study, each.key, consent())


def _ask(world, study, step) -> None:
    more = {"launches": 5000 + len(study.state.runs), "wall_clock_h": 5000}
    match step.args.get("gate"):
        case "G13":
            _change(study, {"hardware": {"hosts": ["local"], "gpus": []}})
        case "G14":
            _change(study, {"budget": {**more, "per_candidate": more}})
        case "G18":
            world.commit(ours_only=False)
        case "G19":
            for text in (BETTER_EVALUATOR, EVALUATOR):  # whichever was agreed on
                if study.changed_evaluators(study.root):
                    (study.root / "evaluate.py").write_text(text)
        case gate:
            raise AssertionError(f"nobody can answer {gate}: {step}")


def _change(study, changes) -> None:
    update_yaml(study.folder.contract, changes)
    amend(study, HUMAN, "a person allows it")


def _repair(world, study, step) -> None:
    analyze_run(study, step.args["run"], HUMAN, is_unusable=True)


def _review(world, study, step) -> None:
    _look(world, study, step.args["candidate"])


def _look(world, study, name) -> None:
    """A person reviews a candidate, or approves it."""
    if world.luck.random() < 0.5:
        review_candidate(study, name, HUMAN, "it is what it says", is_exploit=False)
    else:
        grant(study, "experiment", consent(), candidate=name)


def _revise(world, study, step) -> None:
    name = step.args["candidate"]
    held = study.candidate_state(name)
    if held.status == "debug" and world.luck.random() < 0.3:
        decide_candidate(study, name, "reject", HUMAN, "not worth it")
        return
    if held.status != "debug" and world.luck.random() < 0.5:
        withdraw(study, name, HUMAN, "not worth it")
        return
    try:
        seeds = {
            phase: list(fresh_seeds(study, phase, *(([name], 5) if phase in CLAIMS else ([], 1))))
            for phase in study.candidate(name).plan.phases
        }
    except GateRefused as refused:
        assert refused.code == "E_SEEDS"
        # no seeds are left for it: it is given up, which is what was offered beside mending it
        is_debug = held.status == "debug"
        give_up = decide_candidate if is_debug else withdraw
        give_up(study, name, *(("reject",) if is_debug else ()), HUMAN, "no seeds are left")
        return
    changes = {"plan": {"seeds": seeds, "est": COST}, "base_commit": study.base_commits[0]}
    revise_candidate(study, name, changes, AGENT)


def _propose(world, study, step) -> None:
    new_idea(world, study)


def new_idea(world, study) -> str:
    refs = list(study.state.evidence)[:1]
    weight = round(world.luck.uniform(0.5, 4.0), 4)
    reason = {
        "statement": "More weight raises success.",
        "mechanism": "It pulls harder.",
        "expected": {"metric": "success", "direction": "max"},
        "falsifier": world.luck.choice(("it does not rise", "success < 0.4", "gain < 0.01")),
    }
    draft = {
        "kind": "config",
        "hypothesis": reason,
        "change": {"overrides": {"reward.weight": {"from": 1.0, "to": weight}}},
        "evidence_refs": refs,
        "plan": {"est": COST},
    }
    if world.luck.random() < 0.1:
        draft["plan"]["phases"] = ["smoke", "short_trial"]
    attached = {}
    if world.luck.random() < 0.3:  # code that a model wrote: somebody else has to look at it
        origin = {"engine": "coder", "model": "some-model"}
        draft |= {"kind": "code", "change": {}, "origin": origin}
        draft["isolation"], attached = {"mode": "worktree"}, {PATCH_NAME: PATCH.encode()}
    return new_candidate(study, "idea", draft, AGENT, attached).id


def _decide(world, study, step) -> None:
    name, verdict, why = step.args["candidate"], step.args["verdict"], step.why
    if verdict == "revert":
        to = "nobody" if "--to nobody" in step.command else None
        decide_candidate(study, name, "revert", HUMAN, why, to=to)
    elif " withdraw " in step.command:
        withdraw(study, name, HUMAN, why)
    else:
        audit, cause = step.args.get("audit"), step.args.get("cause")
        decide_candidate(study, name, verdict, HUMAN, why, audit=audit, cause=cause)


def _stop(world, study, step) -> None:
    if step.command.split()[2] == "audit":
        _look(world, study, step.command.split()[3])
    elif "--resume" in step.command:
        set_study_status(study, "open", HUMAN, "go on")
    elif world.luck.random() < 0.5 and step.args["rule"] != "target_reached":
        _change(study, {"stop_rules": [], "budget": {"launches": 5000, "wall_clock_h": 5000}})
    else:
        set_study_status(study, "closed", HUMAN, "enough")


_ANSWERS = {
    "agree": _agree,
    "ask": _ask,
    "repair": _repair,
    "review": _review,
    "revise": _revise,
    "propose": _propose,
    "decide": _decide,
    "stop": _stop,
}
