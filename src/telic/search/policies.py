"""Small policies with few parameters: linear, table, projected MLP and random features.

Parameters (N, rank) are converted to weights once. At every step, weights and observations are
mapped to actions. All arrays have one row per episode.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from telic.core.config import Record
from telic.errors import ConfigError, UnknownName
from telic.search.task import Floats, SearchTask, generator

_EXACT = 6  # decimals of parameters not shown to a model
Weights = tuple[NDArray[Any], ...]  # with one row per episode
KINDS = ("linear", "linear-without-bias", "table", "projected-mlp", "random-features")
WITH_RANDOM_PARTS = ("projected-mlp", "random-features")
_BOUND = 6.0
_UNLIMITED = 1e4  # scaled inputs that no observation reaches


class PolicyFamily(Protocol):
    """Family of policies with named parameters."""

    space: Space

    def draw(self, rng: np.random.Generator) -> Floats:
        """Sample random parameters, (rank,), as an initial guess."""
        ...

    def weights(self, params: Floats) -> Weights:
        """Convert parameters (N, rank) to weights."""
        ...

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Return the actions: indices (N,), or values (N, components)."""
        ...

    def network(self, params: tuple[float, ...]) -> TanhNetwork:
        """Return the policy with these parameters as a network of observation columns."""
        ...


class TanhNetwork(NamedTuple):
    """Layers (weight, bias) with tanh in between, of inputs clip((obs - shift) * scale, limit)."""

    shift: Floats
    scale: Floats
    limit: float
    layers: list[tuple[Floats, Floats]]


class _FittedParams(NamedTuple):
    """Parameters after fitting them to a space, with warnings about changes."""

    params: tuple[float, ...]
    warnings: tuple[str, ...]


class Space(Record):
    """Names, bounds and precision of a policy's parameters."""

    names: tuple[str, ...]
    """meaning of each parameter"""
    formula: str
    """description of how parameters determine the action"""
    low: float
    high: float
    decimals: int
    """number of decimals requested from a model"""
    choices: tuple[int, ...] | None = None
    """allowed integers if the policy is a table"""

    @property
    def rank(self) -> int:
        """Number of parameters."""
        return len(self.names)

    @property
    def is_table(self) -> bool:
        """Return whether the parameters are discrete choices."""
        return self.choices is not None

    def fit(self, params: Floats | tuple[float, ...], *, is_rounded: bool = True) -> _FittedParams:
        """Clip and round parameters and report changes as warnings."""
        given = np.asarray(params, dtype=np.float64)
        fitted = np.round(
            np.clip(given, self.low, self.high), self.decimals if is_rounded else _EXACT
        )
        outside = np.flatnonzero((given < self.low) | (given > self.high))
        warnings = [
            f"params[{i}] = {given[i]:g} is outside [{self.low:g}, {self.high:g}] and was clipped"
            for i in outside
        ]
        if is_rounded and np.any(np.abs(fitted - np.clip(given, self.low, self.high)) > 1e-9):
            warnings.append(f"rounded to {self.decimals} decimals")
        # Adding 0 turns -0.0 into 0.0, so that equal policies have equal parameters.
        return _FittedParams(tuple((fitted + 0.0).tolist()), tuple(warnings))


def make_policy(
    kind: str | None, task: SearchTask, *, is_scaled: bool, seed: int, decimals: int
) -> PolicyFamily:
    """Create a policy family by name, by default a table or the linear policy.

    `seed` determines the random parts of families with random parts.
    """
    kind = kind or ("table" if task.is_table else "linear")
    if kind not in KINDS:
        raise UnknownName("policy", kind, list(KINDS))
    if kind == "table":
        return _TablePolicy(task)
    if task.is_table:
        raise ConfigError(
            f"A policy of {task.id} observes a state index, so it must be a table, not {kind}.",
            hint="Omit --policy.",
        )
    if kind.startswith("linear"):
        has_bias = kind == "linear"
        return Linear(task, is_scaled=is_scaled, has_bias=has_bias, decimals=decimals)
    family = ProjectedMlp if kind == "projected-mlp" else RandomFeatures
    return family(task, is_scaled=is_scaled, seed=seed, decimals=decimals)


