from pathlib import Path

import pytest
import torch

from telic.storage.layout import RunFolder
from telic.training.networks import Networks, Shape
from telic.training.plan import plan
from telic.training.policy import Policy
from telic.training.run import execute

REWARD = r"""
from telic import RewardFunction


class Reward(RewardFunction):
    weights = {"upright": 2.0, "still": 0.5}
    terms = {"upright": "pole | near vertical", "still": "little speed"}
    latex = r"r = w_u \cos\theta - w_s \dot{x}^2"
    description = "Keep the pole up."

    def compute(self, obs, action, next_obs, info):
        upright = self.weights["upright"] * next_obs[:, 1].cos()
        still = -self.weights["still"] * next_obs[:, 2].square()
        return upright + still, {"upright": upright, "still": still}
"""


def make_policy(
    obs=5, outputs=3, hidden=(16, 8), activation="tanh", discrete=False, memory=0, hide_memory=False
):
    """A policy with random weights, a normalizer and an action range that is not symmetric."""
    inputs = obs + memory
    shape = Shape(inputs, inputs, outputs, discrete, hidden, activation)
    random = torch.Generator().manual_seed(3)
    mask = None
    if memory:
        mask = torch.ones(inputs)
        mask[obs:] = 0.0 if hide_memory else 1.0
    width = 1 if discrete else outputs
    return Policy(
        {
            "facts": {
                "telic": "0.1.0",
                "env": "Made-v0",
                "env_args": {"a": 1},
                "member": "x_seed_7",
                "seed": 7,
                "step": 4096,
                "reward": "run",
                "dt_s": 0.05,
                "obs_names": [f"o{i}" for i in range(obs)],
                "action_names": [f"a{i}" for i in range(width)],
            },
            "shape": shape._asdict(),
            "flat": torch.randn(Networks(shape).size, generator=random) * 0.4,
            "shift": torch.randn(inputs, generator=random),
            "scale": torch.rand(inputs, generator=random) + 0.2,
            "mask": mask,
            "action_low": -torch.rand(width, generator=random) - 0.5,
            "action_high": torch.rand(width, generator=random) * 3.0 + 0.5,
        }
    )


@pytest.fixture(scope="session")
def trained(tmp_path_factory) -> RunFolder:
    """A small finished run of two members with two checkpoints each."""
    job = plan(
        "InvertedPendulum-v5",
        reward=[REWARD],
        steps=512,
        seeds=(1, 2),
        settings={"num_envs": 4, "horizon": 64, "minibatch_size": 64, "epochs": 1, "hidden": (8,)},
        evaluations=2,
        eval_episodes=4,
        threads=1,
    )
    run = execute(
        job, tmp_path_factory.mktemp("runs"), name="small", confined=False, command="telic train X"
    )
    return RunFolder(Path(run.path))
