"""A policy that runs in a browser: its description matches telic's computation."""

from pathlib import Path

import mujoco
import numpy as np
import pytest
import torch

from telic import bench
from telic.envs import make
from telic.envs.task import ObservationBlock
from telic.envs.tasks import TASKS
from telic.errors import UsageError
from telic.robots.build import build_robot
from telic.robots.record import guessed
from telic.training.export.live import live_policy, seen_blocks
from tests.training.export.conftest import make_policy

DOG = Path(bench.__file__).parent / "suites" / "robots" / "dog.xml"
QUICK = ("HalfCheetah-v5", "Ant-v5", "Reacher-v5", "InvertedDoublePendulum-v5")
SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in TASKS if name not in QUICK]


@pytest.fixture(scope="module")
def dog(tmp_path_factory):
    return str(build_robot(guessed(DOG), tmp_path_factory.mktemp("driven"), "dog"))


def computed(blocks: tuple[ObservationBlock, ...], field) -> np.ndarray:
    """Return the observation as a page computes it."""
    functions = {"none": lambda x: x, "sin": np.sin, "cos": np.cos}
    columns = []
    for block in blocks:
        values = field(block.field)[:, block.first : block.first + block.count]
        if block.minus is not None:
            values = values - field(block.field)[:, block.minus : block.minus + block.count]
        columns.append(functions[block.applied](values).clip(block.low, block.high))
    return np.concatenate(columns, 1)


@pytest.mark.parametrize("name", [*QUICK, *SLOW])
def test_the_layout_of_every_task_gives_its_observation(name):
    env = make(name, num_envs=6, seed=9)
    blocks = seen_blocks(env)
    assert sum(block.count for block in blocks) == env.obs_dim
    fields = {block.field: env.sim.field(block.field) for block in blocks}
    env.reset()
    for _ in range(12):
        spread = torch.rand((6, env.act_dim))
        env.step(torch.lerp(env.action_low, env.action_high, spread))
        seen = computed(blocks, lambda field: fields[field].flatten(1).numpy())
        assert np.abs(seen - env.exact_obs.numpy()).max() < 1e-9


def policy_of(env: str, **arguments):
    made = make(env, num_envs=1, **arguments)
    policy = make_policy(made.obs_dim, made.act_dim)
    policy.facts |= {"obs_names": list(made.spec.obs_names)}
    policy.facts |= {"action_names": list(made.spec.action_names)}
    policy.low, policy.high = made.action_low, made.action_high
    policy.flat *= 0.3  # who flails leaves rounding no time to stay small
    return policy


class Elsewhere:
    """Replicate the page with MuJoCo's functions, without an environment of telic."""

    def __init__(self, made, folder: Path) -> None:
        import onnxruntime

        self.about = made.about
        for name, content in made.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(content)
        self.model = mujoco.MjModel.from_xml_path(str(folder / "scene.xml"))
        for name, numbers in made.about.numbers.items():
            getattr(self.model, name).flat[:] = numbers
        self.data = mujoco.MjData(self.model)
        self.policy = onnxruntime.InferenceSession(made.files["policy.onnx"])

    def trace(self):
        start, data = self.about.starts[0], self.data
        data.qpos[:], data.qvel[:] = start.qpos, start.qvel
        mujoco.mj_forward(self.model, data)
        for _ in self.about.trace.qpos:
            fields = lambda name: getattr(data, name).reshape(1, -1)  # noqa: E731
            obs = computed(self.about.blocks, fields).astype("f4")
            action = self.policy.run(["action"], {"obs": obs})[0][0]
            data.ctrl[:] = action
            mujoco.mj_step(self.model, data, self.about.physics_steps)
            if self.about.contact_forces:
                mujoco.mj_rnePostConstraint(self.model, data)
            yield action, data.qpos.copy()


@pytest.mark.parametrize("name", ["Ant-v5", pytest.param("HalfCheetah-v5", marks=pytest.mark.slow)])
def test_the_files_alone_play_what_telic_played(name, tmp_path):
    made = live_policy(policy_of(name), (name, {}))
    played = list(Elsewhere(made, tmp_path).trace())
    states = np.array([qpos for _, qpos in played]) - made.about.trace.qpos
    actions = np.array([action for action, _ in played]) - made.about.trace.actions
    assert len(played) == 20 and np.abs(states).max() < 1e-4 and np.abs(actions).max() < 1e-3


def test_a_driven_robot_says_its_commands_and_grounds_and_sends_no_looks(dog):
    arguments = {"commands": {}, "variation": "full", "terrain": "stairs"}
    policy = policy_of(dog, commands={})
    made = live_policy(policy, (dog, arguments), "rough")
    about = made.about
    assert about.deployment is not None and about.blocks is None
    assert set(about.deployment.commands or {}) == {"forward", "sideways", "turn"}
    assert "stairs" in about.grounds and len(about.trace.command) == 3
    assert b"input=" not in made.files["scene.xml"] and b"<texture" not in made.files["scene.xml"]
    rows, columns = np.frombuffer(made.files["assets/telic_terrain.bin"][:8], "<i4")
    assert len(made.files["assets/telic_terrain.bin"]) == 8 + 4 * rows * columns


def test_an_observation_without_a_layout_is_refused(dog):
    with pytest.raises(UsageError, match="a browser cannot compute it"):
        seen_blocks(make(dog, num_envs=1))


@pytest.mark.parametrize("env", ["CartPole-v1", "module:Class", "robot.toml"])
def test_invalid_mujoco_model_is_refused_before_import(env):
    with pytest.raises(UsageError, match="cannot run in a browser"):
        live_policy(make_policy(), (env, {}))
