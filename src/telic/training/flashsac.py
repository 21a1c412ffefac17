"""FlashSAC: soft actor-critic with large batches and weight normalization.

    FlashSac.learn        one batch of experience
      ReplayMemory.add    store it in the replay buffer
      update              gradient steps on replay samples
        critic            cross-entropy to the projected distribution of the smaller target
        actor             critics' gradient, every second step, and the temperature
        project_weights   weights to unit norm

Every tensor has a member dimension P. The two critics of a member are adjacent rows. Deviations
from the paper are listed in docs/explanation/learners.md.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from telic.core.tensors import norm
from telic.storage.files import replacing
from telic.training.networks import Layer, Operation, Squashed, Views
from telic.training.pathwise import (
    NetworkParameters,
    PartSizes,
    PathwiseLearner,
    SquashedActor,
    cross_entropy,
    named_parts,
    return_factor,
)
from telic.training.population import LearningResult, Population, UpdateStats
from telic.training.rollout import Batch, by_member

_BINS = 101
_TAU = 0.01
"""Polyak averaging coefficient of the target critics"""
_TARGET_STD = 0.15
"""standard deviation of actions that defines the target entropy"""
_FIRST_TEMPERATURE = 0.01
_MOMENTUM, _EPSILON = 0.01, 1e-5
_BLOCKS = 2
_WIDER = 4
_TWO = 2
"""number of critics per member"""


# ------------------------------------------------------------------ networks


def residual_sizes(inputs: int, outputs: int, width: int) -> tuple[PartSizes, int]:
    """Return the parameter sizes of a residual network and the number of trained parts."""
    inner = [width * _WIDER, width] * _BLOCKS
    pairs = zip([width, width * _WIDER] * _BLOCKS, inner, strict=True)
    learned: dict[str, tuple[int, ...]] = {
        "weight_in": (inputs, width),
        **{f"weight_{i}": pair for i, pair in enumerate(pairs)},
        "weight_out": (width, outputs),
        "bias_out": (outputs,),
        "scale_out": (width,),
        **{f"scale_{i}": (size,) for i, size in enumerate(inner)},
        **{f"bias_{i}": (size,) for i, size in enumerate(inner)},
    }
    statistics = {
        f"{name}_{i}": (size,) for i, size in enumerate(inner) for name in ("mean", "var")
    }
    return {**learned, **statistics}, len(learned)


def residual(net: NetworkParameters, x: Tensor, mode: str) -> Tensor:
    """Apply residual networks to inputs (P, n, d) and return outputs (C, n, outputs).

    Layers: linear, residual blocks of linear, batch normalization and ReLU, RMS norm, linear. C / P
    consecutive networks share the inputs of a member. The modes "learn" and "batch" use batch
    statistics, and "learn" also updates the running statistics, which the mode "running" uses.
    """
    half = torch.bfloat16 if x.is_cuda else torch.float32
    parts = {name: part.unbind(0) for name, part in net.layers.items()}
    shared = len(net.flat) // len(x)
    out: list[Tensor] = []
    for c in range(len(net.flat)):

        def block(y: Tensor, i: int, c: int = c) -> Tensor:
            mean, var = (
                (None, None) if mode == "batch" else (parts[f"mean_{i}"][c], parts[f"var_{i}"][c])
            )
            y = functional.batch_norm(
                y @ parts[f"weight_{i}"][c].to(half),
                *(mean, var, parts[f"scale_{i}"][c], parts[f"bias_{i}"][c]),
                training=mode != "running",
                momentum=_MOMENTUM,
                eps=_EPSILON,
            )
            return torch.relu(y)

        y = x[c // shared].to(half) @ parts["weight_in"][c].to(half)
        for i in range(0, 2 * _BLOCKS, 2):
            y = y + block(block(y, i), i + 1)
        y = functional.rms_norm(y.float(), y.shape[-1:], parts["scale_out"][c], 1e-6)
        out.append(torch.addmm(parts["bias_out"][c], y, parts["weight_out"][c]))
    return torch.stack(out)


@torch.no_grad()
def project_weights(net: NetworkParameters) -> None:
    """Scale each unit's weights to norm 1, and the parameters of normalizations to norm √k."""
    for name, part in net.layers.items():
        kind, _, index = name.partition("_")
        if kind == "weight":
            part.div_(norm(part, dim=1, keepdim=True).clamp_min(1e-6))
        elif name == "scale_out":
            part.mul_(math.sqrt(part.shape[1]) / norm(part, dim=1, keepdim=True))
        elif kind == "scale":
            bias = net.layers[f"bias_{index}"]
            length = norm(torch.cat((part, bias), dim=1), dim=1, keepdim=True).clamp_min(1e-6)
            part.mul_(math.sqrt(part.shape[1]) / length)
            bias.mul_(math.sqrt(part.shape[1]) / length)


