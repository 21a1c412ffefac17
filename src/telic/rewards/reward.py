"""Rewards in the form that the trainer calls, independent of the execution mode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from telic.core.text import closest, is_dict, is_row
from telic.envs.spec import RewardSpec
from telic.envs.vector import Info
from telic.errors import ConfigError, RewardError, TelicError
from telic.rewards._run import RUNNERS, BatchedRunner, Mode, Runner, RunnerChoice, choose_runner
from telic.rewards.contract import Device, RewardStep, initial_memory
from telic.rewards.load import RewardCode, read_code
from telic.rewards.recording import TransitionRecording

_PREFIX = "reward_"


class Reward:
    """Reward function for the environments of one or more population members.

        reward = load_reward("reward.py")
        probe(reward, env)                       # chooses the execution mode, raises on errors
        reward.start(env.num_envs, env.device)
        total, terms = reward(obs, action, step.final_obs, step.info)
        reward.reset(step.terminated | step.truncated)

    Untrusted code receives copies, so its changes have no effect on the caller. Non-finite values
    are returned unchanged.
    """

    def __init__(self, code: RewardCode | None, weights: Mapping[str, float] | None = None) -> None:
        """Create a reward from code, or from the environment if `code` is None."""
        self.code = code
        self.name = "environment" if code is None else code.name
        self.spec = RewardSpec(description="The environment's built-in reward.")
        self.weights: dict[str, float] = {}
        self.term_names: tuple[str, ...] = ()
        self.memory_size = 0
        self.seen_memory: tuple[int, ...] = ()
        """columns of the memory that the policy observes (the critic observes all of them)"""
        self.decision: RunnerChoice | None = None
        self._runner: Runner | None = None
        self._num_envs = 0
        self._device: Device = "cpu"
        self._changed = dict(weights or {})
        """weights that differ from those in the source"""
        if code is not None:
            self._read(code)

    def _read(self, code: RewardCode) -> None:
        """Create an instance and read its declarations."""
        try:
            owner = code.create(self._changed).owner
            self.spec = code.describe(owner)
        except TelicError:
            raise
        except Exception as error:
            raise code.explain(error) from error
        weights: object = getattr(owner, "weights", None) or {}
        if not is_dict(weights) or not all(isinstance(x, int | float) for x in weights.values()):
            raise RewardError(
                f"{self.name}.weights must be a dictionary of numbers, not {weights!r}."
            )
        self.weights = {str(name): float(value) for name, value in weights.items()}
        declared = getattr(owner, "memory", None)
        rows = initial_memory(declared) if is_dict(declared) else {}
        columns = [name for name, row in rows.items() for _ in range(row.numel())]
        self.memory_size = len(columns)
        to: object = getattr(owner, "memory_to", "critic")
        shown = {"critic": (), "actor": tuple(rows)}.get(str(to), to)
        if not is_row(shown) or not set(shown) <= set(rows):
            known = ", ".join(f'"{name}"' for name in rows) or "there is none"
            raise RewardError(
                f'{self.name}.memory_to is "{to}", an invalid value.',
                hint='Use "critic", "actor" to show the memory to the policy too, or a tuple of '
                f"names that the policy observes (available: {known}).",
            )
        self.seen_memory = tuple(i for i, name in enumerate(columns) if name in shown)
        self.term_names = tuple(term.name for term in self.spec.terms)

    @property
    def mode(self) -> Mode | None:
        """Execution mode of the code, or None before `probe`."""
        return None if self.decision is None else self.decision.mode

    @property
    def source(self) -> str | None:
        """Source text of the reward, or None for the environment's reward."""
        return self.code.text if self.code else None

    def with_weights(self, weights: Mapping[str, float]) -> Reward:
        """Return an independent reward with some weights changed and the same execution mode.

        Raises ConfigError for an unknown weight name, with the closest matches.
        """
        for name, value in weights.items():
            if name not in self.weights:
                near = closest(name, self.weights)
                known = f"Closest: {', '.join(near)}." if near else ""
                raise ConfigError(
                    f'{self.name} has no weight named "{name}".',
                    hint=known or f"Available weights: {', '.join(self.weights) or 'none'}.",
                )
            if not math.isfinite(value):
                raise ConfigError(f"The weight {name}={value} is not a finite number.")
        changed = {name: float(value) for name, value in weights.items()}
        other = Reward(self.code, {**self._changed, **changed})
        if self.decision is not None:
            other.adopt(self.decision)
        return other

    def copy(self) -> Reward:
        """Return an independent reward with the same execution mode."""
        return self.with_weights({})

    def decide(self, recording: TransitionRecording) -> RunnerChoice:
        """Choose the execution mode on recorded transitions, or raise RewardError on failure."""
        if self.code is not None:
            choice = choose_runner(self.code, self._changed, recording)
        else:
            names = [name for name in recording.transitions[0].info if name.startswith(_PREFIX)]
            parts = tuple(name.removeprefix(_PREFIX) for name in names)
            choice = RunnerChoice("environment", parts)
        self.adopt(choice)
        return choice

    def adopt(self, decision: RunnerChoice) -> None:
        """Use the execution mode of a reward that is equal or differs only in weights."""
        self.decision = decision
        self.term_names = decision.term_names
        if decision.mode != "batched":
            # No network observes the state of a per-environment reward.
            self.memory_size, self.seen_memory = 0, ()
        self._runner = None

    def start(self, num_envs: int, device: Device) -> None:
        """Initialize the state of N environments at the start of their episodes."""
        self._num_envs, self._device, self._runner = num_envs, device, None
        if self.code is not None and self.mode is not None:
            self._runner = RUNNERS[self.mode](self.code, self._changed, num_envs, device)

    def __call__(
        self,
        obs: Tensor,
        action: Tensor,
        next_obs: Tensor,
        info: Info,
        env_reward: Tensor | None = None,
    ) -> RewardStep:
        """Compute the reward of one step. `env_reward` is used only without reward code."""
        if self.decision is None or self._num_envs == 0:
            raise RewardError(
                f"{self.name} was called before start().",
                hint="Call probe(reward, env) and reward.start(num_envs, device) first.",
            )
        if self._runner is None:
            if env_reward is None:
                raise RewardError(
                    "The environment's built-in reward is missing.",
                    hint="Pass it to the call: reward(obs, action, next_obs, info, step.reward).",
                )
            return self.of_environment(info, env_reward)
        total, terms = self._runner.run(obs, action, next_obs, info)
        if tuple(terms) == self.term_names:
            return RewardStep(total, terms)
        nothing = torch.zeros_like(total)
        return RewardStep(total, {name: terms.get(name, nothing) for name in self.term_names})

    def of_environment(self, info: Info, total: Tensor) -> RewardStep:
        """Return the environment's reward and its parts as terms."""
        return RewardStep(total.float(), {name: info[_PREFIX + name] for name in self.term_names})

    def reset(self, mask: Tensor) -> None:
        """Reset the state of ended episodes, selected by `mask` (N,)."""
        if self._runner is not None:
            self._runner.reset(mask)

    def memory(self) -> Tensor:
        """Return the declared memory, (N, memory_size) float32, in declaration order."""
        tensors = self.carried()
        if not tensors:
            return torch.zeros(self._num_envs, self.memory_size, device=self._device)
        rows = [value.reshape(self._num_envs, -1).float() for value in tensors.values()]
        return torch.cat(rows, dim=1)

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary of the tensors that are kept between steps, without copying."""
        return dict(self._runner.memory) if isinstance(self._runner, BatchedRunner) else {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the tensors that are kept between steps."""
        if isinstance(self._runner, BatchedRunner):
            self._runner.memory = dict(tensors)

    def state_dict(self) -> dict[str, Tensor]:
        """Return a dictionary with copies of the memory."""
        return {name: value.detach().clone() for name, value in self.carried().items()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore the memory. Call this after `start`."""
        self.carry({name: value.to(self._device, copy=True) for name, value in state.items()})


def load_reward(
    source: Any,
    *,
    trusted: bool = False,
    weights: Mapping[str, float] | None = None,
    label: str | None = None,
) -> Reward:
    """Load a reward that is ready to be probed and started.

    Args:
        source: a path or the text of a file; None or "default" select the environment's reward.
        trusted: run a file as ordinary Python instead of checking it against the allow-list.
        weights: new values for some of the reward's weights.
        label: name of a text in messages, e.g. "reward.py"; files use their file name.

    Raises:
        RewardError: the source is missing, not Python, or defines no reward.
        RefusedCode: the source uses a feature that is not allowed in untrusted code.
        ConfigError: a weight is unknown.
    """
    if isinstance(source, Reward):
        reward = source
    elif source is None or (isinstance(source, str) and source == "default"):
        reward = Reward(None)
    else:
        reward = Reward(read_code(source, trusted=trusted, label=label))
    if weights and reward.code is None:
        raise ConfigError("The environment's built-in reward has no weights to change.")
    return reward.with_weights(weights) if weights else reward
