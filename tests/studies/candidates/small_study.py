"""A small repository with an agreed study, and ways to pretend that runs happened in it."""

import secrets
from pathlib import Path

from telic.studies.administration import create_study
from telic.studies.candidates import FILES, PATCH_NAME, new_candidate, transition
from telic.studies.contract import amend
from telic.studies.decide import decide_candidate
from telic.studies.documents.base import RUNNER, StudyActor, update_yaml, write_yaml
from telic.studies.evidence import store
from telic.studies.evidence.audit import audit_result
from telic.studies.evidence.measurement import Measurement
from telic.studies.rules.checks import validate_candidate
from telic.studies.rules.results import advance
from tests.studies.fresh import FreshStudy
from tests.studies.launch import toy_study
from tests.studies.launch.toy_study import EVALUATOR, HUMAN

AGENT = StudyActor(kind="agent", name="claude", session="s1")
REWARD = "weight = 1\nbonus = 0\nseed = 3\n"
HEADER = "--- a/src/reward.py\n+++ b/src/reward.py\n@@ -1,3 +1,3 @@\n"
PATCH = HEADER + "-weight = 1\n+weight = 2\n bonus = 0\n seed = 3\n"
SEED_PATCH = HEADER + " weight = 1\n bonus = 0\n-seed = 3\n+seed = 42\n"


CONTRACT = {
    "scope": {
        "kinds": ["config", "reward_tuning", "reward_engineering", "curriculum", "dr_tuning"],
        "params": {
            "reward.weight": {"type": "float", "min": 0.5, "max": 4, "max_step_ratio": 2.0},
            "ppo.epochs": {"type": "int", "min": 1, "max": 20},
            "mode": {"type": "str", "choices": ["a", "b"]},
            "dr.mass": {"type": "float", "min": 0, "max": 5},
        },
        "files": {"allow": ["src/**"], "deny": ["**/eval*.py"]},
        "limits": {"max_diff_lines": 20, "max_changed_params": 2},
    },
    "budget": {"gpu_h": 10, "launches": 60, "per_candidate": {"gpu_h": 6}},
    "baseline": {"seeds": [901, 902, 903, 904, 905]},
    "automation": {"max_debug_attempts": 2},
    "stop_rules": [],
    "evaluation": toy_study.CONTRACT["evaluation"],
}


def make_study(root: Path) -> FreshStudy:
    files = {"src/reward.py": REWARD, "evaluate.py": EVALUATOR, ".gitignore": ".telic/\n"}
    toy_study.commit_files(root, files)
    study = FreshStudy(create_study(root, "walk", "first", HUMAN, statement="walk on").folder)
    folder = study.folder
    train = {"argv": ["python", "train.py", "--seed", "{seed}", "{overrides}"]}
    commands = {**toy_study.ADAPTER["commands"], "train": train}
    adapter = {**toy_study.ADAPTER, "commands": commands, "logging": {}, "outputs": {}}
    write_yaml(folder.adapter, {**adapter, "provenance": {}})
    write_yaml(folder.metric_spec, toy_study.METRIC_SPEC)
    write_yaml(folder.protocol, toy_study.PROTOCOL)
    update_yaml(folder.contract, CONTRACT)
    amend(study, HUMAN, "the first agreement")
    return study


def change_contract(study: FreshStudy, changes: dict) -> None:
    update_yaml(study.folder.contract, changes)
    amend(study, HUMAN, "a test needs it")


def add_evidence(study: FreshStudy, kind="metrics", payload=None) -> str:
    facts = payload if payload is not None else {"why": "it fell"}
    return store.add_evidence(study, kind, facts, AGENT, candidate="c-0000-earlier").id


def draft(study: FreshStudy, **changes) -> dict:
    """Return what an author would write for a good small idea."""
    reason = {
        "statement": "More weight on tracking raises success.",
        "mechanism": "The term is outweighed by the effort penalty.",
        "expected": {"metric": "success", "direction": "max", "magnitude": 0.1},
        "falsifier": "success does not rise by 0.02 over five seeds",
    }
    return {
        "kind": "config",
        "hypothesis": reason,
        "change": {"overrides": {"reward.weight": {"from": 1.0, "to": 2.0}}},
        "evidence_refs": [add_evidence(study)],
        "plan": {"est": {"gpu_h": 2.0}},
        **changes,
    }


