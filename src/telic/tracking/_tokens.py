"""Token networks: encoders, quantised tokens, decoders, critic and auxiliary losses.

Each loss is (P,), one value per member; members are independent. Latents are compared before
quantisation. Rows in which the input of an encoder is unavailable are masked.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import combinations, pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.quantiser import Quantiser
from telic.core.tensors import split
from telic.tracking.config import LossesGroup
from telic.training.networks import InputMask, Layer, LossFn, Networks, Result, Shape, Views


def masked_distance(one: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Return the masked mean squared distance of latents (P, n, k), (P,), zero if all masked."""
    weight = mask.to(one.dtype)
    apart = (one - other).square().mean(-1)
    return (apart * weight).sum(1) / weight.sum(1).clamp_min(1.0)


def reconstruction(decoded: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of decoded motions in normalised units, (P,)."""
    return (decoded - target).square().mean((1, 2))


def alignment(
    latents: Sequence[Tensor],
    available: Tensor,
    constant: Sequence[bool] | None = None,
) -> Tensor:
    """Return the mean squared distance of latents (P, n, k), summed over encoder pairs, (P,).

    `available` (P, n, encoders) masks rows without input for an encoder. Latents of `constant`
    encoders are detached, so that they receive no gradient.
    """
    fixed = constant or [False] * len(latents)
    held = [one.detach() if still else one for one, still in zip(latents, fixed, strict=True)]
    total = latents[0].new_zeros(latents[0].shape[0])
    for i, j in combinations(range(len(latents)), 2):
        both = available[..., i] & available[..., j]
        total = total + masked_distance(held[i], held[j], both)
    return total


def cycle(reencoded: Sequence[Tensor], first: Tensor, available: Tensor) -> Tensor:
    """Return the cycle-consistency loss of motions decoded from other encoders' tokens, (P,).

    Compares the first encoder's latents (P, n, k): `reencoded` of those motions, `first` of the
    true motion.
    """
    total = first.new_zeros(first.shape[0])
    for index, latent in enumerate(reencoded, start=1):
        both = available[..., 0] & available[..., index]
        total = total + masked_distance(latent, first, both)
    return total


def guidance(outputs: Tensor, wanted: Tensor, log_std: Tensor) -> Tensor:
    """Return the KL divergence from a policy with the same noise around given actions, (P,).

    KL = sum_a (mean_a - wanted_a)^2 / (2 std_a^2), averaged over rows. The std is detached.
    """
    off = (outputs - wanted) * torch.exp(-log_std.detach()).unsqueeze(1)
    return 0.5 * off.square().sum(-1).mean(-1)


LOSSES = "reconstruction", "alignment", "cycle", "guide"


class EncoderShape(NamedTuple):
    """Input columns and hidden layers of an encoder."""

    name: str
    columns: tuple[int, ...]
    """indices of input columns"""
    hidden: tuple[int, ...]


class TokenShape(NamedTuple):
    """Sizes of the token networks. Spans are input columns (first, last + 1)."""

    encoders: tuple[EncoderShape, ...]
    """the first encodes the robot motion, which the kinematic decoder reconstructs"""
    driving: tuple[int, int]
    """one column per encoder: 1 for the driving encoder"""
    available: tuple[int, int]
    """one column per encoder: 1 if its input is available"""
    senses: tuple[int, int]
    critic: tuple[int, int]
    target: tuple[int, int]
    """the first encoder's columns without noise, in the same order"""
    actor_inputs: int
    inputs: int
    outputs: int
    tokens: int
    token_dim: int
    levels: int
    control: tuple[int, ...]
    kinematic: tuple[int, ...]
    critic_hidden: tuple[int, ...]
    guide: tuple[int, int] = (0, 0)
    """actions that follow the reference joints, or an empty span without imitation"""

    @property
    def width(self) -> int:
        """Total dimension of the tokens."""
        return self.tokens * self.token_dim

    def stacks(self) -> dict[str, list[tuple[int, int]]]:
        """Return (inputs, outputs) of every layer by network, the critic last."""
        first = len(self.encoders[0].columns)
        senses, critic = self.senses[1] - self.senses[0], self.critic[1] - self.critic[0]
        return {
            **{
                each.name: _pairs(len(each.columns), each.hidden, self.width)
                for each in self.encoders
            },
            "control": _pairs(self.width + senses, self.control, self.outputs),
            "kinematic": _pairs(self.width, self.kinematic, first),
            "critic": _pairs(critic, self.critic_hidden, 1),
        }


_NOTHING = LossesGroup(reconstruction=0.0, alignment=0.0, cycle=0.0)


class TokenNetworks:
    """Token policies and critics of P members. Implements `PolicyNetworks`."""

    def __init__(
        self,
        tokens: TokenShape,
        weights: LossesGroup = _NOTHING,
        device: torch.device | str = "cpu",
    ) -> None:
        self.tokens = tokens
        self.quantiser = Quantiser(tokens.levels)
        self.shape = Shape(
            tokens.actor_inputs, tokens.inputs, tokens.outputs, False, tokens.control, "silu", False
        )
        stacks = tokens.stacks()
        self._pairs = [pair for pairs in stacks.values() for pair in pairs]
        self._sizes = [*(a * b for a, b in self._pairs), *(b for _, b in self._pairs)]
        self._sizes.append(tokens.outputs)
        self.size = sum(self._sizes)
        self._spans: dict[str, slice] = {}
        for name, pairs in stacks.items():
            start = max((span.stop for span in self._spans.values()), default=0)
            self._spans[name] = slice(start, start + len(pairs))
        self._columns = [torch.tensor(e.columns, device=device) for e in tokens.encoders]
        codes = (*range(*tokens.driving), *range(*tokens.available), *range(*tokens.guide))
        self.unscaled: Tensor | None = torch.tensor(codes, device=device)
        self.weights = torch.tensor([getattr(weights, name) for name in LOSSES], device=device)
        """loss weights, updated in place by schedules"""
        self._learns = [getattr(weights, name) > 0.0 for name in LOSSES]
        self._learns[LOSSES.index("guide")] = tokens.guide[0] < tokens.guide[1]
        self._constant = [e.name in weights.constant for e in tokens.encoders]
        self._share = weights.rows
        self.latest: Tensor | None = None
        """(4, P) unweighted losses of the latest minibatch"""

    # ---- parameters

    def initialise(
        self,
        generators: list[torch.Generator],
        log_std: float,
        masks: list[InputMask] | None = None,
    ) -> Tensor:
        """Return flat parameters with orthogonal weights and zero biases. See `PolicyNetworks`."""
        return torch.stack([self._initial_row(one, log_std) for one in generators])

    def _initial_row(self, generator: torch.Generator, log_std: float) -> Tensor:
        last = {span.stop - 1: name for name, span in self._spans.items()}
        gains = {"control": 0.01}  # small first actions: exploration comes from the noise alone
        row = torch.zeros(self.size)
        parts = split(row, self._sizes, dim=0)
        for index, (fan_in, fan_out) in enumerate(self._pairs):
            gain = gains.get(last[index], 1.0) if index in last else math.sqrt(2.0)
            weight = parts[index].view(fan_in, fan_out)
            torch.nn.init.orthogonal_(weight, gain, generator=generator)
        parts[-1].fill_(log_std)
        return row

    def views(self, flat: Tensor) -> Views:
        """Return views of the layers in a flat matrix (P, size). See `PolicyNetworks`."""
        members, count = flat.shape[0], len(self._pairs)
        parts = split(flat, self._sizes, dim=1)
        layers = [
            Layer(parts[i].view(members, *pair), parts[count + i].unsqueeze(1))
            for i, pair in enumerate(self._pairs)
        ]
        actors = self._spans["critic"].start
        return Views(layers[:actors], layers[actors:], parts[-1])

    def layers(self, views: Views, name: str) -> list[Layer]:
        """Return the layers of a network: an encoder, "control", "kinematic" or "critic"."""
        return [*views.actor, *views.critic][self._spans[name]]

    # ---- acting

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return action means (P, n, outputs) for actor inputs (P, n, d)."""
        return self.decode(views, self.quantiser(self.latent(views, inputs)), self._senses(inputs))

    def latent(self, views: Views, inputs: Tensor) -> Tensor:
        """Return the latents (P, n, width) of the driving encoder of each row."""
        return self._driven(self._latents(views.actor, inputs), inputs)

    def encode(self, views: Views, inputs: Tensor, encoder: str) -> Tensor:
        """Return the latents (P, n, width) of one encoder."""
        names = [each.name for each in self.tokens.encoders]
        seen = inputs.index_select(-1, self._columns[names.index(encoder)])
        return self._run(views.actor, encoder, seen)

    def decode(self, views: Views, token: Tensor, senses: Tensor) -> Tensor:
        """Return action means for tokens (P, n, width) and proprioception (P, n, ...)."""
        return self._run(views.actor, "control", torch.cat((token, senses), dim=-1))

    def reproduce(self, views: Views, token: Tensor) -> Tensor:
        """Return the motions decoded from tokens (P, n, width), in normalised units."""
        return self._run(views.actor, "kinematic", token)

    def value(self, views: Views, inputs: Tensor) -> Tensor:
        """Return values (P, n) for critic inputs (P, n, d)."""
        return self._critic(views.critic, inputs).squeeze(-1)

    # ---- learning

    @contextmanager
    def drawn_to_first(self) -> Generator[None]:
        """Temporarily align all encoders with the first one, on all rows."""
        usual = self._constant, self._share, self._learns[1]
        names = range(len(self._constant))
        self._constant, self._share, self._learns[1] = [place == 0 for place in names], 1.0, True
        try:
            yield
        finally:
            self._constant, self._share, self._learns[1] = usual

    def descend(
        self, views: Views, out: Views, seen: Tensor, inputs: Tensor, loss: LossFn[Result]
    ) -> Result:
        """Write the gradient of policy, value and token losses. See `PolicyNetworks.descend`."""
        with torch.enable_grad():
            actor = [_leaf(layer) for layer in views.actor]
            critic = [_leaf(layer) for layer in views.critic]
            latents = self._latents(actor, seen)
            token = self.quantiser(self._driven(latents, seen))
            decided = torch.cat((token, self._senses(seen)), dim=-1)
            outputs = self._run(actor, "control", decided)
            values = self._critic(critic, inputs)
            losses = self._losses(actor, latents, token, inputs)
            if self._learns[3]:
                wanted = inputs[..., slice(*self.tokens.guide)]
                losses = torch.cat((losses, guidance(outputs, wanted, views.log_std)[None]))
            else:
                losses = torch.cat((losses, torch.zeros_like(losses[:1])))
            extra = (self.weights.unsqueeze(1) * losses).sum()
        given, result = loss(outputs.detach(), values.detach().squeeze(-1))
        leaves = [part for layer in (*actor, *critic) for part in layer]
        grads = _gradients(
            (outputs, values, extra) if extra.requires_grad else (outputs, values),
            leaves,
            (given.outputs, given.values, torch.ones_like(extra))[: 2 + extra.requires_grad],
        )
        places = [part for layer in (*out.actor, *out.critic) for part in layer]
        for place, grad in zip(places, grads, strict=True):
            place.copy_(torch.zeros_like(place) if grad is None else grad)
        out.log_std.copy_(given.log_std)
        if self.latest is None:
            self.latest = torch.zeros_like(losses)
        self.latest.copy_(losses.detach())
        return result

    def _losses(
        self, actor: list[Layer], latents: Sequence[Tensor], token: Tensor, inputs: Tensor
    ) -> Tensor:
        """Return the token losses (3, P). Disabled losses are zero."""
        count = max(1, round(self._share * token.shape[1]))
        token, inputs = token[:, :count], inputs[:, :count]
        latents = [latent[:, :count] for latent in latents]
        available = inputs[..., slice(*self.tokens.available)] > 0.5
        nothing = token.new_zeros(token.shape[0])
        found = [nothing, nothing, nothing]
        if self._learns[0]:
            target = inputs[..., slice(*self.tokens.target)]
            found[0] = reconstruction(self._run(actor, "kinematic", token), target)
        if self._learns[1]:
            found[1] = alignment(latents, available, constant=self._constant)
        if self._learns[2]:
            first = self.tokens.encoders[0].name
            motions = (self._run(actor, "kinematic", self.quantiser(x)) for x in latents[1:])
            again = [self._run(actor, first, motion) for motion in motions]
            found[2] = cycle(again, latents[0], available)
        return torch.stack(found)

    # ---- helpers

    def _latents(self, layers: list[Layer], inputs: Tensor) -> list[Tensor]:
        return [
            self._run(layers, each.name, inputs.index_select(-1, columns))
            for each, columns in zip(self.tokens.encoders, self._columns, strict=True)
        ]

    def _driven(self, latents: Sequence[Tensor], inputs: Tensor) -> Tensor:
        driving = inputs[..., slice(*self.tokens.driving)] > 0.5
        chosen = latents[0]
        for index, latent in enumerate(latents[1:], start=1):
            chosen = torch.where(driving[..., index : index + 1], latent, chosen)
        return chosen

    def _senses(self, inputs: Tensor) -> Tensor:
        return inputs[..., slice(*self.tokens.senses)]

    def _run(self, layers: list[Layer], name: str, x: Tensor) -> Tensor:
        own = layers[self._spans[name]]
        for layer in own[:-1]:
            x = torch.nn.functional.silu(Networks.affine(layer, x))
        return Networks.affine(own[-1], x)

    def _critic(self, layers: list[Layer], inputs: Tensor) -> Tensor:
        x = inputs[..., slice(*self.tokens.critic)]
        for layer in layers[:-1]:
            x = torch.nn.functional.silu(Networks.affine(layer, x))
        return Networks.affine(layers[-1], x)


def _pairs(inputs: int, hidden: tuple[int, ...], outputs: int) -> list[tuple[int, int]]:
    return list(pairwise([inputs, *hidden, outputs]))


def _gradients(
    of: Sequence[Tensor], leaves: Sequence[Tensor], toward: Sequence[Tensor]
) -> Sequence[Tensor | None]:
    """Return the gradient of each leaf, or None if the outputs do not depend on it."""
    return torch.autograd.grad(of, leaves, toward, allow_unused=True)


def _leaf(layer: Layer) -> Layer:
    return Layer(layer.weight.detach().requires_grad_(), layer.bias.detach().requires_grad_())
