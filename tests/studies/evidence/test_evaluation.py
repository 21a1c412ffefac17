"""The score is that of the evaluator which the contract names, on seeds that training never saw."""

import hashlib
import json
import os
import sys
import time

import pytest

from telic.errors import TelicError
from telic.studies.contract import amend, check_contract
from telic.studies.documents.base import read_yaml, update_yaml, write_yaml
from telic.studies.evidence.measurement import analyze_run
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile
from telic.studies.launch.supervisor import choose_checkpoint
from tests.studies.launch import toy_study
from tests.studies.launch.toy_study import AGENT, HUMAN

# The training boasts of 0.99; the evaluator plays the policy that it left.
TRAIN = """\
import json, pathlib, sys
run_dir = pathlib.Path(sys.argv[1])
row = {"step": 1, "success": 0.99, "falls": 0.0}
(run_dir / "metrics.jsonl").write_text(json.dumps(row) + chr(10))
(run_dir / "old.ckpt").write_text("0.1")
(run_dir / "policy.ckpt").write_text("0.4")
(run_dir / "done").write_text("yes")
"""
EVALUATE = """\
import json, pathlib, sys
policy, seed, out, episodes, *more = sys.argv[1:]
worth = float(pathlib.Path(policy).read_text()) + int(seed) % 10 / 100 - 0.2 * len(more)
row = {"success": round(worth, 4), "falls": 0.1, "episodes": int(episodes), "seed": int(seed)}
pathlib.Path(out, "metrics.jsonl").write_text(json.dumps(row) + chr(10))
sys.exit(3 if seed == "7009" else 0)
"""


def make(root, seeds=(7001, 7003), **protocol):
    study = toy_study.make_study(root)
    (root / "train.py").write_text(TRAIN)
    (root / "evaluate.py").write_text(EVALUATE)
    toy_study.git(root, "commit", "-qam", "boasts")
    adapter = read_yaml(study.folder.adapter)
    adapter["outputs"]["checkpoint_glob"] = "*.ckpt"
    write_yaml(study.folder.adapter, adapter)
    words = ["{checkpoint}", "{seed}", "{run_dir}", "{episodes}"]
    command = {"argv": [sys.executable, "evaluate.py", *words]}
    hashes = {"evaluate.py": hashlib.sha256(EVALUATE.encode()).hexdigest()}
    facts = {"command": command, "eval_seeds": list(seeds), "evaluator_files": hashes}
    update_yaml(study.folder.protocol, {**facts, **protocol})
    toy_study.change_contract(study, {})
    return study, toy_study.make_baseline(study)


def run(study, name, phase="smoke", seed=1):
    request = LaunchRequest(name, phase, seed, confirm=TOKEN)
    made = launch(study, request, AGENT).run
    deadline = time.monotonic() + 120
    while study.state.runs[made].is_live:
        assert time.monotonic() < deadline, f"{made} did not end"
        time.sleep(0.02)
        reconcile(study)
    return made


def test_the_evaluator_scores_and_not_the_training(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    hard = {"name": "pushed", "args": ["--push"]}
    study, name = make(tmp_path / "repo", perturbations=[hard])
    made = run(study, name)
    found = analyze_run(study, made, AGENT).payload
    assert found["primary"] == pytest.approx(0.41), "the newest checkpoint, the first unseen seed"
    assert found["perturbed"] == {"pushed": pytest.approx(0.21)}
    assert found["guardrails"] == {"falls": pytest.approx(0.1)}
    inside = study.folder.run(made) / "artefacts/evaluations/nominal/7001"
    assert json.loads((inside / "metrics.jsonl").read_text())["episodes"] == 10
    (inside / "metrics.jsonl").write_text('{"success": 0.9, "falls": 0.0}\n')
    with pytest.raises(TelicError, match="E_ARTEFACTS"):
        analyze_run(study, made, AGENT)


def test_an_evaluation_that_fails_fails_the_run(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    study, name = make(tmp_path / "repo", seeds=(7009,))
    made = run(study, name)
    assert study.state.runs[made].status == "failed"
    assert "evaluation nominal/7009: ended with code 3" in study.state.runs[made].why


@pytest.mark.parametrize(
    ("protocol", "problem"),
    [
        ({"eval_seeds": [101]}, "eval_seeds: 101 is also in the promotion pool"),
        ({"eval_seeds": [3]}, "eval_seeds: 3 is also in the selection pool"),
        ({"command": {"argv": ["python", "e.py", "{seed}"]}}, "eval_seeds: the evaluator needs"),
        (
            {"command": {"argv": ["python", "e.py"]}, "eval_seeds": [7001]},
            "without {seed} every evaluation would be the same",
        ),
        (
            {"command": {"argv": ["e", "{seed}", "{checkpoint}"]}, "eval_seeds": [7001]},
            "{checkpoint} needs outputs.checkpoint_glob",
        ),
        ({"perturbations": ["windy", "windy"]}, "each needs a name of its own"),
        ({"perturbations": [{"nam": "windy"}]}, "perturbations: "),
    ],
)
def test_a_protocol_that_could_not_be_followed_is_not_agreed_on(
    protocol, problem, tmp_path, monkeypatch
):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    study = toy_study.make_study(tmp_path / "repo")
    update_yaml(study.folder.protocol, protocol)
    assert any(problem in each for each in check_contract(study).problems)
    with pytest.raises(TelicError, match="E_CONTRACT"):
        amend(study, HUMAN, "measured otherwise")


def test_the_checkpoint_is_the_one_that_the_rule_names(tmp_path):
    for place, name in enumerate(("step-300.pt", "best.pt", "step-1000.pt", "step-20.pt")):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (place, place))
    chosen = {
        rule: choose_checkpoint(tmp_path, {"checkpoint_glob": "*.pt", "selection": rule})
        for rule in ("last", "best_on_validation", "fixed_step")
    }
    names = {rule: path.name for rule, path in chosen.items()}
    assert names == {
        "last": "step-20.pt",
        "best_on_validation": "best.pt",
        "fixed_step": "step-1000.pt",
    }
    assert choose_checkpoint(tmp_path, {"checkpoint_glob": None, "selection": "last"}) is None
