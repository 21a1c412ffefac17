"""Events in a study: people edit, commit, amend and decide; runs end or crash."""

from telic.studies.administration import set_study_status
from telic.studies.approvals import grant
from telic.studies.candidates import revise_candidate, withdraw
from telic.studies.contract import amend, hash_evaluator
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import read_yaml, update_yaml, write_yaml
from telic.studies.evidence.review import review_candidate
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.recovery import stop_run
from telic.studies.queue import more_seeds
from tests.studies.launch.toy_study import EVALUATOR
from tests.studies.walk.person import AGENT, BETTER_EVALUATOR, HUMAN, TWIN, consent, new_idea

WEIGHT = {"type": "float", "min": 0.5, "max": 4.0}
POOLS = ("1-99 100-119 900-929", "1-99 150-169 900-929", "50-99 100-107 900-906", "1-99 900-929 5")
STOPS = (
    {"rule": "no_progress", "k": 2},
    {"rule": "no_progress", "k": 1, "action": "pause"},
    {"rule": "no_progress", "k": 1, "action": "ask"},
    {"rule": "max_candidates", "value": 3},
    {"rule": "target_reached", "value": 0.4},
    {"rule": "failure_streak", "k": 1},
    {"rule": "wallclock_deadline", "at": "2020-01-01T00:00:00Z"},
    {"rule": "max_candidates", "value": 2, "kill_running": True},
)
CHANGES = (
    {"budget": {"launches": 30}},
    {"budget": {"launches": 500, "wall_clock_h": 1000}},
    {"budget": {"wall_clock_h": 0.5}},
    {"budget": {"per_candidate": {"launches": 9}}},
    *(
        {"seeds": dict(zip(("selection", "promotion", "validation"), pools.split(), strict=True))}
        for pools in POOLS
    ),
    {"scope": {"params": {"reward.weight": {**WEIGHT, "min": 2.0, "max": 3.0}}}},
    {"scope": {"params": {"reward.weight": WEIGHT}}},
    {"scope": {"kinds": ["code"]}},
    {"scope": {"kinds": ["config", "reward_engineering", "code"]}},
    {"scope": {"limits": {"max_concurrent": 1}}},
    {"scope": {"limits": {"max_concurrent": 3}}},
    {"hardware": {"hosts": ["elsewhere"]}},
    {"hardware": {"hosts": ["local"]}},
    *({"stop_rules": [rule]} for rule in STOPS),
    {"automation": {"decide": "auto"}},
    {"automation": {"decide": "ask", "max_debug_attempts": 0}},
    {"automation": {"max_debug_attempts": 3}},
    {"baseline": {"seeds": [901, 902, 903, 904, 905, 906]}},
    {"task": {"success_definition": "another"}},
)


def _some(world, names):
    names = list(names)
    return world.luck.choice(names) if names else None


def _candidate(world, study):
    return _some(world, study.state.candidates) or "c-0001-none"


def approve_all(world, study):
    for each in study.missing_approvals:
        grant(study, each.key, consent())


def _agree(world, study, why, odds=1.0):
    """A person amends the contract and approves it, both more or less often."""
    if world.luck.random() < odds:
        amend(study, HUMAN, why)
        if world.luck.random() < 0.8:
            approve_all(world, world.study)


def edit_contract(world, study):
    update_yaml(study.folder.contract, world.luck.choice(CHANGES))
    _agree(world, study, "a walk", 0.5)


def undo_edits(world, study):
    agreed = study.events_of("contract.amended")[-1].data
    study.folder.contract.write_text(agreed["text"])


def change_protocol(world, study):
    update_yaml(study.folder.protocol, {"episodes": world.luck.choice((10, 20, 30))})
    _agree(world, study, "measured otherwise", 0.8)


def change_metric(world, study):
    key = world.luck.choice(("success", "success", "absent"))
    update_yaml(study.folder.metric_spec, {"primary": {"key": key}})
    _agree(world, study, "another number")


