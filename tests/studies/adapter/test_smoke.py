"""Smoke runs prove an adapter: what the repository ignores or lacks is found out."""

import sys
from collections import defaultdict
from types import SimpleNamespace

import pytest

from telic.studies.adapter_check import _checks, prove_adapter
from telic.studies.launch.process import RunProcess
from tests.studies.launch import toy_study
from tests.studies.launch.toy_study import AGENT, make_study

TRAINER = """\
import json, pathlib, random, sys, time

run_dir, seed, steps = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
draw = random.Random({seed})
with (run_dir / "metrics.jsonl").open("w") as log:
    for step in range(1, {steps} + 1):
        print(json.dumps({{"step": step, "success": draw.random(), "falls": 0.0}}), file=log)
(run_dir / "policy.json").write_text("{{}}")
(run_dir / "done").write_text("yes")
"""
EVALUATOR = """\
import json, os, pathlib, sys

out = pathlib.Path(sys.argv[1]); out.mkdir(parents=True, exist_ok=True)
(out / "metrics.jsonl").write_text(json.dumps({"step": 1, "success": 0.5, "falls": 0.0}) + "\\n")
"""


@pytest.fixture
def prove(tmp_path, monkeypatch):
    """Make a study around a trainer and prove its adapter; returns the checks by name."""
    studies = []

    def run(seed="seed", steps="steps", evaluator=""):
        monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
        text = TRAINER.format(seed=seed, steps=steps)
        monkeypatch.setattr(toy_study, "TRAIN", text)
        command = [sys.executable, "train.py", "{run_dir}", "{seed}", "{steps}"]
        adapter = {**toy_study.ADAPTER}
        adapter["commands"] = {**adapter["commands"], "train": {"argv": command}}
        adapter["seeds"] = {"flag": "--seed", "controllable": True}
        adapter["outputs"] = {**adapter["outputs"], "checkpoint_glob": "policy.json"}
        monkeypatch.setattr(toy_study, "ADAPTER", adapter)
        if evaluator:
            monkeypatch.setattr(toy_study, "EVALUATOR", evaluator)
            words = [sys.executable, "evaluate.py", "{run_dir}", "{checkpoint}", "{seed}"]
            protocol = {"schema": "telic.eval_protocol/1", "eval_seeds": [7777], "episodes": 1}
            monkeypatch.setattr(toy_study, "PROTOCOL", {**protocol, "command": {"argv": words}})
        baseline = {**toy_study.CONTRACT["baseline"], "steps": 1000}
        estimate = {"est": {"wall_clock_h": 1}}
        contract = {**toy_study.CONTRACT, "baseline": {**baseline, **estimate}}
        monkeypatch.setattr(toy_study, "CONTRACT", contract)
        studies.append(make_study(tmp_path / "repo"))
        proof = prove_adapter(studies[-1], AGENT)
        assert proof.evidence in studies[-1].state.evidence
        return {check.name: check for check in proof.checks}, proof

    yield run
    for study in studies:
        for folder in study.folder.runs.glob("*"):
            RunProcess(folder).ask_to_stop("user", "the test is over")


def test_an_honest_trainer_and_evaluator_pass(prove):
    checks, proof = prove(evaluator=EVALUATOR)
    assert proof.ok and len(proof.runs) == 4
    names = ("starts", "metric", "steps", "seed", "repeat", "evaluator")
    assert {name: check.passed for name, check in checks.items()} == dict.fromkeys(names, True)


def test_an_ignored_seed_and_ignored_steps_are_found(prove):
    checks, proof = prove(seed="0", steps="500")
    assert not proof.ok and checks["evaluator"].passed is None
    assert checks["seed"].passed is False and "ignored" in checks["seed"].why
    assert checks["steps"].passed is False and "twice as many at 500" in checks["steps"].why


def sheet(seed, *, steps=37.0, score=0.5, **changes):
    curve = {"success": ((steps, score),)}
    facts = {"run": f"r-{seed}", "steps": steps, "primary": score, "curves": curve}
    return SimpleNamespace(payload={**facts, "missing": (), "problem": "", **changes})


def judged(sheets, deterministic=None):
    """Return whether each check passed, by name, for measured smoke runs."""
    run = SimpleNamespace(status="finished", why="", reservation=SimpleNamespace(env_steps=37))
    study = SimpleNamespace(
        state=SimpleNamespace(runs=defaultdict(lambda: run)),
        metric_spec=SimpleNamespace(primary=SimpleNamespace(key="success")),
        adapter=SimpleNamespace(
            seeds=SimpleNamespace(controllable=True, deterministic=deterministic)
        ),
        protocol=SimpleNamespace(command=None),
    )
    return {check.name: check for check in _checks(study, sheets, 1)}


def test_what_is_not_reproducible_must_be_declared_and_a_missing_metric_is_found():
    others = {(1, 2): [sheet(1, steps=74.0)], (2, 1): [sheet(2, score=0.7)]}
    same, differs = [sheet(1), sheet(1)], [sheet(1), sheet(1, score=0.6)]
    found = judged({(1, 1): same, **others})
    assert all(check.passed is not False for check in found.values())
    assert found["steps"].why == "37 steps reach 37 in the log, twice as many at 74"
    assert judged({(1, 1): differs, **others})["repeat"].passed is False
    declared = judged({(1, 1): differs, **others}, "no")["repeat"]
    assert declared.passed and "declared" in declared.why
    lacking = sheet(1, primary=None, missing=("success",))
    assert judged({(1, 1): [lacking, lacking], **others})["metric"].passed is False
