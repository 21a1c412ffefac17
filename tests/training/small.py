"""Jobs small enough to train for real in a second or two."""

from pathlib import Path
from typing import Any

from telic.envs.simulators.names import permit_env
from telic.storage.layout import RunFolder
from telic.training.job import TrainJob
from telic.training.plan import plan
from telic.training.run import execute

SETTINGS = {
    "num_envs": 8,
    "horizon": 32,
    "minibatch_size": 64,
    "epochs": 3,
    "hidden": (16, 16),
    "learning_rate": 1e-3,
}

SPEED = """
from telic import RewardFunction

class Speed(RewardFunction):
    weights = {"speed": 1.0, "control": 0.1}

    def compute(self, obs, action, next_obs, info):
        terms = {
            "speed": self.weights["speed"] * info["x_velocity"],
            "control": -self.weights["control"] * (action**2).sum(-1),
        }
        return sum(terms.values()), terms
"""

CONTROL = """
from telic import RewardFunction

class Control(RewardFunction):
    def compute(self, obs, action, next_obs, info):
        terms = {"control": -(action**2).sum(-1)}
        return terms["control"], terms
"""


def small_job(env: str = "HalfCheetah-v5", steps: int = 1024, **changes: Any) -> TrainJob:
    settings = {**SETTINGS, **changes.pop("settings", {})}
    options = {"evaluations": 2, "eval_episodes": 2, "save_every_s": 0.05, **changes}
    options.setdefault("env_args", {"max_episode_steps": 40})
    # As `telic train` does: who asks for a job names its environment.
    permit_env(env, {"python": options.get("python"), **options["env_args"]})
    return plan(env, steps=steps, settings=settings, **options)


def train_here(job: TrainJob, folder: Path, **options: Any) -> RunFolder:
    """Train in this process, without the sandboxed worker's start-up time."""
    run = execute(job, folder, confined=False, **options)
    return RunFolder(run.path)
