"""The networks of a whole population as one stack of weights, and what their outputs mean.

Member p's parameters are row p of one matrix `flat` (P, size). Layers are views of it, so a forward
pass is a few batched matrix products whatever P is, the gradient of all members is one matrix, and
clipping, Adam and checkpoints are single operations. Outputs are means of Gaussian actions, or
logits of discrete ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from telic.core.tensors import split
from telic.training.job import PpoSettings

_HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_LOG_STD = -10.0, 2.0
"""within which a state-dependent log deviation stays"""


class Gaussian:
    """Independent normal actions with a learned deviation that does not depend on the state.

    `P` members, `n` rows; a distribution turns network outputs into actions.
    """

    width: int
    """columns an action takes in a batch"""

    def __init__(self, outputs: int) -> None:
        self.width = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Draw all randomness of a rollout for one member, (steps, n, outputs)."""
        return torch.randn(
            steps, num_envs, self.width, generator=generator, device=generator.device
        )

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return mean + std * noise."""
        return torch.addcmul(outputs, noise, log_std.exp().unsqueeze(1))

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the sum over dimensions of the normal log density."""
        z = (actions - outputs) * torch.exp(-log_std).unsqueeze(1)
        return -0.5 * z.square().sum(-1) - (
            log_std.sum(1, keepdim=True) + self.width * _HALF_LOG_TAU
        )

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the most likely actions (P, n, width), as `ActionMap` takes them."""
        return outputs

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the differential entropy in nats."""
        return log_std.sum(1) + self.width * (0.5 + _HALF_LOG_TAU)

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the loss's gradient at outputs (P, n, outputs) and log_std (P, outputs).

        For z = (a - mean) / std: d/d mean = z / std, d/d log std = z^2 - 1; dH/d log std = 1.
        """
        inverse = torch.exp(-log_std).unsqueeze(1)
        z = (actions - outputs) * inverse
        weighted = toward_log_prob.unsqueeze(-1) * z
        deviation = (weighted * z).sum(1) - toward_log_prob.sum(1, keepdim=True) - entropy_coef
        return weighted * inverse, deviation


class Categorical:
    """One of `outputs` discrete actions, stored as one float column."""

    width = 1

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Draw Gumbel numbers: the argmax of logits + Gumbel noise is a categorical sample."""
        shape = (steps, num_envs, self.outputs)
        u = torch.rand(shape, generator=generator, device=generator.device)
        return -(-(u.clamp_min_(1e-20).log())).log()

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return the sampled indices as floats, (P, n, 1)."""
        return (outputs + noise).argmax(-1, keepdim=True).to(outputs.dtype)

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the log probability of the stored indices."""
        return outputs.log_softmax(-1).gather(-1, actions.long()).squeeze(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the most likely index, (P, n, 1)."""
        return outputs.argmax(-1, keepdim=True)

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the mean entropy in nats."""
        log_p = outputs.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1).mean(-1)

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """D log p_a / d logits = onehot(a) - p; dH / d logits = -p (log p + H)."""
        log_p = outputs.log_softmax(-1)
        p = log_p.exp()
        chosen = torch.zeros_like(p).scatter_(-1, actions.long(), 1.0)
        entropy = -(p * log_p).sum(-1, keepdim=True)
        bonus = p * (log_p + entropy) * (entropy_coef / outputs.shape[1]).unsqueeze(1)
        return toward_log_prob.unsqueeze(-1) * (chosen - p) + bonus, log_std


