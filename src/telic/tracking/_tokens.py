"""Token networks: encoders, quantized tokens, decoders, critic and auxiliary losses.

Losses have shape (P,), one value per member, and members are independent. Latents are compared
before quantization. Rows in which the input of an encoder is unavailable are masked.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from itertools import combinations
from typing import NamedTuple

import torch
from torch import Tensor

from telic.core.quantizer import Quantizer
from telic.tracking.config import LossesGroup, NetworksGroup
from telic.training.networks import (
    Layer,
    LayerPairs,
    LossFn,
    Networks,
    Result,
    Shape,
    Views,
    layer_pairs,
)


def masked_distance(one: Tensor, other: Tensor, mask: Tensor) -> Tensor:
    """Return the masked mean squared distance of latents (P, n, k), or zero if all are masked."""
    weight = mask.to(one.dtype)
    apart = (one - other).square().mean(-1)
    return (apart * weight).sum(1) / weight.sum(1).clamp_min(1.0)


def reconstruction(decoded: Tensor, target: Tensor) -> Tensor:
    """Return the mean squared error of decoded motions in normalized units, shape (P,)."""
    return (decoded - target).square().mean((1, 2))


def alignment(
    latents: Sequence[Tensor],
    available: Tensor,
    constant: Sequence[bool] | None = None,
) -> Tensor:
    """Return the mean squared distance of latents (P, n, k), summed over pairs of encoders.

    `available` (P, n, encoders) masks rows without input for an encoder. Latents of `constant`
    encoders are detached and receive no gradient.
    """
    fixed = constant or [False] * len(latents)
    held = [one.detach() if still else one for one, still in zip(latents, fixed, strict=True)]
    total = latents[0].new_zeros(latents[0].shape[0])
    for i, j in combinations(range(len(latents)), 2):
        both = available[..., i] & available[..., j]
        total = total + masked_distance(held[i], held[j], both)
    return total


def cycle(reencoded: Sequence[Tensor], first: Tensor, available: Tensor) -> Tensor:
    """Return the cycle-consistency loss of motions decoded from the tokens of other encoders.

    Both arguments are latents (P, n, k) of the first encoder: `reencoded` for decoded motions, and
    `first` for the true motion.
    """
    total = first.new_zeros(first.shape[0])
    for index, latent in enumerate(reencoded, start=1):
        both = available[..., 0] & available[..., index]
        total = total + masked_distance(latent, first, both)
    return total


def guidance(outputs: Tensor, wanted: Tensor, log_std: Tensor) -> Tensor:
    """Return the KL divergence from a policy with the same noise around given actions, shape (P,).

    KL = sum_a (mean_a - wanted_a)^2 / (2 std_a^2), averaged over rows. The std is detached.
    """
    off = (outputs - wanted) * torch.exp(-log_std.detach()).unsqueeze(1)
    return 0.5 * off.square().sum(-1).mean(-1)


LOSSES = "reconstruction", "alignment", "cycle", "guide"


class TokenShape(NamedTuple):
    """Sizes of the token networks. Spans are ranges of input columns (first, last + 1)."""

    encoders: dict[str, tuple[int, ...]]
    """input columns by encoder, where the first one encodes the robot motion to reconstruct"""
    spans: dict[str, tuple[int, int]]
    """ranges of columns: senses, driving and available (a column per encoder), commanded, critic,
    target (noise-free input of the first encoder) and guide (actions to follow the joints)"""
    outputs: int
    networks: NetworksGroup

    @property
    def width(self) -> int:
        """Total number of dimensions of the tokens."""
        return self.networks.tokens * self.networks.token_dim

    @property
    def actor_inputs(self) -> int:
        """Number of leading input columns that the policy observes."""
        return self.spans["commanded"][1]

    @property
    def inputs(self) -> int:
        """Number of input columns."""
        return max(end for _, end in self.spans.values())

    def columns(self, name: str) -> slice:
        """Return the columns of a span."""
        return slice(*self.spans[name])

    def stacks(self) -> dict[str, LayerPairs]:
        """Return the input and output sizes of all layers by network, with the critic last."""
        nets, first = self.networks, len(next(iter(self.encoders.values())))
        sizes = {name: end - start for name, (start, end) in self.spans.items()}
        return {
            **{
                name: layer_pairs(len(columns), nets.encoders[name].hidden, self.width)
                for name, columns in self.encoders.items()
            },
            "control": layer_pairs(self.width + sizes["senses"], nets.control, self.outputs),
            "kinematic": layer_pairs(self.width, nets.kinematic, first),
            "critic": layer_pairs(sizes["critic"], nets.critic, 1),
        }


_NOTHING = LossesGroup(reconstruction=0.0, alignment=0.0, cycle=0.0)


class TokenNetworks(Networks):
    """Token policies and critics of P members."""

    def __init__(
        self,
        tokens: TokenShape,
        weights: LossesGroup = _NOTHING,
        device: torch.device | str = "cpu",
    ) -> None:
        self.tokens, nets = tokens, tokens.networks
        self.quantizer = Quantizer(nets.levels)
        stacks = tokens.stacks()
        *actor, critic = stacks.values()
        super().__init__(
            Shape(tokens.actor_inputs, tokens.inputs, tokens.outputs, False, nets.control, "silu"),
            [pair for pairs in actor for pair in pairs],
            critic,
        )
        self._spans: dict[str, slice] = {}
        for name, pairs in stacks.items():
            start = max((span.stop for span in self._spans.values()), default=0)
            self._spans[name] = slice(start, start + len(pairs))
        self._columns = {
            name: torch.tensor(own, device=device) for name, own in tokens.encoders.items()
        }
        unscaled = (tokens.spans[name] for name in ("driving", "available", "guide"))
        codes = [column for span in unscaled for column in range(*span)]
        self.unscaled = torch.tensor(codes, device=device)
        self.weights = torch.tensor([getattr(weights, name) for name in LOSSES], device=device)
        """loss weights, which schedules update in place"""
        self._learns = [getattr(weights, name) > 0.0 for name in LOSSES]
        self._learns[LOSSES.index("guide")] = tokens.spans["guide"][0] < tokens.spans["guide"][1]
        self._constant = [name in weights.constant for name in tokens.encoders]
        self._share = weights.rows
        self.latest: Tensor | None = None
        """unweighted losses of the latest minibatch, (4, P)"""

    def gain(self, index: int) -> float:
        """Return the gain of the initial weights of a layer."""
        last = {span.stop - 1: name for name, span in self._spans.items()}
        if index not in last:
            return math.sqrt(2.0)
        # Small initial actions, so that noise alone drives exploration.
        return 0.01 if last[index] == "control" else 1.0

    def layers(self, views: Views, name: str) -> list[Layer]:
        """Return the layers of a network, i.e. an encoder, "control", "kinematic" or "critic"."""
        return [*views.actor, *views.critic][self._spans[name]]

    # ---- acting

    def act(self, views: Views, inputs: Tensor) -> Tensor:
        """Return action means (P, n, outputs) for actor inputs (P, n, d)."""
        return self.decode(views, self.quantizer(self.latent(views, inputs)), self._senses(inputs))

    def latent(self, views: Views, inputs: Tensor) -> Tensor:
        """Return the latents (P, n, width) of the encoder that is selected for each row."""
        return self._driven(self._latents(views.actor, inputs), inputs)

    def encode(self, views: Views, inputs: Tensor, encoder: str) -> Tensor:
        """Return the latents (P, n, width) of one encoder."""
        return self._run(views.actor, encoder, inputs.index_select(-1, self._columns[encoder]))

    def decode(self, views: Views, token: Tensor, senses: Tensor) -> Tensor:
        """Return action means for tokens (P, n, width) and proprioception (P, n, ...)."""
        return self._run(views.actor, "control", torch.cat((token, senses), dim=-1))

    def value(self, views: Views, inputs: Tensor) -> Tensor:
        """Return values (P, n) for critic inputs (P, n, d)."""
        return super().value(views, inputs[..., self.tokens.columns("critic")])

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
        """Write the gradients of policy, value and token losses. See `Networks.descend`."""
        with torch.enable_grad():
            actor = [_detached(layer) for layer in views.actor]
            critic = [_detached(layer) for layer in views.critic]
            latents = self._latents(actor, seen)
            token = self.quantizer(self._driven(latents, seen))
            decided = torch.cat((token, self._senses(seen)), dim=-1)
            outputs = self._run(actor, "control", decided)
            values = self.run(critic, inputs[..., self.tokens.columns("critic")])
            losses = self._losses(actor, latents, token, inputs)
            if self._learns[3]:
                wanted = inputs[..., self.tokens.columns("guide")]
                losses = torch.cat((losses, guidance(outputs, wanted, views.log_std)[None]))
            else:
                losses = torch.cat((losses, torch.zeros_like(losses[:1])))
            extra = (self.weights.unsqueeze(1) * losses).sum()
        given, result = loss(outputs.detach(), values.detach().squeeze(-1))
        leaves = [part for layer in (*actor, *critic) for part in layer]
        # Gradients of leaves that no output depends on are None.
        grads: Sequence[Tensor | None] = torch.autograd.grad(
            (outputs, values, extra) if extra.requires_grad else (outputs, values),
            leaves,
            (given.outputs, given.values, torch.ones_like(extra))[: 2 + extra.requires_grad],
            allow_unused=True,
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
        """Return the token losses (3, P), where disabled losses are zero."""
        count = max(1, round(self._share * token.shape[1]))
        token, inputs = token[:, :count], inputs[:, :count]
        latents = [latent[:, :count] for latent in latents]
        available = inputs[..., self.tokens.columns("available")] > 0.5
        nothing = token.new_zeros(token.shape[0])
        found = [nothing, nothing, nothing]
        if self._learns[0]:
            target = inputs[..., self.tokens.columns("target")]
            found[0] = reconstruction(self._run(actor, "kinematic", token), target)
        if self._learns[1]:
            found[1] = alignment(latents, available, constant=self._constant)
        if self._learns[2]:
            first = next(iter(self.tokens.encoders))
            motions = (self._run(actor, "kinematic", self.quantizer(x)) for x in latents[1:])
            again = [self._run(actor, first, motion) for motion in motions]
            found[2] = cycle(again, latents[0], available)
        return torch.stack(found)

    # ---- helpers

    def _latents(self, layers: list[Layer], inputs: Tensor) -> list[Tensor]:
        return [
            self._run(layers, name, inputs.index_select(-1, columns))
            for name, columns in self._columns.items()
        ]

    def _driven(self, latents: Sequence[Tensor], inputs: Tensor) -> Tensor:
        driving = inputs[..., self.tokens.columns("driving")] > 0.5
        chosen = latents[0]
        for index, latent in enumerate(latents[1:], start=1):
            chosen = torch.where(driving[..., index : index + 1], latent, chosen)
        return chosen

    def _senses(self, inputs: Tensor) -> Tensor:
        return inputs[..., self.tokens.columns("senses")]

    def _run(self, layers: list[Layer], name: str, x: Tensor) -> Tensor:
        return self.run(layers[self._spans[name]], x)


def _detached(layer: Layer) -> Layer:
    return Layer(layer.weight.detach().requires_grad_(), layer.bias.detach().requires_grad_())
