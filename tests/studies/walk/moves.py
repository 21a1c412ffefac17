"""What may happen to a study at any moment: people edit, commit, amend, decide; runs end, die."""

from telic.studies.administration import set_study_status
from telic.studies.approvals import grant, reject
from telic.studies.candidates import revise_candidate, withdraw
from telic.studies.contract import ALWAYS_REQUIRED, amend, hash_evaluator
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import read_yaml, update_yaml, write_yaml
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.review import review_candidate
from telic.studies.evidence.store import add_evidence
from telic.studies.launch.recovery import reconcile, stop_run
from telic.studies.queue import more_seeds, plan_incumbent_check
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import advance
from tests.studies.launch.toy_study import EVALUATOR
from tests.studies.walk.person import AGENT, BETTER_EVALUATOR, HUMAN, TWIN, consent, new_idea

CHANGES = (
    {"budget": {"launches": 30}},
    {"budget": {"launches": 500, "wall_clock_h": 1000}},
    {"budget": {"wall_clock_h": 0.5}},
    {"budget": {"per_candidate": {"launches": 9}}},
    {"seeds": {"selection": "1-99", "promotion": "100-119", "validation": "900-929"}},
    {"seeds": {"selection": "1-99", "promotion": "150-169", "validation": "900-929"}},
    {"seeds": {"selection": "50-99", "promotion": "100-107", "validation": "900-906"}},
    {"seeds": {"selection": "1-99", "promotion": "900-929", "validation": "100-119"}},
    {"scope": {"params": {"reward.weight": {"type": "float", "min": 2.0, "max": 3.0}}}},
    {"scope": {"params": {"reward.weight": {"type": "float", "min": 0.5, "max": 4.0}}}},
    {"scope": {"kinds": ["code"]}},
    {"scope": {"kinds": ["config", "reward_engineering", "code"]}},
    {"scope": {"limits": {"max_concurrent": 1}}},
    {"scope": {"limits": {"max_concurrent": 3}}},
    {"hardware": {"hosts": ["elsewhere"]}},
    {"hardware": {"hosts": ["local"]}},
    {"stop_rules": [{"rule": "no_progress", "k": 2}]},
    {"stop_rules": [{"rule": "no_progress", "k": 1, "action": "pause"}]},
    {"stop_rules": [{"rule": "no_progress", "k": 1, "action": "ask"}]},
    {"stop_rules": [{"rule": "max_candidates", "value": 3}]},
    {"stop_rules": [{"rule": "target_reached", "value": 0.4}]},
    {"stop_rules": [{"rule": "failure_streak", "k": 1}]},
    {"stop_rules": [{"rule": "wallclock_deadline", "at": "2020-01-01T00:00:00Z"}]},
    {"stop_rules": [{"rule": "max_iterations", "value": 2, "kill_running": True}]},
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


def edit_contract(world, study):
    update_yaml(study.folder.contract, world.luck.choice(CHANGES))


def amend_contract(world, study):
    edit_contract(world, study)
    amend(study, HUMAN, "a walk")
    if world.luck.random() < 0.8:
        approve_all(world, world.study)


def approve_all(world, study):
    for each in study.missing_approvals:
        grant(study, each.key, consent())


def undo_edits(world, study):
    version = study.state.contract_version or 1
    write_yaml(study.folder.contract, read_yaml(study.folder.contract_version(version)))


def change_protocol(world, study):
    update_yaml(study.folder.protocol, {"episodes": world.luck.choice((10, 20, 30))})
    if world.luck.random() < 0.8:
        amend(study, HUMAN, "measured otherwise")
        approve_all(world, world.study)


def change_metric(world, study):
    key = world.luck.choice(("success", "success", "absent"))
    spec = read_yaml(study.folder.metric_spec)
    spec["primary"]["key"] = key
    write_yaml(study.folder.metric_spec, spec)
    amend(study, HUMAN, "another number")
    approve_all(world, world.study)


def change_adapter(world, study):
    adapter = read_yaml(study.folder.adapter)
    if world.luck.random() < 0.5:
        adapter["provenance"]["seeds"]["status"] = world.luck.choice(("confirmed", "inferred"))
    else:
        argv = adapter["commands"]["train"]["argv"]
        adapter["commands"]["train"]["argv"] = [*argv[:5], "--fast"][: world.luck.choice((5, 6))]
    write_yaml(study.folder.adapter, adapter)


def change_evaluator(world, study):
    text = world.luck.choice((EVALUATOR, BETTER_EVALUATOR))
    (study.root / "evaluate.py").write_text(text)
    if world.luck.random() < 0.3:
        hash_evaluator(study)
        amend(study, HUMAN, "another evaluator")
        approve_all(world, world.study)


def edit_candidate(world, study):
    name = _candidate(world, study)
    path = study.folder.candidate_file(name)
    text = path.read_text() if path.is_file() else ""
    path.write_text(text.replace('"reward.weight"', '"reward.width"')) if text else None


def change_artefact(world, study):
    name = _some(world, study.state.runs)
    if name is not None:
        path = study.folder.run(name) / "artefacts/metrics.jsonl"
        if path.is_file():
            path.write_text('{"step": 1, "success": 0.99, "falls": 0.0}\n')


def ask_to_stop(world, study):
    stop_run(study, _some(world, study.state.active_runs) or "r-none", "user", "enough")


def end_run(world, study):
    for name in study.state.active_runs:
        folder = study.folder.run(name)
        if (folder / "key").is_file() and not (folder / "exit.json").exists():
            how = world.luck.choice(("finished", "failed", "unreadable"))
            ended = world.luck.choice((None, None, "signal", "timeout"))
            world.end(folder, how, ended_by=ended)
            return


def call_risk_high(world, study):
    name = _some(world, study.state.runs)
    if name is not None:
        facts = {"hacking": {"level": "high"}}
        candidate = study.state.runs[name].candidate
        add_evidence(study, "reflection", facts, AGENT, run=name, candidate=candidate)


MOVES = {
    "edit contract": edit_contract,
    "amend": amend_contract,
    "undo edits": undo_edits,
    "change protocol": change_protocol,
    "change metric": change_metric,
    "change adapter": change_adapter,
    "change evaluator": change_evaluator,
    "edit candidate": edit_candidate,
    "change artefact": change_artefact,
    "commit records": lambda world, study: world.commit(ours_only=True),
    "commit": lambda world, study: world.commit(ours_only=False),
    "edit a file": lambda world, study: setattr(world, "dirty", True),
    "end run": end_run,
    "stop run": ask_to_stop,
    "reconcile": lambda world, study: reconcile(study, processes=True),
    "new idea": lambda world, study: new_idea(world, study),
    "revise": lambda world, study: revise_candidate(
        study, _candidate(world, study), {"plan": {"est": {"wall_clock_h": 0.02}}}, AGENT
    ),
    "validate": lambda world, study: validate_candidate(study, _candidate(world, study)),
    "withdraw": lambda world, study: withdraw(study, _candidate(world, study), HUMAN, "no"),
    "advance": lambda world, study: advance(study),
    "more seeds": lambda world, study: more_seeds(study, _candidate(world, study), HUMAN, "more"),
    "check incumbent": lambda world, study: plan_incumbent_check(study, AGENT),
    "analyze": lambda world, study: analyze_run(
        study, _some(world, study.state.runs) or "r-none", AGENT
    ),
    "audit": lambda world, study: audit_result(study, _candidate(world, study), AGENT),
    "review": lambda world, study: review_candidate(
        study, _candidate(world, study), HUMAN, "look", is_exploit=world.luck.random() < 0.5
    ),
    "self-review": lambda world, study: review_candidate(
        study, _candidate(world, study), TWIN, "look", is_exploit=world.luck.random() < 0.3
    ),
    "risk is high": call_risk_high,
    "decide": lambda world, study: decide_candidate(
        study,
        _candidate(world, study),
        world.luck.choice(("accept", "reject", "inconclusive", "debug", "keep")),
        HUMAN,
        "a person's whim",
        cause=world.luck.choice((None, "phase_rule", "exploit")),
    ),
    "revert": lambda world, study: decide_candidate(
        study,
        _candidate(world, study),
        "revert",
        HUMAN,
        "whim",
        to=world.luck.choice((None, "nobody")),
    ),
    "approve": approve_all,
    "approve one": lambda world, study: grant(
        study, "experiment", consent(), candidate=_candidate(world, study)
    ),
    "refuse": lambda world, study: reject(study, world.luck.choice(ALWAYS_REQUIRED), consent()),
    "refuse one": lambda world, study: reject(
        study, "experiment", consent(), candidate=_candidate(world, study)
    ),
    "pause": lambda world, study: set_study_status(study, "paused", AGENT, "lunch"),
    "STOP": lambda world, study: study.folder.stop_file.write_text(""),
    "resume": lambda world, study: set_study_status(study, "open", HUMAN, "back"),
}
