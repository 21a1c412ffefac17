"""A policy as plain arrays, which every exported format is made from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from telic.training.population import CLIP

if TYPE_CHECKING:
    from telic.training.policy import Policy

Array = np.ndarray
_EPSILON = float(np.finfo(np.float32).eps) / 2.0


class Range(NamedTuple):
    """The action range: middle + half * x for x in [-1, 1]."""

    middle: Array  # (A,)
    half: Array  # (A,)


class Outputs(NamedTuple):
    """What a network gives, (N, outputs) in float64."""

    values: Array
    rounding: Array
    """the error to expect of float32 arithmetic, one standard deviation"""


class PolicyArrays(NamedTuple):
    """Normaliser, layers and action range of one policy, float32.

    x = clip((inputs - shift) * scale, -limit, limit), then the layers with the activation between
    them, then the action range, or the index of the largest output where actions are discrete.
    """

    shift: Array  # (d,)
    scale: Array  # (d,)
    limit: float
    layers: list[tuple[Array, Array]]  # weight (in, out) and bias (out,)
    activation: str
    range: Range | None  # None: discrete

    @classmethod
    def of(cls, policy: Policy) -> PolicyArrays:
        """Read a policy's numbers."""
        actor, seen = policy.actor, policy.shape.actor_inputs
        scale = actor.scaling.scale[0, 0, :seen]
        if actor.mask is not None:
            # What the policy may not see is multiplied by zero: the same as a scale of zero.
            scale = scale * actor.mask[0, 0]
        span = None
        if not policy.shape.discrete:
            middle, half = (policy.high + policy.low) / 2.0, (policy.high - policy.low) / 2.0
            span = Range(middle.numpy(), half.numpy())
        return cls(
            actor.scaling.shift[0, 0, :seen].numpy(),
            scale.numpy(),
            CLIP,
            [(layer.weight[0].numpy(), layer.bias[0, 0].numpy()) for layer in actor.views.actor],
            policy.shape.activation,
            span,
        )

    def outputs(self, inputs: Array) -> Outputs:
        """Return what the network gives for inputs (N, d), before action range or choice."""
        x = np.clip((inputs.astype(np.float64) - self.shift) * self.scale, -self.limit, self.limit)
        variance = np.zeros_like(x)
        for index, (weight, bias) in enumerate(self.layers):
            if index:
                x = _ACTIVATIONS[self.activation](x)  # none is steeper than 1: errors do not grow
            squares = weight.astype(np.float64) ** 2
            # Adding up n products in float32 errs by about eps * sqrt(n * sum of their squares).
            variance = (variance + len(weight) * _EPSILON**2 * x**2) @ squares
            x = x @ weight.astype(np.float64) + bias
        return Outputs(x, np.sqrt(variance))


_ACTIVATIONS = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "elu": lambda x: np.where(x > 0.0, x, np.expm1(np.minimum(x, 0.0))),
}
