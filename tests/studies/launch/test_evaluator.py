"""The evaluator cannot be changed by the candidate: it runs in a checkout of the base commit."""

import json
import sys

import pytest

from telic.studies.launch import supervisor
from telic.studies.launch.attempt import TOKEN, LaunchRequest
from telic.studies.launch.launch import launch
from telic.studies.launch.recovery import reconcile
from telic.studies.rules.results import ingest
from tests.studies.launch import toy_study
from tests.studies.launch.kills import settle
from tests.studies.launch.toy_study import AGENT, make_baseline, make_candidate, make_study

TRAIN = """\
import json, pathlib, sys
run_dir = pathlib.Path(sys.argv[1])
(run_dir / "policy.json").write_text(json.dumps({"seed": int(sys.argv[2])}))
(run_dir / "done").write_text("yes")
"""
EVALUATE = """\
import json, pathlib, sys
from helper import score
out = pathlib.Path(sys.argv[1]); out.mkdir(parents=True, exist_ok=True)
row = {"step": 1, "success": score(json.loads(pathlib.Path(sys.argv[2]).read_text())), "falls": 0.0}
(out / "metrics.jsonl").write_text(json.dumps(row) + chr(10))
"""
HELPER = "def score(policy):\n    return 0.1 + policy['seed'] / 10000\n"
CHEAT = """\
--- a/helper.py
+++ b/helper.py
@@ -1,2 +1,2 @@
 def score(policy):
-    return 0.1 + policy['seed'] / 10000
+    return 1.0
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    monkeypatch.setenv("TELIC_CONFIG_DIR", str(tmp_path / "config"))
    monkeypatch.setattr(toy_study, "TRAIN", TRAIN)
    monkeypatch.setattr(toy_study, "EVALUATOR", EVALUATE)
    adapter = {**toy_study.ADAPTER, "outputs": {"checkpoint_glob": "policy.json"}}
    train = {"argv": ["python", "train.py", "{run_dir}", "{seed}"]}
    adapter["commands"] = {**adapter["commands"], "train": train}
    monkeypatch.setattr(toy_study, "ADAPTER", adapter)
    words = ["python", "evaluate.py", "{run_dir}", "{checkpoint}", "{seed}"]
    protocol = {"schema": "telic.eval_protocol/1", "eval_seeds": [7777], "episodes": 1}
    monkeypatch.setattr(toy_study, "PROTOCOL", {**protocol, "command": {"argv": words}})
    scope = {**toy_study.CONTRACT["scope"], "files": {"allow": ["helper.py", "reward.py"]}}
    contract = {**toy_study.CONTRACT, "scope": scope, "exceptions": []}
    contract["generated_code"] = {"allowed": True, "sandbox": "process"}
    monkeypatch.setattr(toy_study, "CONTRACT", contract)
    made = toy_study.make_repository

    def with_helper(root):
        made(root)
        (root / "helper.py").write_text(HELPER)
        toy_study.git(root, "add", ".")
        toy_study.git(root, "commit", "-qm", "helper")

    monkeypatch.setattr(toy_study, "make_repository", with_helper)
    study = make_study(tmp_path / "repo")
    toy_study.approve(study, "generated_code")
    return study


def run(study, name, seed=1):
    """Launch one smoke run, wait for it and return its measurement."""
    request = LaunchRequest(name, "smoke", seed, confirm=TOKEN)
    found = launch(study, request, AGENT).run
    settle(study)
    reconcile(study)
    return ingest(study, found, AGENT).payload


def test_a_candidate_that_edits_what_the_evaluator_imports_changes_no_score(study):
    honest = run(study, make_baseline(study))
    assert honest["primary"] == pytest.approx(0.1001), honest["problem"]
    draft = {
        "kind": "config",
        "hypothesis": {
            "statement": "s",
            "mechanism": "m",
            "falsifier": "f",
            "expected": {"metric": "success", "direction": "max"},
        },
        "evidence_refs": list(study.state.evidence)[:1],
        "plan": {"est": {"wall_clock_h": 0.1}},
    }
    cheat = run(study, make_candidate(study, patch=CHEAT, **draft))
    assert cheat["primary"] == honest["primary"], "measured in a checkout of the base commit"
    assert cheat["code_hash"] == honest["code_hash"]


def test_a_fake_interpreter_for_some_seeds_is_found(study, tmp_path, monkeypatch):
    name = make_baseline(study)
    first = run(study, name, 1)
    fake = tmp_path / "bin" / "python"
    fake.parent.mkdir()
    fake.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(fake.parent), prepend=":")
    second = run(study, name, 2)
    assert second["primary"] is not None
    parts = [each["code_hash"].split("-") for each in (first, second)]
    assert parts[0][1] != parts[1][1], "another interpreter"


def test_an_evaluator_that_is_changed_after_the_launch_does_not_run(tmp_path):
    tree, folder = tmp_path / "tree", tmp_path / "run"
    tree.mkdir()
    (folder / "artefacts").mkdir(parents=True)
    (tree / "evaluate.py").write_text("print(1)")
    evaluator = {
        "tree": str(tree),
        "files": supervisor.importable_files(tree),
        "checkout": supervisor.importable_files(tree),
        "programs": [sys.executable],
    }
    (tree / "numpy.py").write_text("")  # would be imported instead of the installed one
    step = {"name": "train", "folder": ".", "argv": [sys.executable, "-c", ""], "cwd": str(tree)}
    order = {"nonce": "n", "cwd": str(tree), "grace_s": 0.1, "timeout_s": None}
    order |= {"steps": [{**step, "env": {}, "measures": True}], "evaluator": evaluator}
    (folder / supervisor.ORDER_FILE).write_text(json.dumps(order))
    found = supervisor._Supervisor(folder)._step(order["steps"][0])
    assert "numpy.py of the evaluator was changed after the launch" in found["error"]