def make(study: FreshStudy, title="more weight", *, actor=AGENT, patch=None, files=None, **changes):
    """Make a candidate from a good draft with some parts changed; returns its id."""
    attached = {f"{FILES}/{name}": path.read_bytes() for name, path in (files or {}).items()}
    attached |= {} if patch is None else {PATCH_NAME: patch.encode()}
    return new_candidate(study, title, draft(study, **changes), actor, attached).id


def start_run(study: FreshStudy, candidate: str, phase="smoke", seed=1, **facts) -> str:
    """Enter a run as started, as the launch path would."""
    run, nonce = f"r-20260801T090000Z-{secrets.token_hex(3)}", secrets.token_hex(8)
    intent = {"run": run, "candidate": candidate, "phase": phase, "seed": seed, "nonce": nonce}
    held = study.candidate_state(candidate)
    intent |= {"content_hash": held.content_hash, "gates": {"G18": True}}
    study.append("launch.intent", candidate, {**intent, **facts}, RUNNER)
    started = {"run": run, "nonce": nonce, "candidate": candidate}
    if study.state.candidates[candidate].status == "validated":
        transition(study, candidate, "launched", RUNNER, "started", started)
    else:
        study.append("launch.started", candidate, started, RUNNER)
    return run


def end_run(study: FreshStudy, run: str, how="finished", **facts) -> None:
    study.append(f"run.{how}", run, {"run": run, **facts}, RUNNER)


def complete(study: FreshStudy, candidate: str, phase="smoke", seeds=(1,)) -> list[str]:
    """Run a phase to its end."""
    runs = [start_run(study, candidate, phase, seed) for seed in seeds]
    for run in runs:
        end_run(study, run)
    transition(study, candidate, "completed", RUNNER, f"{phase} is over")
    return runs


def measure(study: FreshStudy, run: str, score: float, *, curve=(), **facts) -> str:
    """Record the result of a run as the analysis would."""
    held = study.state.runs[run]
    found = Measurement(
        run=run,
        candidate=held.candidate,
        phase=held.phase,
        seed=held.seed,
        primary=score,
        scores={"": score},
        guardrails={"falls": 0.1},
        protocol_hash=study.state.protocol_hash,
        metric_spec_hash=study.contract.metrics.spec_hash,
        code_hash="0" * 64,
        content_hash=held.content_hash,
        is_clean=held.is_clean,
        curves={"success": tuple(curve)},
        **facts,
    )
    return store.add_evidence(
        study, "metrics", found.as_data(), AGENT, run=run, candidate=held.candidate
    ).id


def claim(study: FreshStudy, candidate: str, phase: str, scores: dict[int, float]) -> list[str]:
    """Run the seeds of a claim to their end and measure them."""
    clean = {"G18": True}
    runs = [start_run(study, candidate, phase, seed, gates=clean) for seed in scores]
    for run, score in zip(runs, scores.values(), strict=True):
        end_run(study, run)
        measure(study, run, score, steps=1000, hardware="cpu")
    if study.state.candidates[candidate].status == "launched":
        transition(study, candidate, "completed", RUNNER, f"{phase} is over")
    return runs


def established(study: FreshStudy) -> str:
    """Make, run, audit and accept a baseline."""
    facts = {"kind": "baseline", "plan": {"est": {"gpu_h": 1.0}}}
    name = new_candidate(study, "as it is", facts, AGENT).id
    assert validate_candidate(study, name).ok
    claim(study, name, "smoke", {1: 0.5})
    advance(study)
    scores = dict(zip(range(901, 906), (0.50, 0.52, 0.48, 0.51, 0.49), strict=True))
    claim(study, name, "incumbent_validation", scores)
    audit_result(study, name, AGENT)
    decide_candidate(study, name, "accept", HUMAN, "five seeds agree")
    return name


def promoted(study: FreshStudy, better_by: float, title="more weight", **changes) -> str:
    """Complete the promotion of a candidate, with the incumbent's arm."""
    name = make(study, title, plan={"est": {"gpu_h": 1.0}}, **changes)
    assert validate_candidate(study, name).ok
    for phase in ("smoke", "short_trial"):
        claim(study, name, phase, {1: 0.6})
        advance(study)
    base = dict(zip(range(100, 105), (0.50, 0.53, 0.48, 0.52, 0.49), strict=True))
    incumbent = study.state.incumbent
    assert incumbent is not None
    if not study.state.runs_of(incumbent.candidate, "promotion"):
        claim(study, incumbent.candidate, "promotion", base)
    noise = (0.01, -0.01, 0.02, -0.02, 0.0)
    scores = {seed: base[seed] + better_by + n for seed, n in zip(base, noise, strict=True)}
    claim(study, name, "promotion", scores)
    return name
