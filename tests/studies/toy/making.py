"""The toy repository and what a person writes into the files of its study."""

import hashlib
import shutil
import sys
from pathlib import Path

from telic.studies.documents.base import write_yaml
from tests.studies.launch.toy_study import commit_all

REPO = Path(__file__).parent / "repo"
STEPS = 230_400
COMMAND = f"{sys.executable} train.py --seed {{seed}} --steps {{steps}} --out {{run_dir}}"
TERMS = ("near", "still", "effort", "smooth", "pace")
METRIC_SPEC = {
    "schema": "telic.metric_spec/1",
    "primary": {
        "key": "success",
        "direction": "max",
        "aggregate": "last",
        "min_effect_abs": 0.02,
        "bounds": [0, 1],
    },
    "components": [{"key": f"reward/{term}"} for term in TERMS],
    "guardrails": [{"key": "end_pace", "direction": "min", "rule": "non_inferior", "margin": 0.2}],
    "extractor": {"kind": "jsonl", "path": "metrics.jsonl"},
}
CONTRACT = {
    "task.success_definition": "within 0.12 of the middle, slower than 0.3, after 24 steps",
    "scope.kinds": ["config", "reward_tuning"],
    "scope.params.reward.effort": {"min": 0.05, "max": 1.2},
    "scope.params.reward.smooth": {"min": 0.0, "max": 0.1},
    "scope.params.reward.pace": {"min": 0.0, "max": 4.0},
    "scope.limits.max_concurrent": 2,
    "budget.launches": 60,
    "budget.wall_clock_h": 1,
    "baseline.seeds": [900, 901, 902, 903, 904],
    "baseline.steps": STEPS,
    "baseline.est": {"wall_clock_h": 0.02},
    # five seeds to claim with: an open question then stays open, instead of asking for more
    "seeds.promotion": "100-104",
    "seeds.validation": "900-909",
}


def make_repository(root: Path) -> None:
    """Copy the toy repository and commit it."""
    shutil.copytree(REPO, root, ignore=shutil.ignore_patterns("__pycache__"))
    (root / ".gitignore").write_text(".telic/\nruns/\n__pycache__/\n")
    commit_all(root)


def write_measures(root: Path, study: Path) -> None:
    """Write which number decides and how it is measured, as a person or an agent would."""
    write_yaml(study / "metric_spec.yaml", METRIC_SPEC)
    files = ("evaluate.py", "pointmass.py")
    hashes = {name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in files}
    protocol = {
        "schema": "telic.eval_protocol/1",
        "evaluator_files": hashes,
        "env_ids": ["PointMass"],
        "eval_seeds": [12345],
        "episodes": 200,
        "horizon": 24,
    }
    write_yaml(study / "eval_protocol.yaml", protocol)
