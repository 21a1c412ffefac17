"""A trained tracker as one file: its networks, its normaliser, and all that decided it."""

from __future__ import annotations

import pickle
import struct
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from telic.errors import BadFile, MissingFile, TelicError
from telic.storage.files import replacing
from telic.tracking.config import TrackingConfig
from telic.tracking.observations import RowColumns, RowFacts
from telic.tracking.tokens import TokenNetworks
from telic.training.population import Actor, Population, Scaling

FORMAT = 1
_DAMAGE = (
    *(ValueError, TypeError, LookupError, AttributeError, EOFError, OSError, OverflowError),
    *(RuntimeError, MemoryError, AssertionError, pickle.UnpicklingError, struct.error),
)
"""what reading a file that is no tracker raises"""


class TrackerFacts(NamedTuple):
    """What a tracker's file says about itself."""

    step: int
    member: str
    seed: int
    row: dict[str, int]
    """what the widths of its inputs follow from"""
    clips: list[str]
    """names of the motions it was trained on"""
    telic: str


class Tracker:
    """A policy that follows motions."""

    def __init__(
        self,
        config: TrackingConfig,
        facts: TrackerFacts,
        flat: Tensor,
        scaling: Scaling,
    ) -> None:
        self.config, self.facts = config, facts
        self.columns = RowColumns(config, RowFacts(**facts.row))
        self.shape = self.columns.token_shape(config)
        self.networks = TokenNetworks(self.shape, device=flat.device)
        self.actor = Actor(self.networks.views(flat), scaling, self.shape.actor_inputs, None)

    @torch.no_grad()
    def act(self, rows: Tensor) -> Tensor:
        """Return the most likely actions (N, A) for rows (N, d)."""
        seen = self.actor.scaling.apply(rows.unsqueeze(0))
        return self.networks.act(self.actor.views, self.actor.part(seen))[0].clamp(-1.0, 1.0)

    @torch.no_grad()
    def codes(self, rows: Tensor) -> dict[str, Tensor]:
        """Return the codes (N, width) that every encoder gives rows (N, d)."""
        seen = self.actor.part(self.actor.scaling.apply(rows.unsqueeze(0)))
        quantiser = self.networks.quantiser
        return {
            each.name: quantiser.codes(
                quantiser(self.networks.encode(self.actor.views, seen, each.name))
            )[0]
            for each in self.shape.encoders
        }

    def to(self, device: torch.device | str) -> Tracker:
        """Return the same on a device."""
        views = self.actor.views
        layers = (*views.actor, *views.critic)
        flat = torch.cat(
            [
                *(layer.weight.flatten(1) for layer in layers),
                *(layer.bias.flatten(1) for layer in layers),
                views.log_std,
            ],
            dim=1,
        )
        scaling = Scaling(*(part.to(device) for part in self.actor.scaling))
        return Tracker(self.config, self.facts, flat.to(device), scaling)


def member_tracker(
    population: Population, member: int, config: TrackingConfig, facts: TrackerFacts
) -> Tracker:
    """Return one member of a population as it is now."""
    scaling = population.actor().scaling
    own = Scaling(*(part[member : member + 1].clone() for part in scaling))
    return Tracker(config, facts, population.flat[member : member + 1].clone(), own)


def save_tracker(path: Path, tracker: Tracker) -> None:
    """Write a tracker in one stroke."""
    tracker = tracker.to("cpu")
    views = tracker.actor.views
    layers = (*views.actor, *views.critic)
    saved = {
        "format": FORMAT,
        "config": tracker.config.model_dump_json(),
        "facts": tracker.facts._asdict(),
        "weights": [layer.weight[0].clone() for layer in layers],
        "biases": [layer.bias[0, 0].clone() for layer in layers],
        "log_std": views.log_std[0].clone(),
        "shift": tracker.actor.scaling.shift[0, 0].clone(),
        "scale": tracker.actor.scaling.scale[0, 0].clone(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        torch.save(saved, temporary)


def load_tracker(path: Path) -> Tracker:
    """Read a tracker; raises MissingFile or BadFile, and runs nothing of what it reads."""
    if not path.is_file():
        raise MissingFile(f"There is no tracker at {path}.", hint="Train one: telic track train")
    try:
        return _read(path)
    except TelicError:
        raise
    except _DAMAGE as error:
        raise BadFile(
            f"{path} is no tracker, or is damaged ({type(error).__name__}).",
            hint="Take another one of its run: <member>/checkpoints/tracker_<step>.pt.",
        ) from error


def _read(path: Path) -> Tracker:
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    if saved["format"] != FORMAT:
        raise BadFile(
            f"{path} was written by another version (format {saved['format']}).",
            hint="Use the version of telic that wrote it.",
        )
    config = TrackingConfig.model_validate_json(saved["config"])
    facts = TrackerFacts(**saved["facts"])
    parts = [*saved["weights"], *saved["biases"], saved["log_std"]]
    flat = torch.cat([part.reshape(-1).float() for part in parts]).unsqueeze(0)
    scaling = Scaling(*(saved[name].float().view(1, 1, -1) for name in ("shift", "scale")))
    columns = RowColumns(config, RowFacts(**facts.row))
    size = TokenNetworks(columns.token_shape(config)).size
    if flat.shape[1] != size or scaling.shift.shape[-1] != columns.width:
        raise BadFile(f"{path} holds {flat.shape[1]} weights where {size} belong.")
    if not bool(flat.isfinite().all()):
        raise BadFile(f"{path} holds weights that are not finite.")
    return Tracker(config, facts, flat, scaling)