class FlashSacActor(SquashedActor):
    """Residual actor whose batch normalization is folded into the linear layers for inference."""

    def build(self, inputs: int, outputs: int, hidden: tuple[int, ...]) -> None:
        """Set `sizes` and `learned`."""
        self.sizes, self.learned = residual_sizes(inputs, outputs, hidden[0])

    def views(self, flat: Tensor) -> Views:
        """Return the linear layers with the running statistics folded in."""
        own = named_parts(flat, self.sizes)
        weight = own["weight_in"]
        layers = [Layer(weight, weight.new_zeros(len(weight), 1, weight.shape[-1]))]
        for i in range(2 * _BLOCKS):
            factor = own[f"scale_{i}"] * (own[f"var_{i}"] + _EPSILON).rsqrt()
            bias = own[f"bias_{i}"] - own[f"mean_{i}"] * factor
            layers.append(Layer(own[f"weight_{i}"] * factor.unsqueeze(1), bias.unsqueeze(1)))
        last = own["weight_out"] * own["scale_out"].unsqueeze(2)
        layers.append(Layer(last, own["bias_out"].unsqueeze(1)))
        return Views(layers, [], flat.new_zeros(len(flat), 0))

    def program(self, views: Views) -> list[Operation]:
        """Return the operations of the network."""
        first, *inner, last = (Operation("affine", layer) for layer in views.actor)
        relu, keep, add = Operation("relu"), Operation("keep"), Operation("add")
        blocks = [
            part
            for one, two in zip(inner[::2], inner[1::2], strict=True)
            for part in (keep, one, relu, two, relu, add)
        ]
        return [first, *blocks, Operation("rms_norm"), last]


# ------------------------------------------------------------------ replay


class ReplayMemory:
    """Replay buffer of all members, a ring buffer on the learner's device.

    Saves are incremental: each file next to the state contains the batches since the previous save.
    A resumed run draws the same samples as an uninterrupted one.
    """

    def __init__(self, batches: int, widths: list[int], device: torch.device) -> None:
        self.batches, self.widths, self.device = batches, widths, device
        self.rows = torch.empty(0)
        """replay data of shape (P, batches * B, columns)"""
        self._saved = 0

    def add(self, batch: Batch, iteration: int) -> None:
        """Store the batch of an iteration, replacing the oldest one."""
        columns = (batch.inputs, batch.next_inputs, batch.actions)
        last = (batch.rewards.unsqueeze(-1), batch.terminated.float().unsqueeze(-1))
        new = by_member(torch.cat((*columns, *last), dim=-1))
        if not len(self.rows):
            P, B, width = new.shape
            self.rows = torch.zeros(P, self.batches * B, width, device=self.device)
        self._place(iteration, new.shape[1]).copy_(new)

    def _place(self, iteration: int, size: int) -> Tensor:
        start = iteration % self.batches * size
        return self.rows[:, start : start + size]

    def sample(self, index: Tensor) -> tuple[Tensor, ...]:
        """Gather inputs, next inputs, actions, rewards and terminations at indices (P, n)."""
        P, size, width = self.rows.shape
        index = index + torch.arange(0, P * size, size, device=index.device).unsqueeze(1)
        rows = self.rows.view(-1, width).index_select(0, index.view(-1)).view(P, -1, width)
        *parts, reward, end = rows.split([*self.widths, 1, 1], dim=-1)
        return (*parts, reward.squeeze(-1), end.squeeze(-1))

    def save(self, folder: Path, iteration: int) -> None:
        """Write the batches since the last save and remove files no longer needed to resume."""
        before, self._saved = self._saved, iteration
        first = max(before, iteration - self.batches)
        if first < iteration:
            size = self.rows.shape[1] // self.batches
            new = [self._place(each, size).cpu().clone() for each in range(first, iteration)]
            with replacing(folder / f"replay-{first:09}-{iteration:09}.pt") as temporary:
                torch.save(torch.stack(new), temporary)
        for file, _, end in _kept(folder):
            if end <= before - self.batches:  # the previous state still needs newer files
                file.unlink()

    def load(self, folder: Path, iteration: int) -> None:
        """Load the batches before an iteration. Raises ValueError if any is missing."""
        missing = set(range(max(0, iteration - self.batches), iteration))
        for file, first, end in _kept(folder):
            if end > iteration:  # newer than the resumed state
                file.unlink()
                continue
            for each, batch in zip(
                range(first, end), torch.load(file, weights_only=True), strict=True
            ):
                if each not in missing:
                    continue
                missing.discard(each)
                P, B, width = batch.shape
                if not len(self.rows):
                    self.rows = torch.zeros(P, self.batches * B, width, device=self.device)
                self._place(each, B).copy_(batch)
        if missing:
            raise ValueError(f"{len(missing)} batches of the replay buffer are missing")
        self._saved = iteration