class Squashed(Gaussian):
    """The tanh of a normal variable whose mean and deviation both depend on the state.

    Outputs (P, n, 2 * width) hold the means and then the log deviations.
    """

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return tanh(mean + std * noise)."""
        mean, log_std = self.parts(outputs)
        return torch.tanh(torch.addcmul(mean, noise, log_std.exp()))

    def mode(self, outputs: Tensor) -> Tensor:
        """Return tanh(mean)."""
        return torch.tanh(outputs[..., : self.width])

    @staticmethod
    def parts(outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Return means and log deviations."""
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(*_LOG_STD)

    def draw(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions (P, n, width) and their log densities (P, n), both differentiable."""
        mean, log_std = self.parts(outputs)
        x = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - _HALF_LOG_TAU
        # log det of tanh: log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2x))
        slope = 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))
        return torch.tanh(x), (normal - slope).sum(-1)


Distribution = Gaussian | Categorical


def distribution(shape: Shape) -> Distribution:
    """Return the distribution of a policy's actions."""
    if shape.learner != "ppo":
        return Squashed(shape.outputs)
    return Categorical(shape.outputs) if shape.discrete else Gaussian(shape.outputs)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "elu": functional.elu,
    "relu": torch.relu,
    "silu": functional.silu,
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6),
}
"""operations of one tensor, by kind"""
# One fused operation each, as automatic differentiation would use.
_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tanh": torch.ops.aten.tanh_backward,
    "elu": lambda toward, value: torch.ops.aten.elu_backward(toward, 1.0, 1.0, 1.0, True, value),
    "relu": lambda toward, value: torch.ops.aten.threshold_backward(toward, value, 0.0),
}
_GAINS = {"tanh": 5.0 / 3.0, "elu": math.sqrt(2.0), "relu": math.sqrt(2.0)}


class Shape(NamedTuple):
    """Sizes of the networks."""

    actor_inputs: int
    critic_inputs: int
    outputs: int
    """action dimensions, or the number of discrete actions"""
    discrete: bool
    hidden: tuple[int, ...]
    activation: str
    shared_value: bool
    """of files of earlier versions; always False now"""
    learner: str = "ppo"

    @classmethod
    def of(
        cls,
        settings: PpoSettings,
        actor_inputs: int,
        critic_inputs: int,
        outputs: int,
        discrete: bool,
    ) -> Shape:
        """Combine the settings' choices with the environment's sizes."""
        return cls(
            actor_inputs,
            critic_inputs,
            outputs,
            discrete,
            settings.hidden,
            settings.activation,
            False,
            settings.learner,
        )


class Layer(NamedTuple):
    """One affine layer of all members: weight (P, in, out) and bias (P, 1, out)."""

    weight: Tensor
    bias: Tensor


class Views(NamedTuple):
    """`flat` cut into layers."""

    actor: list[Layer]
    critic: list[Layer]
    log_std: Tensor
    """(P, outputs); empty for discrete actions"""

    def flat(self) -> Tensor:
        """Return the flat matrix again, as a copy."""
        layers = (*self.actor, *self.critic)
        weights, biases = ([part.flatten(1) for part in kind] for kind in zip(*layers, strict=True))
        return torch.cat([*weights, *biases, self.log_std], dim=1)


class Operation(NamedTuple):
    """One operation of an actor, as `act` computes it and as an export writes it.

    Kinds: "affine" with its layer; "tanh", "elu", "relu", "silu"; "layer_norm" and "rms_norm"
    without parameters; "keep" remembers its input, and "add" adds what was kept.
    """

    kind: str
    layer: Layer | None = None


class OutputGradients(NamedTuple):
    """The loss's gradient at what the networks give."""

    outputs: Tensor
    """(P, B, outputs)"""
    log_std: Tensor
    """(P, outputs)"""
    values: Tensor
    """(P, B, 1)"""


Result = TypeVar("Result")
LossFn = Callable[[Tensor, Tensor], tuple[OutputGradients, Result]]
"""outputs (P, B, outputs) and values (P, B) -> gradients at both, and a result"""