def change_adapter(world, study):
    adapter = read_yaml(study.folder.adapter)
    if world.luck.random() < 0.5:
        adapter["seeds"]["deterministic"] = world.luck.choice(("claimed", "observed"))
    else:
        argv = adapter["commands"]["train"]["argv"]
        adapter["commands"]["train"]["argv"] = [*argv[:5], "--fast"][: world.luck.choice((5, 6))]
    write_yaml(study.folder.adapter, adapter)


def change_evaluator(world, study):
    text = world.luck.choice((EVALUATOR, BETTER_EVALUATOR))
    (study.root / "evaluate.py").write_text(text)
    if world.luck.random() < 0.3:
        hash_evaluator(study)
        _agree(world, study, "another evaluator")


def edit_candidate(world, study):
    path = study.folder.candidate_file(_candidate(world, study))
    if path.is_file():
        path.write_text(path.read_text().replace('"reward.weight"', '"reward.width"'))


def change_artifact(world, study):
    name = _some(world, study.state.runs)
    path = study.folder.run(name or "r-none") / "artifacts/metrics.jsonl"
    if path.is_file():
        path.write_text('{"step": 1, "success": 0.99, "falls": 0.0}\n')


def end_run(world, study):
    for name in study.state.active_runs:
        folder = study.folder.run(name)
        if (folder / "key").is_file() and not (folder / "exit.json").exists():
            how = world.luck.choice(("finished", "failed", "unreadable"))
            ended = world.luck.choice((None, None, "signal", "timeout"))
            world.end(folder, how, ended_by=ended)
            return


def stop_a_run(world, study):
    stop_run(study, _some(world, study.state.active_runs) or "r-none", "user", "enough")


def call_risk_high(world, study):
    if (name := _some(world, study.state.runs)) is not None:
        add_evidence(study, "reflection", {"hacking": {"level": "high"}}, AGENT, run=name)


def revise(world, study):
    changes = {"plan": {"est": {"wall_clock_h": 0.02}}}
    revise_candidate(study, _candidate(world, study), changes, AGENT)


def review(world, study):
    by, is_exploit = world.luck.choice((HUMAN, TWIN)), world.luck.random() < 0.4
    review_candidate(study, _candidate(world, study), by, "look", is_exploit=is_exploit)


def decide_at_a_whim(world, study):
    verdict = world.luck.choice(("accept", "reject", "inconclusive", "debug", "keep", "revert"))
    cause, to = world.luck.choice((None, "phase_rule", "exploit")), None
    if verdict == "revert":
        cause, to = None, world.luck.choice((None, "nobody"))
    decide_candidate(study, _candidate(world, study), verdict, HUMAN, "a whim", cause=cause, to=to)


MOVES = {
    "edit contract": edit_contract,
    "undo edits": undo_edits,
    "change protocol": change_protocol,
    "change metric": change_metric,
    "change adapter": change_adapter,
    "change evaluator": change_evaluator,
    "edit candidate": edit_candidate,
    "change artifact": change_artifact,
    "commit records": lambda world, study: world.commit(ours_only=True),
    "commit": lambda world, study: world.commit(ours_only=False),
    "edit a file": lambda world, study: setattr(world, "dirty", True),
    "end run": end_run,
    "stop run": stop_a_run,
    "new idea": new_idea,
    "revise": revise,
    "withdraw": lambda world, study: withdraw(study, _candidate(world, study), HUMAN, "no"),
    "more seeds": lambda world, study: more_seeds(study, _candidate(world, study), HUMAN, "more"),
    "review": review,
    "risk is high": call_risk_high,
    "decide": decide_at_a_whim,
    "approve": approve_all,
    "pause": lambda world, study: set_study_status(study, "paused", AGENT, "lunch"),
    "STOP": lambda world, study: study.folder.stop_file.write_text(""),
    "resume": lambda world, study: set_study_status(study, "open", HUMAN, "back"),
}
