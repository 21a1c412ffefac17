"""Test conditions that do not occur in training: other physics, pushes, noise and delayed actions.

A `Disturbance` defines the magnitudes, and `Disturbed` applies them to the steps of an environment.
Friction and mass are changed in the model before simulation. A push is a sudden change of the
root's velocity. Noise affects the observations of the policy but not the recording. A delayed
action is applied one control step after it was chosen.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

import mujoco
import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.seeds import derive
from telic.core.tensors import norm
from telic.envs.mujoco import MujocoEnv
from telic.envs.vector import VecEnv
from telic.sim.simulation import altering

_GRAVITY = 9.81
_MIN_HEIGHT_M = 0.1
"""minimum height for scaling pushes, in m, so that a robot lying on the ground is also pushed"""
_PUSH_EVERY_S = 1.0


class Disturbance(Record):
    """Differences from the training conditions. By default, all conditions are equal."""

    friction: float = 1.0
    """factor on the friction of every contact"""
    mass: float = 1.0
    """factor on the mass and inertia of every body"""
    push: float = 0.0
    """horizontal velocity change once per second, as a fraction of sqrt(gravity * height)"""
    noise: float = 0.0
    """standard deviation of observation noise, relative to the observed variation so far"""
    delay: int = 0
    """number of control steps between choosing and applying an action"""

    @property
    def needs_physics(self) -> bool:
        """True if the disturbance requires an environment simulated by telic."""
        return self.friction != 1.0 or self.mass != 1.0 or self.push != 0.0

    def is_possible(self, env: VecEnv) -> bool:
        """Return whether the disturbance can be applied to an environment."""
        if not self.needs_physics:
            return True
        return isinstance(env, MujocoEnv) and (self.push == 0.0 or bool(_pushed(env)))


@contextmanager
def other_physics(disturbance: Disturbance | None) -> Generator[None]:
    """Apply the friction and mass of a disturbance to environments created in the context."""

    def change(model: mujoco.MjModel) -> None:
        if disturbance is None:
            return
        model.geom_friction[:] *= disturbance.friction
        model.pair_friction[:] *= disturbance.friction
        if disturbance.mass != 1.0:
            model.body_mass[:] *= disturbance.mass
            model.body_inertia[:] *= disturbance.mass
            mujoco.mj_setConst(model, mujoco.MjData(model))

    with altering(change):
        yield


class Disturbed:
    """Apply a disturbance to one environment. The result is deterministic for a given seed."""

    def __init__(self, env: VecEnv, disturbance: Disturbance | None, seed: int) -> None:
        self._env = env
        self._how = disturbance or Disturbance()
        self._chance = torch.Generator().manual_seed(derive("disturbance", seed) % 2**63)
        self._late: list[Tensor] = []
        self._steps = 0
        self._moments = (0.0, torch.zeros(()), torch.zeros(()))

    def seen(self, obs: Tensor) -> Tensor:
        """Return the noisy observation that the policy receives, shape (N, D)."""
        if not self._how.noise:
            return obs
        count, total, squares = self._moments
        count, total = count + len(obs), total + obs.double().sum(0)
        squares = squares + obs.double().square().sum(0)
        self._moments = (count, total, squares)
        spread = (squares / count - (total / count).square()).clamp(min=0.0).sqrt().float()
        drawn = torch.randn(obs.shape, generator=self._chance)
        return obs + self._how.noise * spread * drawn

    def applied(self, action: Tensor) -> Tensor:
        """Return the action that the robot executes, i.e. the policy's action or an earlier one."""
        if not self._how.delay:
            return action
        self._late.append(action)
        if len(self._late) <= self._how.delay:
            return self._at_rest(action)
        return self._late.pop(0)

    def push(self) -> None:
        """Push the robot if a push is due. Called after every step."""
        self._steps += 1
        env = self._env
        if not self._how.push or not isinstance(env, MujocoEnv):
            return
        every = max(1, round(_PUSH_EVERY_S / (env.dt or _PUSH_EVERY_S)))
        if self._steps % every != every // 2:  # offset, so short episodes have one
            return
        axes = _pushed(env)
        drawn = torch.randn((env.num_envs, len(axes)), generator=self._chance, dtype=torch.float64)
        direction = drawn / norm(drawn)[:, None].clamp(min=1e-9)
        height = max(env.robot.rest_height or 0.0, _MIN_HEIGHT_M)
        speed = self._how.push * math.sqrt(_GRAVITY * height)
        # On a CPU the field is a view of the state, and evidence is recorded on a CPU.
        env.sim.field("qvel")[:, axes] += speed * direction

    def _at_rest(self, action: Tensor) -> Tensor:
        """Return the action for the steps before the first one arrives: the middle of the range."""
        env = self._env
        if env.num_actions is not None:
            return action
        return ((env.action_low + env.action_high) / 2.0).expand_as(action).clone()


def _pushed(env: MujocoEnv) -> list[int]:
    return [slide.dof for slide in env.robot.root.slides if slide.axis != "z"]
