"""N MuJoCo environments: clocks, autoreset, seeds and lazy info around a task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import mujoco
import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import uniform
from telic.envs.anatomy import body_names, robot_of
from telic.envs.info import Info, InfoSchema
from telic.envs.names import action_names, joints
from telic.envs.spec import EnvSpec
from telic.envs.starts import Starts
from telic.envs.task import Read, Task
from telic.envs.vector import Step, seed_rows
from telic.errors import ConfigError, TelicError, UsageError
from telic.sim import Simulation

_STAGGER = 101  # stream of random numbers for the initial clocks; tasks use the low numbers
_DIVERGED = [
    mujoco.mjtWarning.mjWARN_BADQPOS.value,
    mujoco.mjtWarning.mjWARN_BADQVEL.value,
    mujoco.mjtWarning.mjWARN_BADQACC.value,
]

# Fields of the simulation that info offers, where the model has them: name, meaning.
_FIELDS = {
    "qpos": "generalised positions (N, nq)",
    "qvel": "generalised velocities (N, nv)",
    "qacc": "generalised accelerations of the last substep (N, nv)",
    "qfrc_actuator": "generalised forces of the actuators (N, nv)",
    "actuator_force": "force of each actuator (N, nu)",
    "xpos": "position of each body frame in the world (N, nbody, 3), m",
    "xquat": "orientation of each body frame, w first (N, nbody, 4)",
    "xipos": "centre of mass of each body in the world (N, nbody, 3), m",
    "cvel": "velocity about the tree's centre of mass: rotation, translation (N, nbody, 6)",
    "subtree_com": "centre of mass of each body with all that hangs on it (N, nbody, 3), m",
    "cfrc_ext": "external force on each body: torque, force (N, nbody, 6)",
    "site_xpos": "position of each site in the world (N, nsite, 3), m",
    "sensordata": "sensor readings (N, nsensordata)",
    "time": "simulated time since the episode began (N,), s",
}


class MujocoEnv:
    """N environments of one task. Implements `telic.envs.vector.VecEnv`.

    `exact_obs`, `exact_final_obs` and `exact_reward` are the latest `obs`, `final_obs` and `reward` in
    the simulation's own precision (float64 on a CPU).

    A simulation in which the engine gives up (out of memory, a singular model) is cut off: its
    transition is marked truncated and it starts a new episode; if that fails at once too, an error is
    raised. A simulation that diverges (NaN or huge numbers) is put back to its default pose by MuJoCo
    itself, as in Gymnasium, and its episode goes on; `info["diverged"]` tells.
    """

    num_actions: int | None = None
    dt: float | None

    def __init__(self, sim: Simulation, task: Task, *, seed: int | Sequence[int] = 0) -> None:
        self.sim = sim
        self.task = task
        self.model = sim.model
        self.num_envs = sim.num_sims
        self.device = sim.device
        self.dt = task.dt
        self.max_episode_steps = task.arguments.max_episode_steps
        self.robot = robot_of(
            sim.model, task.qpos0.cpu().numpy(), task.id.rpartition("-v")[0] or task.id
        )
        self.spec = self._describe()
        self.obs_dim = self.spec.obs_dim
        self.act_dim = self.spec.act_dim
        self.action_low = torch.tensor(self.spec.action_low, device=self.device)
        self.action_high = torch.tensor(self.spec.action_high, device=self.device)
        bodies = {name: row for row, name in enumerate(self.spec.body_names)}
        self._schema = InfoSchema(self.spec.info_keys, bodies, self.robot, self.spec)
        self._readers = self._make_readers()
        self._precision = sim.field("qpos").dtype
        self._plant(seed_rows(seed, self.num_envs, self.device))
        self._episode = torch.full_like(self._seed, -1)  # number of each one's present episode
        self._clock = torch.zeros_like(self._seed)  # steps since its beginning
        self._fresh = torch.ones_like(
            self._seed, dtype=torch.bool
        )  # next step is an episode's first
        self._tracked = torch.empty(0)  # where the last step ended, of what the task tracks
        self._serial = 0  # grows with every step and reset; tells an info whether it is of the past
        # Fields to save from the autoreset. Warnings are counters: no later look can restore them.
        self._watched = {"warning"}
        self.exact_obs = self.exact_final_obs = self.exact_reward = torch.empty(0)
        self._forget()

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes everywhere; see `VecEnv.reset`."""
        if seed is not None:
            self._plant(seed_rows(seed, self.num_envs, self.device))
            self._episode.fill_(-1)
        self._forget()
        everyone = torch.ones_like(self._fresh)
        self._start(everyone)
        self._fresh = everyone
        self._tracked = self.task.track()
        self.exact_obs = self.exact_final_obs = self.task.observe()
        return self.exact_obs.float()

    def step(self, action: Tensor) -> Step:
        """Make one control step everywhere; see `VecEnv.step`."""
        self._check(action)
        self._forget()
        self._action = action = action.to(self._precision)
        self._state_before = self.sim.state()
        self.sim.step(action, self.task.arguments.frame_skip)
        tracked = self.task.track()
        reward, terminated, values = self.task.outcome(action, tracked - self._tracked)
        exact = self.exact_final_obs = self.task.observe()
        self._clock += 1
        terminated, truncated = self._ending(terminated)
        info = Info(partial(self._value, self._serial, self._fresh), self._schema, values)
        final_obs = obs = exact.float()
        done = terminated | truncated
        # Asking whether any episode ended is free on a CPU; elsewhere it would stall the queue.
        if self.device.type != "cpu" or done.any():
            self._hold()
            self._start(done)
            rows = done[:, None]
            exact = torch.where(rows, self.task.observe(), exact)
            tracked = torch.where(rows, self.task.track(), tracked)
            obs = exact.float()
        self._fresh = done
        self._tracked = tracked
        self.exact_obs = exact
        self.exact_reward = reward
        return Step(obs, reward.float(), terminated, truncated, info, final_obs)

    def stagger(self) -> None:
        """Set each episode clock to a random age; see `VecEnv.stagger`."""
        if self.max_episode_steps is not None:
            age = uniform(self._seed, self._episode, 1, stream=_STAGGER)[:, 0]
            self._clock = (age * self.max_episode_steps).long()

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to go on bit for bit; the tensors are copies."""
        return {
            "id": self.spec.id,
            "simulation": self.sim.state(),
            "seed": self._seed.clone(),
            "episode": self._episode.clone(),
            "clock": self._clock.clone(),
            "fresh": self._fresh.clone(),
            "tracked": self._tracked.clone(),
            "obs": self.exact_obs.clone(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take up a state; `exact_obs` is then the observation to act on next."""
        if state["id"] != self.spec.id or state["clock"].shape != self._clock.shape:
            raise ConfigError(
                f"A state of {len(state['clock'])} x {state['id']} does not fit "
                f"{self.num_envs} x {self.spec.id}.",
                hint="Make the environment as it was when the state was saved.",
            )
        self._forget()
        self.sim.load_state(state["simulation"])
        self._plant(state["seed"].clone())
        self._episode = state["episode"].clone()
        self._clock = state["clock"].clone()
        self._fresh = state["fresh"].clone()
        self._tracked = state["tracked"].clone()
        self.exact_obs = self.exact_final_obs = state["obs"].clone()

    def close(self) -> None:
        """Free threads and memory, as far as nobody holds a field of the simulation."""
        self._serial += 1
        del self.sim, self.task

    # ---- episodes

    def _plant(self, seed: Tensor) -> None:
        self._seed = seed
        self._starts = Starts(self.task.start, seed)

    def _start(self, mask: Tensor) -> None:
        """Begin the next episode where `mask`."""
        self._episode += mask
        self.sim.reset(mask, *self._starts.at(self._episode))
        self._clock.masked_fill_(mask, 0)

    def _ending(self, terminated: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return terminated and truncated, after time limits and failures of the engine."""
        if terminated is None:
            terminated = torch.zeros_like(self._fresh)
        if self.max_episode_steps is None:
            truncated = torch.zeros_like(self._fresh)
        else:
            truncated = self._clock >= self.max_episode_steps
        failed = self.sim.failed
        if failed is not None:
            if bool((failed & self._fresh).any()):
                raise TelicError(
                    f"MuJoCo fails in {int(failed.sum())} of {self.num_envs} simulations of "
                    f"{self.spec.id}, in some on the first step of an episode.",
                    hint="The model is at fault; try it in MuJoCo's viewer.",
                )
            terminated, truncated = terminated & ~failed, truncated | failed
        return terminated, truncated

    def _check(self, action: Tensor) -> None:
        if action.shape != (self.num_envs, self.act_dim):
            raise ConfigError(
                f"An action of shape {tuple(action.shape)} does not fit {self.num_envs} environments "
                f"with {self.act_dim} actuators: expected {(self.num_envs, self.act_dim)}."
            )
        if len(self.exact_obs) == 0:
            raise UsageError("step was called before reset.", hint="Call env.reset() once first.")

    # ---- info

    def _forget(self) -> None:
        """Leave the last transition behind."""
        self._serial += 1
        self._held: dict[str, Tensor] = {}
        self._has_started = False  # whether episodes began since the transition was made

    def _hold(self) -> None:
        """Copy what infos use to read, before new episodes overwrite it."""
        self._held = {name: self.sim.field(name).clone() for name in self._watched}
        self._has_started = True

    def _value(self, serial: int, fresh: Tensor, name: str) -> Tensor:
        """Compute an info value of the latest transition."""
        if serial != self._serial:
            raise UsageError(
                f'info["{name}"] was first asked for after the environment had moved on.',
                hint="Ask before the next step; what was asked once can be kept.",
            )
        if name == "episode_start":
            return fresh.clone()
        return self._readers[name](self._read).clone()

    def _read(self, name: str) -> Tensor:
        """Return a field as it was at the end of the latest transition, before new episodes began."""
        if name == "action":
            return self._action
        held = self._held.get(name)
        if held is not None:
            return held
        self._watched.add(name)
        if self._has_started:
            return self._recall(name)
        return self.sim.field(name)

    def _recall(self, name: str) -> Tensor:
        """Make the latest step once more, for a field nobody had asked for when it was overwritten.

        Happens at most once per field and environment: from then on it is watched.
        """
        now = self.sim.state()
        self.sim.load_state(self._state_before)
        field = self.sim.field(name)
        self.sim.step(self._action, self.task.arguments.frame_skip)
        self._held[name] = field.clone()
        self.sim.load_state(now)
        return self._held[name]

    def _make_readers(self) -> dict[str, Callable[[Read], Tensor]]:
        def field(name: str) -> Callable[[Read], Tensor]:
            return lambda read: read(name)

        return {
            **{name: field(name) for name in self.spec.info_keys if name in _FIELDS},
            "action": field("action"),
            "contacts": lambda read: read("cfrc_ext")[:, :, 3:].norm(dim=2),
            "diverged": lambda read: (read("warning")[:, _DIVERGED] > 0).any(1),
            "dt": lambda read: torch.full_like(read("time"), self.task.dt),
            **self.task.readers,
        }

    def _describe(self) -> EnvSpec:
        task, model = self.task, self.model
        names = body_names(model)
        # An actuator without limits takes any number; ±1 is where learning may start from.
        limited = model.actuator_ctrllimited[:, None].astype(bool)
        limits = np.where(limited, model.actuator_ctrlrange, (-1.0, 1.0)).astype(np.float32)
        low, high = limits.T.tolist()
        fields = {name: meaning for name, meaning in _FIELDS.items() if self._has(name)}
        return EnvSpec(
            id=task.id,
            description=task.description,
            obs_names=task.obs_names,
            action_names=action_names(model),
            action_low=tuple(low),
            action_high=tuple(high),
            dt_s=task.dt,
            max_episode_steps=task.arguments.max_episode_steps,
            info_keys={
                **task.meanings,
                **fields,
                "contacts": "size of the net external force on each body (N, nbody), newtons",
                "action": "action as given (N, act_dim)",
                "dt": "simulated seconds per step (N,)",
                "episode_start": "whether this was the first step of its episode (N,)",
                "diverged": "whether numbers exploded in this episode (N,)",
            },
            body_names=names,
            joints=joints(model),
            torso=None if self.robot.torso is None else names[self.robot.torso],
            feet=tuple(names[foot] for foot in self.robot.feet),
            robot=self.robot,
            notes=task.notes,
            arguments=task.arguments.model_dump(mode="json"),
        )

    def _has(self, name: str) -> bool:
        sizes = {"site_xpos": self.model.nsite, "sensordata": self.model.nsensordata}
        return sizes.get(name, 1) > 0
