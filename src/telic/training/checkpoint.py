"""Save and restore a whole run so exactly that nothing tells it was interrupted."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch

from telic.errors import TrainingFailed
from telic.storage.files import replacing
from telic.training.population import Actor
from telic.training.rollout import Batch
from telic.training.setup import Setup

FORMAT = 1


class Progress(NamedTuple):
    """Where a run is: batches learned from, and the one collected but not yet learned from."""

    iteration: int
    seconds: float
    """training time so far, over all sessions"""
    pending: Batch | None
    """None: it is yet to be collected"""


def save(path: Path, setup: Setup, progress: Progress) -> None:
    """Write everything in one stroke; a reader finds the old state or the new one."""
    state = {
        "format": FORMAT,
        "key": setup.job.key,
        "iteration": progress.iteration,
        "seconds": progress.seconds,
        "pending": _batch_state(progress.pending) if progress.pending else None,
        "population": setup.population.state_dict(),
        "collector": setup.collector.state_dict(),
        "tracker": setup.tracker.state_dict(),
        "health": [each.state_dict() for each in setup.health],
    }
    with replacing(path) as temporary:
        torch.save(state, temporary)


def restore(path: Path, setup: Setup) -> Progress | None:
    """Put a saved state into a freshly built set-up; None when there is nothing saved."""
    if not path.exists():
        return None
    device = setup.env.device
    state: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
    if state["format"] != FORMAT or state["key"] != setup.job.key:
        raise TrainingFailed(
            f"{path} belongs to another job or version and cannot be continued.",
            hint="Start anew with --fresh.",
        )
    setup.population.load_state_dict(state["population"])
    setup.collector.load_state_dict(state["collector"])
    setup.tracker.load_state_dict(state["tracker"])
    for health, saved in zip(setup.health, state["health"], strict=True):
        health.load_state_dict(saved)
    pending = _batch_of(state["pending"], setup) if state["pending"] else None
    return Progress(state["iteration"], state["seconds"], pending)


def warm_start(setup: Setup) -> list[str]:
    """Let members go on from policies trained before; return the names of those that could not.

    A policy fits when its networks and what they see have the same sizes.
    """
    return [
        member.name
        for place, member in enumerate(setup.job.members)
        if member.start is not None
        and not setup.population.take_over(
            place, torch.load(member.start, map_location=setup.env.device, weights_only=True)
        )
    ]


def _batch_state(batch: Batch) -> dict[str, Any]:
    actor = batch.actor
    flat = torch.cat(
        [layer.weight.flatten(1) for layer in (*actor.views.actor, *actor.views.critic)]
        + [layer.bias.flatten(1) for layer in (*actor.views.actor, *actor.views.critic)]
        + [actor.views.log_std],
        dim=1,
    )
    tensors = {name: value for name, value in batch._asdict().items() if name != "actor"}
    return {**tensors, "flat": flat, "shift": actor.scaling.shift, "scale": actor.scaling.scale}


def _batch_of(state: dict[str, Any], setup: Setup) -> Batch:
    population = setup.population
    now = population.actor()
    actor = Actor(
        population.networks.views(state.pop("flat")),
        now.scaling._replace(shift=state.pop("shift"), scale=state.pop("scale")),
        now.actor_inputs,
        now.mask,
    )
    return Batch(**state, actor=actor)
