"""Poses of the ten robots straight from MuJoCo, as recordings with one row."""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
import pytest
import torch

from telic.envs.anatomy import body_names, robot_of
from telic.envs.spec import EnvSpec
from telic.quantities import Recording
from telic.sim.simulation import load_model

ASSETS = {
    "HalfCheetah": "half_cheetah.xml",
    "Ant": "ant.xml",
    "Hopper": "hopper.xml",
    "Walker2d": "walker2d_v5.xml",
    "Humanoid": "humanoid.xml",
    "HumanoidStandup": "humanoidstandup.xml",
    "Swimmer": "swimmer.xml",
    "Reacher": "reacher.xml",
    "InvertedPendulum": "inverted_pendulum.xml",
    "InvertedDoublePendulum": "inverted_double_pendulum.xml",
}
FIELDS = ("qpos", "qvel", "xpos", "xquat", "cvel", "subtree_com", "cfrc_ext")
DT = 0.05


def model_of(name: str) -> mujoco.MjModel:
    """Compile one of the ten models."""
    return load_model(ASSETS[name])


def spec_of(name: str, model: mujoco.MjModel) -> EnvSpec:
    """Describe just as much of an environment as quantities read."""
    return EnvSpec(
        id=f"{name}-v5",
        description="",
        obs_names=(),
        action_names=tuple(str(i) for i in range(model.nu)),
        action_low=(-1.0,) * model.nu,
        action_high=(1.0,) * model.nu,
        dt_s=DT,
        max_episode_steps=None,
        info_keys=dict.fromkeys((*FIELDS, "action"), ""),
        body_names=body_names(model),
        robot=robot_of(model, name=name),
    )


class Pose:
    """A model in a state one can write to by joint name."""

    def __init__(self, name: str, model: mujoco.MjModel | None = None) -> None:
        self.model = model if model is not None else model_of(name)
        self.data = mujoco.MjData(self.model)
        self.spec = spec_of(name, self.model)
        self.action = np.zeros(self.model.nu)

    def set(self, **positions: float) -> Pose:
        for joint, value in positions.items():
            self.data.joint(joint).qpos = value
        return self

    def move(self, **velocities: float) -> Pose:
        for joint, value in velocities.items():
            self.data.joint(joint).qvel = value
        return self

    def act(self, action: object) -> Pose:
        self.action[:] = action
        return self

    def info(self) -> Recording:
        """Compute everything and return it as (1, ...) tensors in float64."""
        self.data.ctrl[:] = self.action
        mujoco.mj_forward(self.model, self.data)
        mujoco.mj_rnePostConstraint(self.model, self.data)
        fields = {each: torch.tensor(getattr(self.data, each))[None] for each in FIELDS}
        fields["action"] = torch.tensor(self.action)[None]
        return Recording(fields, self.spec)


@pytest.fixture
def pose() -> Callable[..., Pose]:
    """Make a robot in its default pose: pose("Ant")."""
    return Pose


@pytest.fixture
def recording() -> Callable[..., Recording]:
    """Record chosen fields of a robot: recording("Ant", qpos=(T, nq), ...)."""

    def make(name: str, **fields: object) -> Recording:
        model = model_of(name)
        tensors = {key: torch.as_tensor(value) for key, value in fields.items()}
        return Recording(tensors, spec_of(name, model))

    return make
