"""A small repository with an agreed study, and ways to pretend that runs happened in it."""

import hashlib
import secrets
import subprocess
from pathlib import Path

from telic.studies.candidate import Attachments, new_candidate
from telic.studies.contract import amend
from telic.studies.deciding import decide
from telic.studies.documents.base import RUNNER, Actor
from telic.studies.evidence import store
from telic.studies.evidence.auditing import audit_result
from telic.studies.evidence.measuring import Measurement
from telic.studies.folder import StudyFolder, registry_file
from telic.studies.ledger import Ledger
from telic.studies.lifecycle import transition
from telic.studies.queueing import advance, plan_candidate
from telic.studies.validation.validating import validate_candidate
from telic.studies.yaml_files import update_yaml, write_yaml

HUMAN = Actor(kind="human", name="ada")
AGENT = Actor(kind="agent", name="claude", session="s1")
EVALUATOR = "print('evaluate')\n"
REWARD = "weight = 1\nbonus = 0\nseed = 3\n"
HEADER = "--- a/src/reward.py\n+++ b/src/reward.py\n@@ -1,3 +1,3 @@\n"
PATCH = HEADER + "-weight = 1\n+weight = 2\n bonus = 0\n seed = 3\n"
SEED_PATCH = HEADER + " weight = 1\n bonus = 0\n-seed = 3\n+seed = 42\n"


def git(root, *words):
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def make_repository(root: Path) -> None:
    (root / "src").mkdir(parents=True)
    (root / "src" / "reward.py").write_text(REWARD)
    (root / "evaluate.py").write_text(EVALUATOR)
    (root / ".gitignore").write_text(".telic/\n")
    git(root, "init", "-q")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "config", "user.name", "ada")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")


def contract_data():
    return {
        "schema": "telic.contract/1",
        "version": 1,
        "task": {"task_id": "walk", "statement": "walk on"},
        "metrics": {"spec": "metric_spec.yaml"},
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
        "hardware": {"hosts": ["local"], "launcher": "local"},
        "baseline": {"command": "train", "seeds": [901, 902, 903, 904, 905]},
        "evaluation": {"protocol": "eval_protocol.yaml"},
        "automation": {"max_debug_attempts": 2},
    }


def make_study(root: Path) -> Ledger:
    make_repository(root)
    write_yaml(
        registry_file(root),
        {
            "schema": "telic.registry/1",
            "project": {"name": "toy", "vcs": "git"},
            "active": {"task_id": "walk", "study_id": "first"},
            "tasks": [
                {
                    "task_id": "walk",
                    "title": "walk",
                    "card": "tasks/walk/task_card.md",
                    "adapter": "tasks/walk/adapter.yaml",
                    "studies": [{"study_id": "first", "created_at": "2026-08-01T09:00:00Z"}],
                }
            ],
        },
    )
    folder = StudyFolder.find(root)
    train = {"argv": ["python", "train.py", "--seed", "{seed}", "{overrides}"]}
    write_yaml(
        folder.adapter,
        {
            "schema": "telic.adapter/1",
            "commands": {"train": train, "eval": None, "smoke": None, "resume": None},
            "config": {"system": "argparse", "override_style": "--k v"},
            "logging": {},
            "metrics": {"map": {"success": "success"}},
            "files": {"evaluator": {"globs": ["evaluate.py"]}},
            "launcher": {"kind": "local"},
            "seeds": {"flag": "--seed", "controllable": True},
            "outputs": {},
        },
    )
    write_yaml(
        folder.metric_spec,
        {
            "schema": "telic.metric_spec/1",
            "primary": {"key": "success", "direction": "max"},
            "replication_unit": "training_seed",
            "guardrails": [
                {"key": "falls", "direction": "min", "rule": "absolute", "threshold": 0.2}
            ],
            "extractor": {"kind": "jsonl", "path": "metrics.jsonl"},
        },
    )
    write_yaml(
        folder.protocol,
        {
            "schema": "telic.eval_protocol/1",
            "evaluator_files": {
                "evaluate.py": hashlib.sha256(EVALUATOR.encode()).hexdigest(),
            },
            "episodes": 10,
        },
    )
    write_yaml(folder.contract, contract_data())
    ledger = Ledger(folder)
    ledger.append("study.created", None, {"kind": "external"}, HUMAN)
    amend(folder, HUMAN, "the first agreement")
    return ledger


def change_contract(ledger: Ledger, changes: dict) -> None:
    update_yaml(ledger.folder.contract, changes)
    amend(ledger.folder, HUMAN, "a test needs it")


def add_evidence(ledger: Ledger, kind="metrics", payload=None) -> str:
    facts = payload if payload is not None else {"why": "it fell"}
    return store.add_evidence(ledger, kind, facts, AGENT, candidate="c-0000-earlier").id


def draft(ledger: Ledger, **changes) -> dict:
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
        "evidence_refs": [add_evidence(ledger)],
        "plan": {"est": {"gpu_h": 2.0}},
        **changes,
    }