class PolicyNetworks(Protocol):
    """Actors of P members; pure functions of a flat parameter matrix (P, size).

    The one seam for networks of another make: `Networks` are plain layers; others may have inner
    structure and losses of their own, which `descend` adds to the gradient.
    """

    shape: Shape
    unscaled: Tensor | None
    """columns of the inputs that are codes, not quantities, and are never normalised"""

    def initialise(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return fresh flat parameters, one row from each member's generator."""
        ...

    def views(self, flat: Tensor) -> Views:
        """Return the layers of a flat matrix, without copying where `descend` learns them."""
        ...

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return action means or logits (P, n, outputs) for actor inputs (P, n, d)."""
        ...


class ActorCritic(PolicyNetworks, Protocol):
    """Networks that also estimate values, with a gradient that is written out: what PPO needs."""

    def value(self, views: Views, inputs: Tensor) -> Tensor:
        """Return values (P, n) for critic inputs."""
        ...

    def descend(
        self, views: Views, out: Views, seen: Tensor, inputs: Tensor, loss: LossFn[Result]
    ) -> Result:
        """Write the gradient of every parameter to `out`; return the result of `loss`.

        Args:
            views: the weights.
            out: where the gradients go; all of it is overwritten.
            seen: what the actors see, (P, B, actor inputs).
            inputs: what the critics see, (P, B, critic inputs).
            loss: returns the gradients at outputs and values, and a result.
        """
        ...


class Known(NamedTuple):
    """Inputs that two policies share."""

    actor: int
    """so many of the first that actors see"""
    critic: tuple[Tensor, Tensor]
    """where those that critics see are in the one and in the other"""

    @classmethod
    def of(cls, before: Shape, now: Shape, extra: int) -> Known:
        """Return what is shared where inputs are observation, memory of a reward, extra fields.

        Memory is as wide as the widest of all rewards that are trained together, a reward's own
        comes first and the rest is zero: so a policy trained with others has another width.
        """
        own = min(before.critic_inputs, now.critic_inputs) - extra
        last = [
            torch.arange(shape.critic_inputs - extra, shape.critic_inputs)
            for shape in (before, now)
        ]
        first = torch.arange(own)
        return cls(
            min(before.actor_inputs, now.actor_inputs),
            (torch.cat((first, last[0])), torch.cat((first, last[1]))),
        )


class InputMask(NamedTuple):
    """The inputs that a member's networks see, bool; the others are always zero for it."""

    actor: Tensor
    critic: Tensor


class Networks:
    """Actor and critic of P members; pure functions of a flat parameter matrix."""

    unscaled: Tensor | None = None

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.activate = FUNCTIONS[shape.activation]
        actor = _pairs(shape.actor_inputs, shape.hidden, shape.outputs)
        critic = _pairs(shape.critic_inputs, shape.hidden, 1)
        self._actor_layers = len(actor)
        self._pairs = actor + critic
        weights = [a * b for a, b in self._pairs]
        biases = [b for _, b in self._pairs]
        self._sizes = [*weights, *biases, 0 if shape.discrete else shape.outputs]
        self.size = sum(self._sizes)

    def initialise(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return flat parameters: orthogonal weights from each member's generator, zero biases.

        Weights of inputs a member does not see are zero, and the others are what they would be
        without them: what a neighbour sees must not change how a member starts.
        """
        rows: list[Tensor] = []
        for member, generator in enumerate(generators):
            parts: list[Tensor] = []
            for index, (fan_in, fan_out) in enumerate(self._pairs):
                used = torch.ones(fan_in, dtype=torch.bool)
                if masks is not None and index == 0:
                    used = masks[member].actor
                elif masks is not None and index == self._actor_layers:
                    used = masks[member].critic
                dense = torch.empty(int(used.sum()), fan_out)
                torch.nn.init.orthogonal_(dense, self._gain(index), generator=generator)
                weight = torch.zeros(fan_in, fan_out)
                weight[used] = dense
                parts.append(weight.flatten())
            parts.append(torch.zeros(sum(b for _, b in self._pairs)))
            parts.append(torch.full((self._sizes[-1],), log_std))
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def fitted(self, flat: Tensor, before: Shape, known: Known) -> Tensor:
        """Return one member's parameters (size,) of networks that saw more or fewer inputs.

        `before` are their sizes, which differ in the numbers of inputs only. Inputs that they did
        not see weigh nothing yet.
        """
        out = flat.new_zeros(1, self.size)
        old, new = Networks(before).views(flat.unsqueeze(0)), self.views(out)
        for index, (source, target) in enumerate(
            zip((*old.actor, *old.critic), (*new.actor, *new.critic), strict=True)
        ):
            target.bias.copy_(source.bias)
            if index == 0:
                target.weight[:, : known.actor] = source.weight[:, : known.actor]
            elif index == self._actor_layers:
                target.weight[:, known.critic[1]] = source.weight[:, known.critic[0]]
            else:
                target.weight.copy_(source.weight)
        new.log_std.copy_(old.log_std)
        return out[0]

    def _gain(self, index: int) -> float:
        if index == self._actor_layers - 1:
            return 0.01  # small first actions: exploration comes from the noise alone
        if index == len(self._pairs) - 1:
            return 1.0
        return _GAINS[self.shape.activation]

    def views(self, flat: Tensor) -> Views:
        """Cut a flat matrix (P, size) into layers; differentiable, and free of copies."""
        members = flat.shape[0]
        parts = split(flat, self._sizes, dim=1)
        count = len(self._pairs)
        layers = [
            Layer(parts[i].view(members, *pair), parts[count + i].unsqueeze(1))
            for i, pair in enumerate(self._pairs)
        ]
        return Views(layers[: self._actor_layers], layers[self._actor_layers :], parts[-1])

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return action means or logits (P, n, outputs) for actor inputs (P, n, d)."""
        return self.affine(views.actor[-1], self._hidden(views.actor[:-1], inputs))

    def program(self, views: Views) -> list[Operation]:
        """Return affine layers with activations in between."""
        between = Operation(self.shape.activation)
        affine = [Operation("affine", layer) for layer in views.actor]
        return [part for one in affine for part in (one, between)][:-1]

    def value(self, views: Views, inputs: Tensor) -> Tensor:
        """Return values (P, n) for critic inputs."""
        return self.affine(views.critic[-1], self._hidden(views.critic[:-1], inputs)).squeeze(-1)

    @staticmethod
    def affine(layer: Layer, x: Tensor) -> Tensor:
        """Apply one layer, (P, n, out)."""
        if x.is_cuda and x.shape[0] == 1:  # adds the bias on the way, baddbmm before
            return torch.addmm(layer.bias[0, 0], x[0], layer.weight[0]).unsqueeze(0)
        if layer.weight.shape[-1] > 1:
            return torch.baddbmm(layer.bias, x, layer.weight)
        # A matrix product with one column takes another path for one member than for several, and
        # the rounding of a member would depend on whether it has neighbours.
        return (x * layer.weight.transpose(1, 2)).sum(-1, keepdim=True) + layer.bias

    def forward(self, layers: list[Layer], x: Tensor) -> list[Tensor]:
        """Return the inputs, every hidden activation and the output of a stack of layers."""
        tape = [x]
        for layer in layers[:-1]:
            tape.append(self.activate(self.affine(layer, tape[-1])))
        return [*tape, self.affine(layers[-1], tape[-1])]

    def backward(
        self, layers: list[Layer], out: list[Layer], tape: list[Tensor], toward: Tensor
    ) -> None:
        """Write the gradients of a stack of layers to `out`.

        `tape` is what `forward` returned, `toward` the gradient of the output (P, B, out).
        """
        for index in reversed(range(len(layers))):
            x, layer = tape[index], layers[index]
            narrow = layer.weight.shape[-1] == 1  # see `affine`
            if narrow:
                out[index].weight.copy_((x * toward).sum(1).unsqueeze(-1))
            else:
                torch.bmm(x.transpose(1, 2), toward, out=out[index].weight)
            if toward.is_cuda:  # a product with ones is several times faster than a tall sum
                ones = toward.new_ones(1, 1, toward.shape[1]).expand(toward.shape[0], -1, -1)
                torch.bmm(ones, toward, out=out[index].bias)
            else:
                torch.sum(toward, 1, keepdim=True, out=out[index].bias)
            if index:
                back = layer.weight.transpose(1, 2)
                toward = toward * back if narrow else torch.bmm(toward, back)
                toward = _SLOPES[self.shape.activation](toward, x)

    def descend(
        self, views: Views, out: Views, seen: Tensor, inputs: Tensor, loss: LossFn[Result]
    ) -> Result:
        """Carry the gradient back through both stacks; see `PolicyNetworks.descend`."""
        acted, judged = self.forward(views.actor, seen), self.forward(views.critic, inputs)
        gradients, result = loss(acted[-1], judged[-1].squeeze(-1))
        self.backward(views.critic, out.critic, judged, gradients.values)
        self.backward(views.actor, out.actor, acted, gradients.outputs)
        out.log_std.copy_(gradients.log_std)
        return result

    def _hidden(self, layers: list[Layer], x: Tensor) -> Tensor:
        for layer in layers:
            x = self.activate(self.affine(layer, x))
        return x


def _pairs(inputs: int, hidden: tuple[int, ...], outputs: int) -> list[tuple[int, int]]:
    return list(pairwise([inputs, *hidden, outputs]))