class _Continuous:
    """Base class of policies that compute outputs from observations, which may be scaled."""

    limit = _UNLIMITED

    def __init__(self, task: SearchTask, *, is_scaled: bool) -> None:
        self._seen, self._outputs = len(task.observations), len(task.actions)
        self._is_continuous = task.is_continuous
        self._center = np.array([each.center * is_scaled for each in task.observations])
        ranges = [each.half_range if is_scaled else 1.0 for each in task.observations]
        self._scale = 1.0 / np.array(ranges)
        rule = "The action with the largest output is taken."
        if task.is_continuous:
            low, high = task.action_low, task.action_high
            rule = f"The outputs are the action, cut to [{low:g}, {high:g}]."
        note = " Observations enter as they are, unscaled."
        if is_scaled:
            scaled = (
                f"({each.name} - {each.center:g}) / {each.half_range:g}"
                if each.center
                else f"{each.name} / {each.half_range:g}"
                for each in task.observations
            )
            note = f" Each observation is first scaled: {', '.join(scaled)}."
        self._rule = f"{rule}{note}"

    def _inputs(self, obs: NDArray[Any]) -> Floats:
        return (obs.astype(np.float64) - self._center) * self._scale

    def _choose(self, outputs: Floats) -> NDArray[Any]:
        if self._is_continuous:
            return outputs
        if self._outputs == 2:  # ties select the first, as in argmax
            return (outputs[:, 1] > outputs[:, 0]).astype(np.int64)
        return outputs.argmax(1)

    def weights(self, params: Floats) -> Weights:
        """Convert parameters (N, rank) to weights."""
        raise NotImplementedError

    def network(self, params: tuple[float, ...]) -> TanhNetwork:
        """Return the policy as a network."""
        layers = self._layers(*(weight[0] for weight in self.weights(np.array([params]))))
        return TanhNetwork(self._center, self._scale, self.limit, layers)

    def _layers(self, first: Floats, second: Floats) -> list[tuple[Floats, Floats]]:
        """Return the layers of one policy's weights. By default, they are a weight and a bias."""
        return [(first, second)]


class Linear(_Continuous):
    """Linear policy, observations @ W + b. The parameters are the rows of W, followed by b."""

    def __init__(self, task: SearchTask, *, is_scaled: bool, has_bias: bool, decimals: int) -> None:
        super().__init__(task, is_scaled=is_scaled)
        self._has_bias = has_bias
        names = [
            f"weight of {seen.name} on {action}"
            for seen in task.observations
            for action in task.actions
        ]
        names += [f"bias of {action}" for action in task.actions] if has_bias else []
        self.space = Space(
            names=tuple(names),
            formula="Each output is the sum of the observations times their weights"
            f"{', plus a bias' if has_bias else ''}. {self._rule}",
            low=-_BOUND,
            high=_BOUND,
            decimals=decimals,
        )

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw from a normal distribution, or from a uniform one if the policy has no bias."""
        rank = self.space.rank
        drawn = rng.normal(0.0, 3.0, rank) if self._has_bias else rng.uniform(-3.0, 3.0, rank)
        return np.round(drawn, 1)

    def weights(self, params: Floats) -> Weights:
        """Return W (N, observations, outputs) and b (N, outputs)."""
        seen, outputs = self._seen, self._outputs
        matrix = params[:, : seen * outputs].reshape(-1, seen, outputs)
        bias = params[:, seen * outputs :] if self._has_bias else np.zeros((len(params), outputs))
        return np.ascontiguousarray(matrix), np.ascontiguousarray(bias)

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Compute the actions."""
        matrix, bias = weights
        return self._choose(np.einsum("no,noa->na", self._inputs(obs), matrix) + bias)


class _TablePolicy:
    """Table policy with one action per state."""

    def __init__(self, task: SearchTask) -> None:
        if task.states is None:
            raise ConfigError(
                f"{task.id} has no discrete states, so a policy cannot be a table.",
                hint="Use --policy linear.",
            )
        self.space = Space(
            names=tuple(f"action in state {state}" for state in range(task.states)),
            formula="params[s] is the action taken in state s: "
            + ", ".join(f"{n} {name}" for n, name in zip(task.choices, task.actions, strict=True))
            + ".",
            low=task.choices[0],
            high=task.choices[-1],
            decimals=0,
            choices=task.choices,
        )

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw an action for each state."""
        choices = np.array(self.space.choices, dtype=np.float64)
        return rng.choice(choices, self.space.rank)

    def weights(self, params: Floats) -> Weights:
        """Return the table (N, states)."""
        table = params.astype(np.int64)
        return (table,)

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Look up the actions."""
        return weights[0][np.arange(len(obs)), obs]

    def network(self, params: tuple[float, ...]) -> TanhNetwork:
        """Return the table as a layer, because observed states are one-hot columns."""
        table = np.equal.outer(np.array(params), self.space.choices or ()).astype(np.float64)
        states, actions = table.shape
        layer = table, np.zeros(actions)
        return TanhNetwork(np.zeros(states), np.ones(states), _UNLIMITED, [layer])


