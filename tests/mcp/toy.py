"""A repository whose training takes a blink, and a person who agrees to what is asked."""

import re
import sys
from pathlib import Path

from mcp_types import ElicitResult

from tests.studies.launch import toy_study
from tests.studies.launch.toy_study import EVALUATOR, commit_files

SECRET = "sk-ant-planted0123456789abcdefXYZ"
ENVIRONMENT_SECRET = "planted-in-the-environment-42"

TRAIN = '''\
"""Train: the score rises with the gain; the seed adds a little noise."""
import argparse, json, pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--out")
parser.add_argument("--seed", type=int)
parser.add_argument("--gain", type=float, default=1.0)
given = parser.parse_args()
out = pathlib.Path(given.out)
noise = ((given.seed * 37 + round(given.gain * 1000) * 13) % 11 - 5) / 500
lines = [{"step": step, "success": given.gain * step / 40 + noise, "falls": 0.1}
         for step in range(1, 21)]
(out / "metrics.jsonl").write_text("".join(json.dumps(each) + chr(10) for each in lines))
(out / "model.txt").write_text("weights")
(out / "done").write_text("yes")
print("api_key = PLANTED")
'''.replace("PLANTED", SECRET)
METRIC_SPEC = {
    **toy_study.METRIC_SPEC,
    "primary": {"key": "success", "direction": "max", "min_effect_abs": 0.01},
}
CONTRACT = {
    "task.success_definition": "success is 0.5 or more",
    "scope.kinds": ["config"],
    "scope.params.gain": {"type": "float", "min": 0.5, "max": 4, "max_step_ratio": 3.0},
    "budget.launches": 60,
    "budget.wall_clock_h": 10,
    "baseline.seeds": [901, 902, 903, 904, 905],
    "baseline.est": {"wall_clock_h": 0.1},
}
COMMAND = [sys.executable, "train.py", "--out", "{run_dir}", "--seed", "{seed}", "{overrides}"]
FIELDS = {
    "commands.train": {"argv": COMMAND},
    "config": {"system": "argparse", "override_style": "--k v"},
    "metrics.map.success": "success",
    "seeds": {"flag": "--seed", "controllable": True},
    "outputs": {"completion": {"marker_file": "done"}, "checkpoint_glob": "model.txt"},
}


def make_repository(root: Path) -> None:
    readme = "Train: `python train.py --out DIR --seed 1`\n"
    files = {"train.py": TRAIN, "evaluate.py": EVALUATOR, "README.md": readme}
    commit_files(root, {**files, ".gitignore": ".telic/\nruns/\n"})


class Person:
    """Answers the forms: reads the code in the question, or does something else."""

    def __init__(self, does: str = "agrees") -> None:
        self.does = does
        self.asked: list[str] = []

    async def __call__(self, context, params) -> ElicitResult:
        self.asked.append(params.message)
        if self.does == "declines":
            return ElicitResult(action="decline")
        code = re.search(r"Type ([a-z]{4}) to agree", params.message)[1]
        typed = code if self.does == "agrees" else "yes"
        return ElicitResult(action="accept", content={"code": typed})
