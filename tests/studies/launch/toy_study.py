"""A repository whose training appends its nonce to a file, with an approved study around it."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from telic.studies.administration import create_study
from telic.studies.approvals import Consent, grant
from telic.studies.candidates import PATCH_NAME, new_candidate
from telic.studies.canonical import utc_now
from telic.studies.contract import ALWAYS_REQUIRED, amend, required_approvals
from telic.studies.documents.base import StudyActor, update_yaml, write_yaml
from telic.studies.evidence.store import add_evidence
from telic.studies.rules.checks import validate_candidate
from tests.studies.fresh import FreshStudy

HUMAN = StudyActor(kind="human", name="ada")
AGENT = StudyActor(kind="agent", name="coder", session="s1")
SEEDS = (1, 2, 3)

TRAIN = '''\
"""Train: leave a mark of this start, work for a moment, write what proves the end."""
import json, os, pathlib, sys, time

run_dir, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2])
mark = os.environ["TELIC_NONCE"] + " " + str(seed) + chr(10)
handle = os.open("starts.txt", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
os.write(handle, mark.encode())
time.sleep(float(os.environ.get("TOY_SLEEP", "0.05")))
(run_dir / "metrics.jsonl").write_text(json.dumps({"step": 1, "success": 0.5}) + chr(10))
(run_dir / "done").write_text("yes")
'''
EVALUATOR = "print('evaluate')\n"
FILES: dict[str, str] = {}
"""more files of the repository"""
PATCH = """\
--- a/reward.py
+++ b/reward.py
@@ -1,2 +1,2 @@
-weight = 1
+weight = 2
 bonus = 0
"""


def git(root: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=root, check=True, capture_output=True)


def make_repository(root: Path) -> None:
    reward = "weight = 1\nbonus = 0\n"
    files = {"train.py": TRAIN, "reward.py": reward, "evaluate.py": EVALUATOR, **FILES}
    commit_files(root, {**files, ".gitignore": ".telic/\nstarts.txt\n"})


def commit_files(root: Path, files: dict[str, str]) -> None:
    """Make a repository of these files."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    commit_all(root)


def commit_all(root: Path) -> None:
    """Make a repository of the files in a folder."""
    git(root, "init", "-q")
    git(root, "config", "user.email", "ada@example.org")
    git(root, "config", "user.name", "ada")
    git(root, "add", ".")
    git(root, "commit", "-q", "-m", "first")


ADAPTER = {
    "schema": "telic.adapter/1",
    "commands": {
        "train": {"argv": [sys.executable, "train.py", "{run_dir}", "{seed}", "{overrides}"]},
        "eval": None,
        "smoke": None,
        "resume": None,
    },
    "config": {"system": "argparse", "override_style": "--k v"},
    "logging": {"sources": [{"kind": "wandb", "default": True, "network": True}]},
    "metrics": {"map": {"success": "success"}},
    "files": {"evaluator": {"globs": ["evaluate.py"]}},
    "launcher": {"kind": "local", "options": {"grace_s": 0.5}},
    "seeds": {"flag": "--seed", "controllable": True},
    "outputs": {"completion": {"marker_file": "done"}},
    "provenance": {name: {"status": "confirmed"} for name in ("commands", "metrics", "seeds")},
}
METRIC_SPEC = {
    "schema": "telic.metric_spec/1",
    "primary": {"key": "success", "direction": "max"},
    "guardrails": [{"key": "falls", "direction": "min", "rule": "absolute", "threshold": 0.2}],
    "extractor": {"kind": "jsonl", "path": "metrics.jsonl"},
}
PROTOCOL = {
    "schema": "telic.eval_protocol/1",
    "evaluator_files": {"evaluate.py": hashlib.sha256(EVALUATOR.encode()).hexdigest()},
    "episodes": 10,
}
CONTRACT = {
    "scope": {
        "kinds": ["config", "reward_engineering", "code"],
        "params": {"reward.weight": {"type": "float", "min": 0.5, "max": 4}},
        "files": {"allow": ["reward.py"]},
        "limits": {"max_concurrent": 2},
    },
    "budget": {"launches": 60, "wall_clock_h": 10},
    "baseline": {"seeds": [901, 902, 903, 904, 905]},
    "evaluation": {"measures_training_log": True},
}


def make_study(root: Path) -> FreshStudy:
    """Make the repository, an agreed contract and every approval."""
    make_repository(root)
    study = FreshStudy(create_study(root, "toy", "first", HUMAN, statement="reach the goal").folder)
    folder = study.folder
    write_yaml(folder.adapter, ADAPTER)
    write_yaml(folder.metric_spec, METRIC_SPEC)
    write_yaml(folder.protocol, PROTOCOL)
    update_yaml(folder.contract, CONTRACT)
    amend(study, HUMAN, "the first agreement")
    approve(study, *ALWAYS_REQUIRED)
    prove(study)
    return study


def prove(study: FreshStudy) -> None:
    """Enter a smoke test of the adapter as it is that was passed."""
    proof = {"adapter_hash": study.adapter.proven_hash, "checks": []}
    add_evidence(study, "preflight", proof, AGENT, candidate="c-0000-earlier")


def accept_baseline(study: FreshStudy) -> None:
    """Enter a baseline that was accepted, so that candidates may run."""
    name = new_candidate(study, "accepted", {"kind": "baseline"}, AGENT).id
    incumbent = {"candidate": name, "protocol_hash": study.state.protocol_hash}
    facts = {"verdict": "accept", "to": "accepted", "incumbent": incumbent}
    study.append("decision.recorded", name, facts, HUMAN)


def approve(study: FreshStudy, *keys: str, candidate: str | None = None) -> None:
    for key in keys:
        consent = Consent(by="ada", method="tty", at=utc_now())
        grant(study, key, consent, candidate=candidate)


def change_contract(study: FreshStudy, changes: dict) -> None:
    """Amend the contract and have all of it approved again."""
    update_yaml(study.folder.contract, changes)
    amend(study, HUMAN, "a test needs it")
    approve(study, *required_approvals(study.contract))


def make_baseline(study: FreshStudy, seeds: tuple[int, ...] = SEEDS, **plan) -> str:
    """Make a validated, approved baseline whose smoke phase has some seeds."""
    plan = {"est": {"wall_clock_h": 5.06}, "seeds": {"smoke": list(seeds)}, **plan}
    return make_candidate(study, kind="baseline", plan=plan)


def make_candidate(study: FreshStudy, *, patch: str | None = None, approved=True, **draft) -> str:
    """Make a validated candidate."""
    attached = None if patch is None else {PATCH_NAME: patch.encode()}
    if draft.get("kind") != "baseline" and study.incumbent is None:
        accept_baseline(study)
    name = new_candidate(study, "try it", draft, AGENT, attached).id
    outcome = validate_candidate(study, name)
    assert outcome.ok, [each for each in outcome.checks if not each.passed]
    if approved:
        approve(study, "experiment", candidate=name)
    return name


def starts(study: FreshStudy) -> list[tuple[str, int]]:
    """Return (nonce, seed) of every start of the training command."""
    path = study.folder.root / "starts.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(line.split()[0], int(line.split()[1])) for line in lines]