class _Seeded(_Continuous):
    """Base class of families with fixed random parts and parameters sampled around zero."""

    space: Space
    spread: float

    def draw(self, rng: np.random.Generator) -> Floats:
        """Draw from a normal distribution, clipped to the bounds."""
        drawn = rng.normal(0.0, self.spread, self.space.rank)
        return np.round(np.clip(drawn, self.space.low, self.space.high), 1)


class ProjectedMlp(_Seeded):
    """MLP with one tanh layer whose weights are fixed projections of few latent parameters."""

    hidden, latent, spread = 4, 5, 2.0

    def __init__(self, task: SearchTask, *, is_scaled: bool, seed: int, decimals: int) -> None:
        super().__init__(task, is_scaled=is_scaled)
        rng = generator(seed, "projection")
        counts = ((self._seen + 1) * self.hidden, (self.hidden + 1) * self._outputs)
        # Orthonormal columns, no more than the number of weights of the layer.
        shapes = [(count, min(count, self.latent)) for count in counts]
        self._bases = [np.linalg.qr(rng.normal(size=shape))[0] for shape in shapes]
        self.space = Space(
            names=tuple(
                f"latent number {i} of layer {layer}"
                for layer in (1, 2)
                for i in range(1, self.latent + 1)
            ),
            formula=f"A network with {self.hidden} tanh units; the weights of each layer are a "
            f"fixed linear function of {self.latent} latent numbers. {self._rule}",
            low=-_BOUND,
            high=_BOUND,
            decimals=decimals,
        )

    def weights(self, params: Floats) -> Weights:
        """Return the matrices of both layers, with biases in the last row."""
        first = params[:, : self.latent] @ self._bases[0].T
        second = params[:, self.latent :] @ self._bases[1].T
        return (
            first.reshape(-1, self._seen + 1, self.hidden),
            second.reshape(-1, self.hidden + 1, self._outputs),
        )

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Compute the actions."""
        first, second = weights
        inner = np.tanh(np.einsum("no,noh->nh", self._inputs(obs), first[:, :-1]) + first[:, -1])
        return self._choose(np.einsum("nh,nha->na", inner, second[:, :-1]) + second[:, -1])

    def _layers(self, first: Floats, second: Floats) -> list[tuple[Floats, Floats]]:
        return [(first[:-1], first[-1]), (second[:-1], second[-1])]


class RandomFeatures(_Seeded):
    """Linear readout of fixed random tanh features. The search optimizes the readout weights."""

    hidden, limit, gain, spread = 8, 5.0, 0.5, 0.75

    def __init__(self, task: SearchTask, *, is_scaled: bool, seed: int, decimals: int) -> None:
        super().__init__(task, is_scaled=is_scaled)
        # Unscaled observations are divided by 3 instead.
        self._scale /= 1.0 if is_scaled else 3.0
        rng = generator(seed, "features")
        self._mix = rng.normal(0.0, 1.0, (self._seen, self.hidden)) / math.sqrt(self._seen)
        self._offset = rng.uniform(-0.1, 0.1, self.hidden)
        names = [
            f"weight of feature {i} on {action}"
            for action in task.actions
            for i in range(1, self.hidden + 1)
        ]
        self.space = Space(
            names=(*names, *(f"bias of {action}" for action in task.actions)),
            formula=f"Each output is {self.gain} times the sum of {self.hidden} fixed random "
            f"features of the observations times their weights, plus a bias. {self._rule}",
            low=-2.0,
            high=2.0,
            decimals=decimals,
        )

    def weights(self, params: Floats) -> Weights:
        """Return the readout (N, outputs, features) and biases (N, outputs)."""
        cut = self._outputs * self.hidden
        return params[:, :cut].reshape(-1, self._outputs, self.hidden), params[:, cut:]

    def act(self, weights: Weights, obs: NDArray[Any]) -> NDArray[Any]:
        """Compute the actions."""
        readout, bias = weights
        seen = np.clip(self._inputs(obs), -self.limit, self.limit)
        features = np.tanh(seen @ self._mix + self._offset)
        return self._choose(self.gain * (np.einsum("nh,nah->na", features, readout) + bias))

    def _layers(self, first: Floats, second: Floats) -> list[tuple[Floats, Floats]]:
        return [(self._mix, self._offset), (self.gain * first.T, self.gain * second)]
