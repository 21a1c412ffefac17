"""The reward memory that a policy sees, kept without the reward: phase variable and last action.

A reward may show its memory to the policy (`memory_to = "actor"`), as a gait does with its phase.
A robot has no reward, so an exported policy comes with the update of its memory as plain numbers:

    state <- keep @ state + action @ last_action;  memory = state[:shown]

It follows from the names of the memory. `beat` is a point on the unit circle that turns by a
constant angle at every step (`telic.rewards.signals.Beat`); `action_change` is 1 and the last
action, scaled to [-1, 1]. Memory of any other name depends on the simulated world.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from telic.core.config import Record
from telic.core.text import is_row
from telic.errors import UsageError
from telic.rewards.signals import CLOCKS

if TYPE_CHECKING:
    from telic.training.policy import Policy

_BEAT = re.compile(r"\bBeat\((?:hertz=)?([\d.]+)")
_ROTATION = re.compile(r"([\d.]+) \* x - ([\d.]+) \* y")
"""how a reward with a `compute` of its own turns the phase variable"""
_HINT = 'Train it with memory_to = "critic", or show it only "beat" and "action_change".'


class MemoryLaw(Record):
    """How the memory that a policy sees is updated without the reward."""

    names: tuple[str, ...] = Field(default=(), description="what each shown number is")
    shown: int = Field(
        default=0, ge=0, description="how many numbers of the state policy.onnx sees"
    )
    start: tuple[float, ...] = Field(description="the state when an episode begins")
    keep: tuple[tuple[float, ...], ...] = Field(
        description="matrix that the state is multiplied by after every action"
    )
    action: tuple[tuple[float, ...], ...] = Field(
        description="matrix whose product with the action, scaled to [-1, 1], is then added"
    )


class PolicyWithMemory:
    """A policy for one episode, (1, D) -> (1, A), that updates the memory it sees by its law."""

    def __init__(self, policy: Policy, law: MemoryLaw) -> None:
        self.facts: dict[str, Any] = policy.facts
        self._policy, self._shown = policy, law.shown
        self._keep, self._action = np.array(law.keep), np.array(law.action)
        self._state = np.array(law.start)

    def __call__(self, obs: Tensor) -> Tensor:
        """Return the action, and update the memory."""
        policy = self._policy
        memory = torch.tensor(self._state[None, : self._shown], dtype=torch.float32)
        action = policy(obs, memory)
        half, middle = (policy.high - policy.low) / 2.0, (policy.high + policy.low) / 2.0
        asked = ((action[0] - middle) / half).double().numpy()
        self._state = self._keep @ self._state + self._action @ asked
        return action


def memory_law(policy: Policy, reward: str | None) -> MemoryLaw:
    """Return the law of the memory that a policy sees.

    Args:
        policy: as it was trained.
        reward: text of the reward that it was trained with.

    Raises:
        UsageError: the memory depends on more than time and actions.
    """
    size, actions = policy.memory_size, len(policy.facts["action_names"])
    seen = policy.seen_memory
    if seen and reward is None:
        raise UsageError("The policy sees its reward's memory, and the reward is not there.")
    columns = [(name, i) for name, width in _widths(reward or "").items() for i in range(width)]
    used = [columns[place] if place < len(columns) else ("unnamed", 0) for place in seen]
    if unknown := sorted({name for name, _ in used} - CLOCKS):
        raise UsageError(
            f"The policy sees what its reward remembers of the world ({', '.join(unknown)}), and a "
            "robot has no reward that remembers it.",
            hint=_HINT,
        )
    # Behind the memory, the state holds a one, and a one that is there for the first step only.
    one, first = size, size + 1
    keep, action = np.zeros((size + 2, size + 2)), np.zeros((size + 2, actions))
    keep[one, one] = 1.0
    for place, (name, number) in zip(seen, used, strict=True):
        if name == "beat":
            turn = _turn(reward or "", policy.facts["dt_s"])
            row = [(math.cos(turn), -math.sin(turn)), (math.sin(turn), math.cos(turn))][number]
            keep[place, place - number : place - number + 2] = row
            keep[place, first] = row[0]
        elif number == 0:
            keep[place, one] = 1.0
        else:
            action[place, number - 1] = 1.0
    names = [f"{name} {number}" for name, number in columns] + ["unused"] * size
    return MemoryLaw(
        names=tuple(names[:size]),
        shown=size,
        start=(0.0,) * size + (1.0, 1.0),
        keep=tuple(tuple(row) for row in keep.tolist()),
        action=tuple(tuple(row) for row in action.tolist()),
    )


def _turn(reward: str, dt_s: float) -> float:
    """Return the angle by which the phase variable turns in a control step, rad."""
    if found := _BEAT.search(reward):
        return 2.0 * math.pi * float(found[1]) * dt_s
    if found := _ROTATION.search(reward):
        return math.atan2(float(found[2]), float(found[1]))
    raise UsageError(
        'The reward does not say how fast its memory "beat" turns.',
        hint="Use Beat(hertz) of telic.rewards.signals.",
    )


def _widths(reward: str) -> dict[str, int]:
    """Return the width of each memory that a reward declares as plain values, by name."""
    for node in ast.walk(ast.parse(reward)):
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == "memory" for target in node.targets
        ):
            try:
                declared: Mapping[str, Any] = dict(ast.literal_eval(node.value))
            except (ValueError, TypeError):
                return {}
            return {name: _width(value) for name, value in declared.items()}
    return {}


def _width(value: object) -> int:
    if not is_row(value):
        return 1
    # Integers are a shape, as rewards declare them.
    is_shape = all(type(each) is int for each in value)
    return math.prod(int(each) for each in value) if is_shape else len(value)
