"""`VecEnv` adapter for environments of external simulators.

Each member of a population has a separate simulator process, so that members are independent of
each other regardless of the simulator's random number generation. The processes step in parallel.
The reward is the simulator's, and only observation groups, action and reward can be measured.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from torch import Tensor

from telic.core.seeds import derive, uniform
from telic.core.tensors import integers
from telic.envs.simulators._process import ANSWER_S, SimulatorProcess
from telic.envs.simulators.names import ADAPTERS, simulated
from telic.envs.spec import EnvSpec
from telic.envs.vector import STAGGER, Info, Step, VecEnv, seed_rows
from telic.errors import BadEnvironment, ConfigError, UsageError
from telic.sim.cuda_graph import is_recording
from telic.sim.simulation import require_gpu


def make_simulated(
    name: str,
    *,
    num_envs: int,
    device: str = "cpu",
    seed: int | Sequence[int] = 0,
    python: str | None = None,
    answer_s: float = ANSWER_S,
    num_threads: int | None = None,
    **arguments: Any,
) -> SimulatorEnv:
    """Start one simulator process per seed and wait until all are ready.

    `python` is the interpreter of the simulator's virtual environment, `answer_s` the timeout of a
    step. Arguments are dotted attribute paths in the task's configuration. `num_threads` has no
    effect.
    """
    what = simulated(name)
    if what is None:
        raise BadEnvironment(
            f'"{name}" is not a simulator task.', hint=f"Use one of {', '.join(ADAPTERS)}:"
        )
    adapter = ADAPTERS[what.simulator]
    if not what.task:
        raise BadEnvironment(
            f'"{name}" does not name a task. The colon must be followed by {adapter.meaning}.',
            hint=f"Examples: {', '.join(adapter.tasks)}.",
        )
    if device != "cpu":
        require_gpu(device)
    seeds = [seed] if isinstance(seed, int) else list(seed)
    if num_envs < 1 or num_envs % len(seeds):
        raise ConfigError(f"num_envs={num_envs} is not divisible by {len(seeds)} seeds.")
    chosen = str(Path(python).expanduser()) if python else sys.executable
    order = {"num_envs": num_envs // len(seeds), "device": device, "arguments": arguments}
    processes: list[SimulatorProcess] = []
    try:
        for one in seeds:
            process = SimulatorProcess(what, chosen, answer_s, seed=one % 2**31, **order)
            processes.append(process)
        return SimulatorEnv(name, processes, seeds, torch.device(device), arguments)
    except BaseException:
        for process in processes:
            process.close()
        raise


class SimulatorEnv(VecEnv):
    """Batch of N environments in simulator processes."""

    resumable = False
    """Always False, because simulator states cannot be saved. A resumed run starts new episodes."""

    def __init__(
        self,
        name: str,
        processes: Sequence[SimulatorProcess],
        seeds: Sequence[int],
        device: torch.device,
        arguments: dict[str, Any],
    ) -> None:
        facts, *_ = [process.open() for process in processes]
        self.groups: tuple[str, ...] = tuple(facts["groups"])
        self._shows_final, self._can_stagger = facts["shows_final"], facts["can_stagger"]
        self._processes = list(processes)
        num_envs = sum(len(process.arrays["obs"]) for process in processes)
        super().__init__(_spec(name, facts, arguments), num_envs, device)
        self._seed = seed_rows(seeds, self.num_envs, torch.device("cpu"))
        self.exact_obs = torch.empty(0)
        """Observation from which the next action is computed."""
        self._groups: dict[str, Tensor] = {}
        self._begun = 0
        """Number of resets and steps so far, from which a resumed run derives its seeds."""
        self._clock = torch.zeros(self.num_envs, dtype=torch.int64, device=device)
        self._fresh = torch.ones(self.num_envs, dtype=torch.bool, device=device)

    @property
    def processes(self) -> list[int]:
        """Process ids of the simulators, one per member."""
        return [process.pid for process in self._processes]

    def reset(self, seed: int | Sequence[int] | None = None) -> Tensor:
        """Start new episodes in all environments. See `VecEnv.reset`."""
        if seed is not None:
            self._seed, self._begun = seed_rows(seed, self.num_envs, torch.device("cpu")), 0
        return self._restart("again")

    def step(self, action: Tensor) -> Step:
        """Take one step in all environments. See `VecEnv.step`."""
        if is_recording():
            raise UsageError("A simulator in a separate process cannot be part of a CUDA graph.")
        self._check(action, len(self.exact_obs) > 0)
        before, groups_before = self.exact_obs, self._groups
        self._order("step", "action", action)
        self._begun += 1
        self._read()
        reward, terminated, truncated = map(self._take, ("reward", "terminated", "truncated"))
        done = terminated | truncated
        rows = done[:, None]
        if self._shows_final:
            final = self._take("final_obs")
        else:
            final = torch.where(rows, before, self.exact_obs)
        self._clock = self._clock + 1
        values = {
            "action": action.detach().clone(),
            "env_reward": reward.double(),
            "episode_start": self._fresh,
            **{
                name: torch.where(rows, groups_before[name], now).double()
                for name, now in self._groups.items()
            },
            **self._times(),
        }
        self._clock = torch.where(done, 0, self._clock)
        self._fresh = done
        info = Info.of(values, self._schema)
        return Step(self.exact_obs, reward, terminated, truncated, info, final)

    def present(self) -> Info:
        """Return the current observation groups."""
        if not self._groups:
            self._read()  # before the first reset, only the shapes are meaningful
        groups = {name: rows.double() for name, rows in self._groups.items()}
        return Info.of({**groups, **self._times()}, self._schema)

    def stagger(self) -> None:
        """Randomize the age of each episode if the simulator supports it. See `VecEnv.stagger`."""
        if not self._can_stagger or self.max_episode_steps is None:
            return
        age = uniform(self._seed, torch.zeros_like(self._seed), 1, stream=STAGGER)[:, 0]
        age = (age * self.max_episode_steps).long()
        self._order("stagger", "age", age)
        self._clock = age.to(self.device)

    def state_dict(self) -> dict[str, Any]:
        """Return the seeds and step count from which a resumed run derives new episodes."""
        return {"id": self.spec.id, "seed": self._seed.clone(), "begun": self._begun}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Start new episodes. `exact_obs` is then the next observation for the policy."""
        self._check_state(state)
        self._seed, self._begun = state["seed"].cpu().clone(), int(state["begun"])
        self._restart("resume")

    def close(self) -> None:
        """Stop the processes."""
        for process in self._processes:
            process.close()

    def _restart(self, why: str) -> Tensor:
        """Start new episodes, first with the given seeds and later with derived seeds."""
        seeds = integers(self._seed)
        if self._begun or why == "resume":
            seeds = [derive(seed, why, self._begun) for seed in seeds]
        self._begun += 1
        self._order("reset", seeds=seeds)
        self._read()
        self._clock = torch.zeros_like(self._clock)
        self._fresh = torch.ones_like(self._fresh)
        return self.exact_obs

    def _order(
        self,
        do: str,
        array: str | None = None,
        rows: Tensor | None = None,
        seeds: Sequence[int] | None = None,
    ) -> None:
        """Send each simulator its rows of an array or its seeds and wait for all to finish."""
        first = 0
        for process in self._processes:
            own = slice(first, first + len(process.arrays["obs"]))
            first = own.stop
            if array is not None and rows is not None:
                process.arrays[array].copy_(rows[own])
            process.send(do, **({} if seeds is None else {"seeds": seeds[own]}))
        for process in self._processes:
            process.wait()

    def _read(self) -> None:
        self._groups = {name: self._take(f"group:{name}") for name in self.groups}
        self.exact_obs = self._take("obs")

    def _take(self, name: str) -> Tensor:
        """Return a copy of a shared array, concatenated over all members."""
        parts = [process.arrays[name].to(self.device, copy=True) for process in self._processes]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def _times(self) -> dict[str, Tensor]:
        if self.dt is None:
            return {}
        return {"time": self._clock * self.dt, "dt": torch.full_like(self._clock, 1.0) * self.dt}


def _spec(name: str, facts: dict[str, Any], arguments: dict[str, Any]) -> EnvSpec:
    own = {key: facts[key] for key in facts if key in EnvSpec.model_fields}
    simulator = facts["simulator"]
    keys = {
        "action": "the action of this step",
        "env_reward": "the simulator's reward",
        "episode_start": "whether this is the first step of an episode",
    }
    if facts.get("dt_s") is not None:
        keys |= {"time": "seconds since the start of the episode", "dt": "seconds per step"}
    keys |= {group: f"observations of the simulator's group {group}" for group in facts["groups"]}
    own |= {
        "id": name,
        "description": facts["description"] or f"{name}, simulated by {simulator}.",
        "info_keys": keys,
        "notes": (
            f"Simulated by {simulator} in a separate process.",
            "The reward is the simulator's, and quantities of the robot cannot be measured.",
            "A resumed run continues with new episodes.",
            *facts.get("notes", ()),
        ),
        "arguments": dict(arguments),
    }
    try:
        return EnvSpec.model_validate(own)
    except ValidationError as error:
        first = error.errors()[0]
        raise BadEnvironment(
            f"The adapter of {name} sent an invalid message: {first['loc']}: {first['msg']}."
        ) from error
