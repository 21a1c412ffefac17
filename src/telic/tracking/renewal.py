"""Train on a large library a part at a time: every few batches, other clips take their place.

Which clips are loaded follows from the configuration's seed and the number of the batch, so a
training that is resumed loads the same ones. Robots then begin anew; episodes that are cut so are
not failures, and their value counts on.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.core.tensors import integers
from telic.errors import ConfigError
from telic.motions.library import MotionLibrary
from telic.tracking.config import TrackingConfig
from telic.tracking.environment import clips_of
from telic.tracking.task import TrackingTask
from telic.training.population import Actor
from telic.training.rollout import Batch, Collector


def training_clips(
    config: TrackingConfig, library: MotionLibrary, renewal: int = 0, room_s: float | None = None
) -> list[int]:
    """Return the clips that are trained on: where there are too many, evenly drawn ones.

    Args:
        config: says how many.
        library: where they are.
        renewal: how often others have taken their place.
        room_s: seconds of motion that fit; None: all that is drawn does.
    """
    clips = clips_of(library, "train")
    most = config.motions.at_once
    if len(clips) <= most:
        return clips
    seed = config.motions.seed
    generator = torch.Generator().manual_seed(derive(seed, "renewal", renewal) if renewal else seed)
    order = [clips[place] for place in integers(torch.randperm(len(clips), generator=generator))]
    chosen, rest = order[:most], order[most:]
    if room_s is not None:
        chosen = _fitting(library, chosen, rest, room_s, config.robot.control_s)
    return sorted(chosen)


def _fitting(
    library: MotionLibrary, chosen: list[int], rest: Sequence[int], room_s: float, dt: float
) -> list[int]:
    """Return as many clips, the longest exchanged for the shortest of the rest until they fit."""

    def seconds(clip: int) -> float:
        line = library.clips[clip]
        return (line.frames - 1) / line.fps + dt  # the last frame takes room, too

    chosen, rest = sorted(chosen, key=seconds), sorted(rest, key=seconds, reverse=True)
    total = sum(map(seconds, chosen))
    while total > room_s and rest and seconds(rest[-1]) < seconds(chosen[-1]):
        short, long = rest.pop(), chosen.pop()
        total += seconds(short) - seconds(long)
        chosen.insert(0, short)
    return chosen


class RenewingCollector(Collector):
    """A collector that lets other clips be followed from time to time."""

    def join(self, config: TrackingConfig, library: MotionLibrary, task: TrackingTask) -> None:
        """Say what to renew, and from where."""
        if config.trainer.processes > 1:
            raise ConfigError(
                "Several processes count failures of the same clips, and cannot renew them yet.",
                hint="Set motions.renew_every=0 or trainer.processes=1.",
            )
        self._config, self._library, self._task = config, library, task
        self._loaded = 0

    def collect(self, actor: Actor, noise: Tensor, alive: Tensor) -> Batch:
        """Load what this batch follows, then collect it."""
        number = int(self._task.memory["batches"].item())
        every = self._config.motions.renew_every
        renewal, batch_of_it = divmod(number, every)
        if renewal != self._loaded:
            table = self._task.table
            clips = training_clips(self._config, self._library, renewal, table.room * table.dt)
            kept = self._task.memory["played"], self._task.memory["failed"]
            self._task.renew(self._library, clips)
            self._loaded = renewal
            if batch_of_it == 0:
                self.start(stagger=False)
            else:  # resumed in between: the robots are where they were, and so are the counts
                self._task.memory["played"], self._task.memory["failed"] = kept
        self._task.memory["batches"] = self._task.memory["batches"] + 1
        return super().collect(actor, noise, alive)
