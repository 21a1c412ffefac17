"""The reward that a trainer calls, whichever way its code is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from telic.core.text import closest, is_dict, is_row
from telic.envs.vector import Info
from telic.errors import ConfigError, RewardError
from telic.rewards._decide import Mode, RunnerChoice, decide
from telic.rewards._runners import (
    BatchedRunner,
    EnvironmentRunner,
    LoopedRunner,
    Runner,
    VmapRunner,
    reward_parts,
    sum_of_parts,
)
from telic.rewards._source import Definition, describe
from telic.rewards.contract import Device, RewardSpec, RewardStep
from telic.rewards.recording import TransitionRecording

_SAVED = ("mode", "term_names", "is_stateful", "is_resumable", "parts_are_all")
"""what a resumed run must know of the decision"""


class Reward:
    """A reward for the environments of one member, or of several that share it.

        reward = load_reward("reward.py")
        probe(reward, env)                       # decides how to run it; raises when it is wrong
        reward.start(env.num_envs, env.device)
        total, terms = reward(obs, action, step.final_obs, step.info)
        reward.reset(step.terminated | step.truncated)

    A reward that was not probed decides at its first call. It works on copies: nothing it changes
    reaches the caller. Values that are not finite are passed on as they are.
    """

    def __init__(
        self, definition: Definition | None, weights: Mapping[str, float] | None = None
    ) -> None:
        """Hold a definition; None: the environment's own reward. See `load_reward`."""
        self.definition = definition
        self.name = "environment" if definition is None else definition.name
        self.spec = RewardSpec(description="The environment's own reward.")
        self.weights: dict[str, float] = {}
        self.term_names: tuple[str, ...] = ()
        self.memory_size = 0
        self.seen_memory: tuple[int, ...] = ()
        """columns of the memory that the policy sees, too"""
        self.decision: RunnerChoice | None = None
        self._runner: Runner | None = None
        self._num_envs = 0
        self._device: Device = "cpu"
        self.new_weights: dict[str, float] = dict(weights or {})
        """those that differ from the source's"""
        if definition is not None:
            self._read(definition)

    @property
    def mode(self) -> Mode | None:
        """How the code is run; None before `probe` or the first call."""
        return None if self.decision is None else self.decision.mode

    @property
    def is_resumable(self) -> bool:
        """Whether `state_dict` holds everything kept between steps."""
        return self.decision is None or self.decision.is_resumable

    @property
    def source(self) -> str | None:
        """The text of the reward; None when there is none, or it cannot be found."""
        return self.definition.source.text if self.definition else None

    def with_weights(self, weights: Mapping[str, float]) -> Reward:
        """Return an independent reward with some weights changed, decided alike.

        Raises ConfigError for a name that is not a weight, with the closest ones.
        """
        for name, value in weights.items():
            if name not in self.weights:
                near = closest(name, self.weights)
                known = f"Closest: {', '.join(near)}." if near else ""
                raise ConfigError(
                    f'{self.name} has no weight named "{name}".',
                    hint=known or f"Its weights: {', '.join(self.weights) or 'none'}.",
                )
            if not math.isfinite(value):
                raise ConfigError(f"The weight {name}={value} is not a finite number.")
        new = {name: float(value) for name, value in weights.items()}
        twin = Reward(self.definition, {**self.new_weights, **new})
        if self.decision is not None:
            twin.adopt(self.decision)
        return twin

    def copy(self) -> Reward:
        """Return an independent reward, decided alike."""
        return self.with_weights({})

    def decide(self, recording: TransitionRecording) -> RunnerChoice:
        """Find out on recorded transitions how to run the code; raises RewardError."""
        if self.definition is not None:
            self.adopt(decide(self.definition, self.new_weights, recording))
        else:
            names = reward_parts(recording.transitions[0].info)
            are_all = bool(names) and all(
                torch.allclose(sum_of_parts(moment.info), moment.env_reward, rtol=1e-4, atol=1e-4)
                for moment in recording.transitions
            )
            self.adopt(RunnerChoice("environment", names, parts_are_all=are_all))
        assert self.decision is not None
        return self.decision

    def adopt(self, decision: RunnerChoice) -> None:
        """Run the code as decided before, for this reward or one that differs only in weights."""
        self.decision = decision
        self.term_names = decision.term_names
        if decision.mode != "batched":
            # The state of a per-environment reward is shown to no network.
            self.memory_size, self.seen_memory = 0, ()
        self._runner = None

    def start(self, num_envs: int, device: Device) -> None:
        """Start from scratch with N environments, all at the start of an episode."""
        self._num_envs, self._device = num_envs, device
        self._runner = None
        if self.decision is not None:
            self._begin(self.decision)

    def __call__(
        self,
        obs: Tensor,
        action: Tensor,
        next_obs: Tensor,
        info: Info,
        env_reward: Tensor | None = None,
    ) -> RewardStep:
        """Reward one step of all environments.

        Args:
            obs: (N, obs_dim), what was acted on.
            action: (N, act_dim) or (N,).
            next_obs: (N, obs_dim), before any reset.
            info: of the transition.
            env_reward: (N,) the environment's own; read only when that is the reward.
        """
        runner = self._runner
        if runner is None:
            runner = self._first(obs, action, next_obs, info)
        if env_reward is not None and isinstance(runner, EnvironmentRunner):
            return runner.split(env_reward, info)
        return runner.run(obs, action, next_obs, info)

    def reset(self, mask: Tensor) -> None:
        """Forget the episodes that ended, (N,) bool."""
        if self._runner is not None:
            self._runner.reset(mask)

    def memory(self) -> Tensor:
        """Return the declared memory, (N, memory_size) float32, in the order of its declaration."""
        memory = None if self._runner is None else self._runner.memory()
        if memory is None:
            memory = torch.zeros(self._num_envs, self.memory_size, device=self._device)
        return memory

    def carried(self) -> dict[str, Tensor]:
        """Return the tensors kept between steps, by name, themselves and not copies."""
        return self._runner.carried() if self._runner else {}

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Use these tensors from now on."""
        if self._runner is not None:
            self._runner.carry(tensors)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is kept between steps, and how the code is run."""
        decision = self.decision
        if decision is None or self._runner is None:
            return {}
        saved = {name: getattr(decision, name) for name in _SAVED}
        return {"decision": saved, "kept": self._runner.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put it back, after `start`."""
        if not state:
            return
        if self.decision is None:
            self.adopt(_saved_choice(state["decision"]))
        assert self.decision is not None
        if self._runner is None:
            self._begin(self.decision)
        assert self._runner is not None
        self._runner.load_state_dict(state["kept"])

    def _read(self, definition: Definition) -> None:
        """Make one instance to see what it declares."""
        instance = definition.create(self.new_weights)
        self.spec = describe(instance.owner, definition.source)
        owner = instance.owner
        weights: object = getattr(owner, "weights", None) or {}
        if not is_dict(weights) or not all(isinstance(x, int | float) for x in weights.values()):
            raise RewardError(
                f"{self.name}.weights must be a dictionary of numbers, not {weights!r}."
            )
        self.weights = {str(name): float(value) for name, value in weights.items()}
        widths = BatchedRunner(definition, self.new_weights, None).memory_widths
        self.memory_size = sum(widths.values())
        self.seen_memory = self._seen(getattr(owner, "memory_to", "critic"), widths)
        declared = tuple(term.name for term in self.spec.terms)
        self.term_names = declared or tuple(definition.source.terms)

    def _seen(self, memory_to: object, widths: Mapping[str, int]) -> tuple[int, ...]:
        """Return the columns of the memory that `memory_to` shows to the policy."""
        shown = {"critic": (), "actor": tuple(widths)}.get(str(memory_to), memory_to)
        if not is_row(shown) or not set(shown) <= set(widths):
            known = ", ".join(f'"{name}"' for name in widths) or "there is none"
            raise RewardError(
                f'{self.name}.memory_to is "{memory_to}".',
                hint='Write "critic", or "actor" to show the memory to the policy too, or the '
                f"names that it sees, as a tuple (memory: {known}).",
            )
        columns = [name for name, width in widths.items() for _ in range(width)]
        return tuple(column for column, name in enumerate(columns) if name in shown)

    def _first(self, obs: Tensor, action: Tensor, next_obs: Tensor, info: Info) -> Runner:
        if self._num_envs == 0:
            raise RewardError(f"{self.name} was called before start(num_envs, device).")
        if self.decision is None:
            self.decide(TransitionRecording.of_step(obs, action, next_obs, info))
        assert self.decision is not None
        return self._begin(self.decision)

    def _begin(self, decision: RunnerChoice) -> Runner:
        runner = self._make_runner(decision)
        runner.start(self._num_envs, self._device)
        self._runner = runner
        return runner

    def _make_runner(self, decision: RunnerChoice) -> Runner:
        names, definition, weights = decision.term_names, self.definition, self.new_weights
        if definition is None:
            return EnvironmentRunner(names, parts_are_all=decision.parts_are_all)
        if decision.mode == "batched":
            return BatchedRunner(definition, weights, names)
        if decision.mode == "vmap":
            return VmapRunner(definition, weights, names)
        return LoopedRunner(definition, weights, names, is_stateful=decision.is_stateful)


def _saved_choice(saved: dict[str, Any]) -> RunnerChoice:
    """Read a decision from a checkpoint; earlier versions had another mode instead of vmap."""
    fields: dict[str, Any] = {name: saved[name] for name in _SAVED}
    mode = "looped" if saved["mode"] in ("lifted", "vectorised") else saved["mode"]
    fields |= {"mode": mode, "term_names": tuple(saved["term_names"])}
    return RunnerChoice(**fields)
