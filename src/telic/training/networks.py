"""Batched actor-critic networks of a population, and action distributions.

The parameters of member p are row p of one matrix `flat` (P, size), and layers are views of it. So
the forward pass uses a few batched matrix products for any P, and gradient clipping, Adam and
checkpoints are single operations on one matrix. Outputs are means of Gaussian actions or logits of
discrete actions.
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

HALF_LOG_TAU = 0.5 * math.log(2.0 * math.pi)
_LOG_STD = -10.0, 2.0
"""bounds of the state-dependent log standard deviation"""


class Gaussian:
    """Diagonal Gaussian with a learned, state-independent standard deviation.

    In shapes, P is the number of members and n the number of rows.
    """

    width: int
    """number of columns of an action in a batch"""

    def __init__(self, outputs: int) -> None:
        self.width = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Sample the standard normal noise of one member's rollout, (steps, n, outputs)."""
        return torch.randn(
            steps, num_envs, self.width, generator=generator, device=generator.device
        )

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return mean + std * noise."""
        return torch.addcmul(outputs, noise, log_std.exp().unsqueeze(1))

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the log density, summed over action dimensions."""
        z = (actions - outputs) * torch.exp(-log_std).unsqueeze(1)
        return -0.5 * z.square().sum(-1) - (
            log_std.sum(1, keepdim=True) + self.width * HALF_LOG_TAU
        )

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the mode of the distribution, (P, n, width)."""
        return outputs

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the differential entropy in nats."""
        return log_std.sum(1) + self.width * (0.5 + HALF_LOG_TAU)

    def backward(
        self,
        outputs: Tensor,
        log_std: Tensor,
        actions: Tensor,
        toward_log_prob: Tensor,
        entropy_coef: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients of the loss for outputs (P, n, outputs) and log_std (P, outputs).

        For z = (a - mean) / std: d/d mean = z / std, d/d log std = z^2 - 1, and dH/d log std = 1.
        """
        inverse = torch.exp(-log_std).unsqueeze(1)
        z = (actions - outputs) * inverse
        weighted = toward_log_prob.unsqueeze(-1) * z
        deviation = (weighted * z).sum(1) - toward_log_prob.sum(1, keepdim=True) - entropy_coef
        return weighted * inverse, deviation


class Categorical:
    """Categorical distribution over `outputs` actions, stored as one float column."""

    width = 1

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs

    def noise(self, steps: int, num_envs: int, generator: torch.Generator) -> Tensor:
        """Sample Gumbel noise. The argmax of logits + noise is a categorical sample."""
        shape = (steps, num_envs, self.outputs)
        u = torch.rand(shape, generator=generator, device=generator.device)
        return -(-(u.clamp_min_(1e-20).log())).log()

    def sample(self, outputs: Tensor, log_std: Tensor, noise: Tensor) -> Tensor:
        """Return the sampled indices as floats, (P, n, 1)."""
        return (outputs + noise).argmax(-1, keepdim=True).to(outputs.dtype)

    def log_prob(self, outputs: Tensor, log_std: Tensor, actions: Tensor) -> Tensor:
        """Return the log probability of the action indices."""
        return outputs.log_softmax(-1).gather(-1, actions.long()).squeeze(-1)

    def mode(self, outputs: Tensor) -> Tensor:
        """Return the index of the most likely action, (P, n, 1)."""
        return outputs.argmax(-1, keepdim=True)

    def entropy(self, outputs: Tensor, log_std: Tensor) -> Tensor:
        """Return the entropy in nats, averaged over samples."""
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
        """Return the loss gradient with d log p_a = onehot(a) - p and dH = -p (log p + H)."""
        log_p = outputs.log_softmax(-1)
        p = log_p.exp()
        chosen = torch.zeros_like(p).scatter_(-1, actions.long(), 1.0)
        entropy = -(p * log_p).sum(-1, keepdim=True)
        bonus = p * (log_p + entropy) * (entropy_coef / outputs.shape[1]).unsqueeze(1)
        return toward_log_prob.unsqueeze(-1) * (chosen - p) + bonus, log_std


class Squashed(Gaussian):
    """Tanh-squashed Gaussian with state-dependent mean and standard deviation.

    Outputs (P, n, 2 * width) are the means followed by the log standard deviations.
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
        """Split outputs into means and clamped log standard deviations."""
        mean, log_std = outputs.chunk(2, dim=-1)
        return mean, log_std.clamp(*_LOG_STD)

    def draw(self, outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return reparameterized actions (P, n, width) and their log densities (P, n)."""
        mean, log_std = self.parts(outputs)
        x = mean + log_std.exp() * noise
        normal = -0.5 * noise.square() - log_std - HALF_LOG_TAU
        # log det of tanh: log(1 - tanh(x)^2) = 2 (log 2 - x - softplus(-2x))
        slope = 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))
        return torch.tanh(x), (normal - slope).sum(-1)


Distribution = Gaussian | Categorical


def distribution(shape: Shape) -> Distribution:
    """Return the action distribution for a network shape."""
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
"""element-wise and normalization operations by kind"""
# The fused backward operations that autograd uses.
_SLOPES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "tanh": torch.ops.aten.tanh_backward,
    "elu": lambda toward, value: torch.ops.aten.elu_backward(toward, 1.0, 1.0, 1.0, True, value),
    "relu": lambda toward, value: torch.ops.aten.threshold_backward(toward, value, 0.0),
}
_GAINS = {"tanh": 5.0 / 3.0, "elu": math.sqrt(2.0), "relu": math.sqrt(2.0)}


class Shape(NamedTuple):
    """Sizes and options of the networks."""

    actor_inputs: int
    critic_inputs: int
    outputs: int
    """number of action dimensions or of discrete actions"""
    discrete: bool
    hidden: tuple[int, ...]
    activation: str
    shared_value: bool = False
    """kept for files of earlier versions, always False"""
    learner: str = "ppo"


class Layer(NamedTuple):
    """Batched affine layer with weight (P, in, out) and bias (P, 1, out)."""

    weight: Tensor
    bias: Tensor


class Views(NamedTuple):
    """Layers of the actor and critic as views of `flat`."""

    actor: list[Layer]
    critic: list[Layer]
    log_std: Tensor
    """log standard deviations (P, outputs), empty for discrete actions"""

    def flat(self) -> Tensor:
        """Concatenate the layers to a new flat matrix."""
        layers = (*self.actor, *self.critic)
        weights, biases = ([part.flatten(1) for part in kind] for kind in zip(*layers, strict=True))
        return torch.cat([*weights, *biases, self.log_std], dim=1)


class Operation(NamedTuple):
    """One operation of an actor, used for inference and export.

    Kinds are "affine" with its layer, "tanh", "elu", "relu", "silu", "layer_norm" and "rms_norm"
    without parameters, "keep" (stores its input for a residual connection) and "add" (adds it).
    """

    kind: str
    layer: Layer | None = None


class OutputGradients(NamedTuple):
    """Gradients of the loss with respect to the network outputs."""

    outputs: Tensor
    """gradient (P, B, outputs) with respect to the actor outputs"""
    log_std: Tensor
    """gradient (P, outputs) with respect to the log standard deviations"""
    values: Tensor
    """gradient (P, B, 1) with respect to the values"""


Result = TypeVar("Result")
LossFn = Callable[[Tensor, Tensor], tuple[OutputGradients, Result]]
"""function from outputs (P, B, outputs) and values (P, B) to (gradients, result)"""


class PolicyNetworks(Protocol):
    """Interface for the actors of P members as pure functions of a flat matrix (P, size).

    `Networks` has actors and critics for PPO. `SquashedActor` has actors for other learners.
    """

    shape: Shape
    unscaled: Tensor | None
    """input columns that are excluded from normalization, such as categorical codes"""

    def initialize(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return initial flat parameters. Each row is drawn from the generator of its member."""
        ...

    def views(self, flat: Tensor) -> Views:
        """Return the layers of a flat matrix. Layers that `descend` trains are views."""
        ...

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return action means or logits (P, n, outputs) for actor inputs (P, n, d)."""
        ...


class Known(NamedTuple):
    """Inputs that two network shapes have in common."""

    actor: int
    """number of leading actor inputs in common"""
    critic: tuple[Tensor, Tensor]
    """indices of the common critic inputs in the old and the new shape"""

    @classmethod
    def of(cls, before: Shape, now: Shape, extra: int) -> Known:
        """Return the common inputs. Inputs are the observation, the reward memory and extra fields.

        Reward memory is padded with zeros to the largest memory in the population, so its width
        depends on the rewards of the other members.
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


LayerPairs = list[tuple[int, int]]
"""inputs and outputs of each layer"""


def layer_pairs(inputs: int, hidden: tuple[int, ...], outputs: int) -> LayerPairs:
    """Return the layer sizes of a multilayer perceptron."""
    return list(pairwise([inputs, *hidden, outputs]))


class InputMask(NamedTuple):
    """Boolean masks of the inputs that a member observes. All other inputs are zero."""

    actor: Tensor
    critic: Tensor


class Networks:
    """Multilayer perceptron actors and critics of P members.

    Subclasses may add structure and auxiliary losses, whose gradients `descend` includes.
    """

    unscaled: Tensor | None = None

    def __init__(
        self, shape: Shape, actor: LayerPairs | None = None, critic: LayerPairs | None = None
    ) -> None:
        """Prepare networks of a shape, or with the given layers of actor and critic."""
        self.shape = shape
        self.activate = FUNCTIONS[shape.activation]
        actor = actor or layer_pairs(shape.actor_inputs, shape.hidden, shape.outputs)
        critic = critic or layer_pairs(shape.critic_inputs, shape.hidden, 1)
        self._actor_layers = len(actor)
        self._pairs = actor + critic
        weights = [a * b for a, b in self._pairs]
        biases = [b for _, b in self._pairs]
        self._sizes = [*weights, *biases, 0 if shape.discrete else shape.outputs]
        self.size = sum(self._sizes)

    def initialize(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return flat parameters with orthogonal weights and zero biases.

        Weights of masked inputs are zero, and the other weights do not depend on the number of
        masked inputs, so the initialization is independent of other members.
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
                torch.nn.init.orthogonal_(dense, self.gain(index), generator=generator)
                weight = torch.zeros(fan_in, fan_out)
                weight[used] = dense
                parts.append(weight.flatten())
            parts.append(torch.zeros(sum(b for _, b in self._pairs)))
            parts.append(torch.full((self._sizes[-1],), log_std))
            rows.append(torch.cat(parts))
        return torch.stack(rows)

    def fitted(self, flat: Tensor, before: Shape, known: Known) -> Tensor:
        """Adapt one member's parameters (size,) from networks with a different input size.

        `before` is the old shape, which differs only in the input sizes. Weights of new inputs are
        zero.
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

    def gain(self, index: int) -> float:
        """Return the gain of the initial weights of a layer."""
        if index == self._actor_layers - 1:
            return 0.01  # small initial actions, so that noise alone drives exploration
        if index == len(self._pairs) - 1:
            return 1.0
        return _GAINS[self.shape.activation]

    def views(self, flat: Tensor) -> Views:
        """Split a flat matrix (P, size) into differentiable views, one per layer."""
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
        return self.run(views.actor, inputs)

    def program(self, views: Views) -> list[Operation]:
        """Return the operations of the actor: affine layers with activations in between."""
        between = Operation(self.shape.activation)
        affine = [Operation("affine", layer) for layer in views.actor]
        return [part for one in affine for part in (one, between)][:-1]

    def value(self, views: Views, inputs: Tensor) -> Tensor:
        """Return values (P, n) for critic inputs."""
        return self.run(views.critic, inputs).squeeze(-1)

    def run(self, layers: list[Layer], x: Tensor) -> Tensor:
        """Apply a stack of layers, with activations between them."""
        for layer in layers[:-1]:
            x = self.activate(self.affine(layer, x))
        return self.affine(layers[-1], x)

    @staticmethod
    def affine(layer: Layer, x: Tensor) -> Tensor:
        """Apply one layer, (P, n, out)."""
        if x.is_cuda and x.shape[0] == 1:  # fuses the bias, unlike baddbmm
            # Views, because the gradient of an index is a copy of the whole tensor.
            bias, weight = layer.bias.view(-1), layer.weight.squeeze(0)
            return torch.addmm(bias, x.squeeze(0), weight).unsqueeze(0)
        if layer.weight.shape[-1] > 1:
            return torch.baddbmm(layer.bias, x, layer.weight)
        # Single-column matrix products use a different kernel for one member than for several, so
        # the rounding would depend on the population size.
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

        `tape` is the result of `forward`, and `toward` is the gradient of the output (P, B, out).
        """
        for index in reversed(range(len(layers))):
            x, layer = tape[index], layers[index]
            narrow = layer.weight.shape[-1] == 1  # see `affine`
            if narrow:
                out[index].weight.copy_((x * toward).sum(1).unsqueeze(-1))
            else:
                torch.bmm(x.transpose(1, 2), toward, out=out[index].weight)
            if toward.is_cuda:  # a product with ones is several times faster than a sum over rows
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
        """Write the gradient of every parameter to `out` and return the result of `loss`.

        Args:
            views: layers of the parameters.
            out: gradient buffers, which are overwritten.
            seen: inputs of the actor, (P, B, actor inputs).
            inputs: inputs of the critic, (P, B, critic inputs).
            loss: function that returns the gradients of outputs and values, and a result.
        """
        acted, judged = self.forward(views.actor, seen), self.forward(views.critic, inputs)
        gradients, result = loss(acted[-1], judged[-1].squeeze(-1))
        self.backward(views.critic, out.critic, judged, gradients.values)
        self.backward(views.actor, out.actor, acted, gradients.outputs)
        out.log_std.copy_(gradients.log_std)
        return result