def _kept(folder: Path) -> list[tuple[Path, int, int]]:
    """Return the replay files with the range of batches (first, end) in each file."""
    names = [(file, file.stem.split("-")) for file in sorted(folder.glob("replay-*-*.pt"))]
    return [(file, int(first), int(end)) for file, (_, first, end) in names]


# ------------------------------------------------------------------ learning


class FlashSac(PathwiseLearner):
    """FlashSAC learner for a population. On a GPU, the update is one CUDA graph."""

    def __init__(self, population: Population, iterations: int) -> None:
        super().__init__(population, iterations, _BINS)
        settings, shape, device = population.settings, population.shape, population.device
        width = (settings.critic_hidden or settings.hidden)[0]
        sizes, learned = residual_sizes(shape.critic_inputs + shape.outputs, _BINS, width)
        self._critic = self.critics(sizes, learned, _TWO)
        self._target = NetworkParameters(self._critic.flat.clone(), sizes, 0)
        start = torch.full((population.size, 1), math.log(_FIRST_TEMPERATURE), device=device)
        self._temperature = NetworkParameters(start, {"log": (1,)}, 1)
        self.parts |= {"critic": self._critic, "target": self._target}
        self.parts["temperature"] = self._temperature
        self._entropy = 0.5 * shape.outputs * math.log(2.0 * math.pi * math.e * _TARGET_STD**2)
        batches = min(-(-settings.replay_size // settings.batch_size), iterations)
        self.replay = ReplayMemory(batches, [shape.critic_inputs] * 2 + [shape.outputs], device)
        self._batches = 0

    def learn(self, batch: Batch, iteration: int) -> LearningResult:
        """Store a batch and update after `learning_starts` samples. See `Learner.learn`."""
        population, settings = self.population, self.population.settings
        self.replay.add(batch, iteration)
        self._batches = iteration + 1
        population.moments.update(by_member(batch.inputs), population.alive)
        factor = return_factor(population, batch)
        collected = self._batches * settings.batch_size
        if collected < settings.learning_starts:
            nothing = torch.full_like(factor[:, 0], torch.nan)
            rest = torch.zeros_like(nothing), torch.ones_like(population.alive)
            return LearningResult(UpdateStats._make((*[nothing] * 6, *rest)), nothing, nothing)
        size = min(collected, len(self.replay.rows[0]))
        shape = settings.updates, settings.minibatch_size
        index = [
            torch.randint(size, shape, generator=one, device=population.device)
            for one in population.generators("replay", iteration)
        ]
        noise = self.draws("noise", iteration, 2 * shape[0], shape[1], population.shape.outputs)
        return self.updated(torch.stack(index, dim=1), noise, factor)

    def update(self) -> LearningResult:
        """Take all gradient steps for a batch."""
        population, scaling = self.population, self.population.scaling()
        index, noise, factor = self.held
        finite = torch.ones_like(population.alive)
        critic_loss = length = explained = policy_loss = entropy = spread = torch.empty(0)
        for step in range(len(index)):
            now, after, actions, rewards, ends = self.replay.sample(index[step])
            now, after = scaling.apply(now), scaling.apply(after)
            sample = now, after, actions, rewards * factor, ends
            critic_loss, explained, length = self._improve_critics(sample, noise[2 * step])
            finite = finite & length.isfinite()
            if step % 2 or len(index) == 1:
                policy_loss, entropy, spread = self._improve_actor(now, noise[2 * step + 1])
        nothing = torch.full_like(critic_loss, torch.nan)
        steps = torch.full_like(critic_loss, float(len(index)))
        stats = UpdateStats(
            *(policy_loss, critic_loss, entropy, nothing, nothing, length, steps, finite)
        )
        return LearningResult(stats, explained, spread)

    def _improve_critics(
        self, sample: tuple[Tensor, ...], noise: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Update the critics toward reward + γ (Q' - α log π') and return diagnostics."""
        population, bins = self.population, self.bins
        temperature = self._temperature.layers["log"].detach().exp()
        now, after, actions, rewards, ends = sample
        P, B, _ = now.shape
        with torch.no_grad():
            outputs = residual(self.actor, population.part(after), "running")
            following, density = self.squashed.draw(outputs, noise)
            # Evaluate current and next states in one pass to share batch statistics.
            x = torch.cat((torch.cat((now, actions), -1), torch.cat((after, following), -1)), 1)
            later = residual(self._target, x, "batch")[:, B:].view(P, _TWO, B, _BINS)
            careful = bins.mean(later).argmin(1).view(P, 1, B, 1).expand(-1, -1, -1, _BINS)
            chances = later.gather(1, careful)[:, 0].softmax(-1)
            discount = population.gamma * (1.0 - ends)
            goal = bins.moved(chances, rewards - discount * temperature * density, discount)
        logits = residual(self._critic, x, "learn")[:, :B].view(P, _TWO, B, _BINS)
        losses = cross_entropy(logits, goal.unsqueeze(1)).mean(2)
        rate, active = (
            each.repeat_interleave(_TWO, 0) for each in (population.learning_rate, population.alive)
        )
        length = self._critic.descend(losses.sum(), rate, active, math.inf)
        project_weights(self._critic)
        self._target.flat.lerp_(self._critic.flat, _TAU)
        with torch.no_grad():
            wanted, found = (goal * bins.centers).sum(-1), bins.mean(logits[:, 0])
            explained = 1.0 - (wanted - found).var(1) / wanted.var(1).clamp_min(1e-8)
        return losses.detach().mean(1), explained, length.view(P, _TWO).amax(1)

    def _improve_actor(self, now: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Update the actor to maximize min Q - α log π, and tune α toward the target entropy."""
        population, log_temperature = self.population, self._temperature.layers["log"]
        outputs = residual(self.actor, population.part(now), "learn")
        actions, density = self.squashed.draw(outputs, noise)
        logits = residual(self._critic, torch.cat((now, actions), -1), "running")
        value = self.bins.mean(logits).view(len(now), _TWO, -1).amin(1)
        losses = (log_temperature.detach().exp() * density - value).mean(1)
        self.actor.descend(losses.sum(), population.learning_rate, population.alive, math.inf)
        project_weights(self.actor)
        missing = density.detach().mean(1, keepdim=True) + self._entropy
        toward = -(log_temperature.exp() * missing).sum()
        self._temperature.descend(toward, population.learning_rate, population.alive, math.inf)
        spread = Squashed.parts(outputs.detach())[1].exp().mean((1, 2))
        return losses.detach(), -density.detach().mean(1), spread

    def anneal(self, progress: float) -> None:
        """Anneal the learning rate to half its initial value with a cosine schedule."""
        population = self.population
        factor = 0.75 + 0.25 * math.cos(math.pi * min(progress, 1.0))
        population.learning_rate.copy_(population.initial_rate * factor)

    def state_dict(self, folder: Path) -> dict[str, Any]:
        """Return the state of the learner and write the replay buffer to `folder`."""
        self.replay.save(folder, self._batches)
        return {**super().state_dict(folder), "batches": self._batches}

    def load_state_dict(self, state: dict[str, Any], folder: Path) -> None:
        """Restore the state and the replay buffer."""
        super().load_state_dict(state, folder)
        self._batches = state["batches"]
        self.replay.load(folder, self._batches)
