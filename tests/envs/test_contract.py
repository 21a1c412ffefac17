"""The contract of every environment, for each kind of them."""

from pathlib import Path

import pytest

from telic import bench
from telic.envs import make
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.testing import EnvironmentContract
from telic.tracking.task import make_tracking
from tests.envs.test_tokens import token_robot
from tests.tracking.constructed import library, tiny

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
EVERYTHING = {"commands": {}, "variation": "full", "history": 3, "sees_velocity": True}
KINDS = {
    "HalfCheetah-v5": {},
    "Ant-v5": {},
    "Humanoid-v5": {},
    "Hopper-v5": {"num_threads": 2},
    "Reacher-v5": {},
    "CartPole-v1": {},
    "Pendulum-v1": {},
    "Ant-v4": {},
    "a robot": {},
    "a robot with everything": EVERYTHING,
    "on stairs": {"terrain": "stairs", "starts": "fallen"},
    "tokens": {},
    "tracking": {},
}


@pytest.mark.parametrize("kind", KINDS)
class TestKinds(EnvironmentContract):
    @pytest.fixture(autouse=True)
    def _kind(self, kind, tmp_path_factory):
        self.kind, self.folder = kind, tmp_path_factory.getbasetemp()

    def make(self, num_envs, seed=0):
        if self.kind == "tracking":
            noisy = ("observations.history=3", "events.variation=full")
            config = tiny(*noisy, "observations.command_noise=0.05")
            one = {"num_envs": num_envs, "seeds": (seed,), "threads": 1}
            return make_tracking(config, library(), [0, 1, 2], **one)
        name = self.kind
        if name == "tokens":
            name = token_robot(self.folder, history=3)
        elif not name.endswith(("-v1", "-v4", "-v5")):
            name = str(build_robot(guessed(DOG), self.folder, "dog"))
        return make(name, num_envs=num_envs, seed=seed, max_episode_steps=20, **KINDS[self.kind])