def make(ledger: Ledger, title="more weight", *, actor=AGENT, patch=None, files=None, **changes):
    """Make a candidate from a good draft with some parts changed; returns its id."""
    where = ledger.folder.root.parent / f"patch-{secrets.token_hex(4)}.diff"
    if patch is not None:
        where.write_text(patch)
    attached = Attachments(patch=where if patch is not None else None, files=files or {})
    return new_candidate(ledger, title, draft(ledger, **changes), actor, attached).id


def start_run(ledger: Ledger, candidate: str, phase="smoke", seed=1, **facts) -> str:
    """Enter a run as started, as the launch path would."""
    run, nonce = f"r-20260801T090000Z-{secrets.token_hex(3)}", secrets.token_hex(8)
    intent = {"run": run, "candidate": candidate, "phase": phase, "seed": seed, "nonce": nonce}
    ledger.append("launch.intent", candidate, {**intent, **facts}, RUNNER)
    started = {"run": run, "nonce": nonce, "candidate": candidate}
    if ledger.state().candidates[candidate].status == "validated":
        transition(ledger.folder, candidate, "launched", RUNNER, "started", started)
    else:
        ledger.append("launch.started", candidate, started, RUNNER)
    return run


def end_run(ledger: Ledger, run: str, how="finished", **facts) -> None:
    ledger.append(f"run.{how}", run, {"run": run, **facts}, RUNNER)


def complete(ledger: Ledger, candidate: str, phase="smoke", seeds=(1,)) -> list[str]:
    """Run a phase to its end."""
    runs = [start_run(ledger, candidate, phase, seed) for seed in seeds]
    for run in runs:
        end_run(ledger, run)
    transition(ledger.folder, candidate, "completed", RUNNER, f"{phase} is over")
    return runs


def measure(ledger: Ledger, run: str, score: float, *, curve=(), **facts) -> str:
    """Enter what a run came to, as the analysis would."""
    held = ledger.state().runs[run]
    found = Measurement(
        run=run,
        candidate=held.candidate,
        phase=held.phase,
        seed=held.seed,
        primary=score,
        scores={"": score},
        guardrails={"falls": 0.1},
        protocol_hash=ledger.state().protocol_hash,
        metric_spec_hash=ledger.folder.read_contract().metrics.spec_hash,
        code_hash="0" * 64,
        curves={"success": tuple(curve)},
        **facts,
    )
    return store.add_evidence(
        ledger, "metrics", found.as_data(), AGENT, run=run, candidate=held.candidate
    ).id


def claim(ledger: Ledger, candidate: str, phase: str, scores: dict[int, float]) -> list[str]:
    """Run the seeds of a claim to their end and measure them."""
    clean = {"G18": True}
    runs = [start_run(ledger, candidate, phase, seed, gates=clean) for seed in scores]
    for run, score in zip(runs, scores.values(), strict=True):
        end_run(ledger, run)
        measure(ledger, run, score, steps=1000, hardware="cpu")
    if ledger.state().candidates[candidate].status == "launched":
        transition(ledger.folder, candidate, "completed", RUNNER, f"{phase} is over")
    return runs


def established(ledger: Ledger) -> str:
    """Make, run, audit and accept a baseline."""
    facts = {"kind": "baseline", "plan": {"est": {"gpu_h": 1.0}}}
    name = new_candidate(ledger, "as it is", facts, AGENT).id
    assert validate_candidate(ledger, name).ok
    plan_candidate(ledger, name, AGENT)
    claim(ledger, name, "smoke", {1: 0.5})
    advance(ledger)
    scores = dict(zip(range(901, 906), (0.50, 0.52, 0.48, 0.51, 0.49), strict=True))
    claim(ledger, name, "incumbent_validation", scores)
    audit_result(ledger, name, AGENT)
    decide(ledger, name, "accept", HUMAN, "five seeds agree")
    return name


def promoted(ledger: Ledger, better_by: float, title="more weight", **changes) -> str:
    """Take a candidate to the end of its promotion, the incumbent's arm beside it."""
    name = make(ledger, title, plan={"est": {"gpu_h": 1.0}}, **changes)
    assert validate_candidate(ledger, name).ok
    plan_candidate(ledger, name, AGENT)
    for phase in ("smoke", "short_trial"):
        claim(ledger, name, phase, {1: 0.6})
        advance(ledger)
    base = dict(zip(range(100, 105), (0.50, 0.53, 0.48, 0.52, 0.49), strict=True))
    incumbent = ledger.state().incumbent
    assert incumbent is not None
    if not ledger.state().runs_of(incumbent.candidate, "promotion"):
        claim(ledger, incumbent.candidate, "promotion", base)
    noise = (0.01, -0.01, 0.02, -0.02, 0.0)
    scores = {seed: base[seed] + better_by + n for seed, n in zip(base, noise, strict=True)}
    claim(ledger, name, "promotion", scores)
    return name
