"""A study with something to tell: won, lost, gamed, probed, alerted."""

from telic.storage.files import write_json
from telic.studies.decide import decide_candidate
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import analyze_run
from telic.studies.evidence.review import reflect_run
from telic.studies.evidence.robustness import ParameterSummary, ProbeSummary
from telic.studies.evidence.store import add_evidence
from tests.studies.candidates.small_study import AGENT, HUMAN
from tests.studies.evidence.claimed_study import promoted


def claim(study, title, final, statement, **changes):
    reason = {
        "statement": statement,
        "mechanism": "as above",
        "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
        "falsifier": "success does not rise by 0.02 over five seeds",
    }
    name, runs = promoted(study, title, final, hypothesis=reason, **changes)
    for run in runs:
        analyze_run(study, run, AGENT)
    return name, runs


def write_documents(study):
    """Let one candidate fail, one game its reward, and one win."""
    change = {"overrides": {"ppo.epochs": {"from": 5, "to": 10}}}
    same, _ = claim(
        study, "longer horizon", 0.58, "A longer horizon sees the fall coming.", change=change
    )
    audit_result(study, same, AGENT)
    decide_candidate(study, same, "reject", AGENT, "five seeds show no gain worth having")
    change = {"overrides": {"mode": {"from": "a", "to": "b"}}}
    why = "A bonus for staying alive <b>prevents</b> falls."
    gamed, played = claim(study, "alive bonus", 0.45, why, change=change, is_gamed=True)
    reflect_run(study, played[0], AGENT)
    audit_result(study, gamed, AGENT)
    better, runs = claim(study, "tracking weight", 0.8, "More weight on tracking raises success.")
    for run in runs:
        argv = ["python", "train.py", "--seed", "101", "--reward.weight", "2.0"]
        write_json(study.folder.run(run) / "cmd.json", {"argv": argv, "launcher": "local"})
    reflect_run(study, runs[0], AGENT)
    mass = ParameterSummary(path="dr.mass", nominal=1.0, points=(), feasible=(0.5, 2.0))
    about = {"candidate": better, "protocol_hash": study.protocol_hash, "runs": tuple(runs)[:3]}
    probe = ProbeSummary(**about, parameters=(mass,))
    add_evidence(study, "dr_probe", probe.as_data(), AGENT, candidate=better)
    audit_result(study, better, AGENT)
    decide_candidate(study, better, "accept", HUMAN, "it is better by far and breaks nothing")
