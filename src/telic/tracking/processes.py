"""One tracker trained by several processes: what they exchange beside gradients and statistics.

    train_in_processes   the first process is this one and keeps the run; others have their own
      share              makes a training part of a group (`training.group`)

Failures are counted together, so that all processes draw their starts by the same chances.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from torch import Tensor

from telic.core.config import Record
from telic.errors import TrainingFailed
from telic.jobs.process import Process
from telic.storage.files import make_folder
from telic.tracking.config import TrackingConfig
from telic.tracking.task import TrackingTask
from telic.training.group import Nccl, SharedMemory, Sums, TrainingGroup
from telic.training.population import Actor
from telic.training.rollout import Batch, Collector
from telic.training.run import Run
from telic.training.setup import Setup

if TYPE_CHECKING:
    from telic.tracking.train import TrackingOptions

_GOODBYE_S = 20.0


def open_group(
    rank: int, size: int, meeting: Path, device: str, while_waiting: Callable[[], None]
) -> TrainingGroup:
    """Meet the other processes in a folder; on GPUs, each has one of its own."""
    sums: Sums
    if device.startswith("cuda"):
        sums = Nccl(meeting / "group", rank, size, device)
    else:
        sums = SharedMemory(meeting, rank, size, while_waiting)
    return TrainingGroup(rank, size, sums)


class SharedCollector(Collector):
    """A collector whose task counts failures together with those of other processes."""

    def join(self, group: TrainingGroup, task: TrackingTask) -> None:
        """Count together with a group from now on."""
        self._group, self._task = group, task
        self._known = {name: task.memory[name].clone() for name in ("played", "failed")}

    def collect(self, actor: Actor, noise: Tensor, alive: Tensor) -> Batch:
        """Exchange what was counted since the last batch, then collect the next."""
        for name, known in self._known.items():
            grown = self._group.sum_(self._task.memory[name] - known, collecting=True)
            self._task.memory[name] = known + grown
            self._known[name] = self._task.memory[name].clone()
        return super().collect(actor, noise, alive)


def share(setup: Setup, group: TrainingGroup, task: TrackingTask) -> None:
    """Let a training that was just built be one of a group's."""
    assert isinstance(setup.collector, SharedCollector)
    setup.population.join(group)
    setup.collector.join(group, task)


# ---- starting them


class HelperOrder(Record):
    """What a process that helps is told."""

    config: TrackingConfig
    runs_dir: str
    seeds: tuple[int, ...]
    device: str
    threads: int | None
    evaluations: int
    fresh: bool
    save_every_s: float
    rank: int
    meeting: str

    def do(self) -> None:
        """Train along, until all are done."""
        from telic.tracking.train import TrackingOptions, train_tracker

        size, parent = self.config.trainer.processes, os.getppid()

        def require_parent() -> None:
            if os.getppid() != parent:
                raise TrainingFailed("The process that leads this training has ended.")

        group = open_group(self.rank, size, Path(self.meeting), self.device, require_parent)
        try:
            options = TrackingOptions(
                seeds=self.seeds,
                name=f"process-{self.rank}",
                fresh=self.fresh,
                device=self.device,
                threads=self.threads,
                evaluations=self.evaluations,
                save_every_s=self.save_every_s,
                group=group,
            )
            train_tracker(self.config, Path(self.runs_dir), options)
        finally:
            group.close()


def train_in_processes(
    config: TrackingConfig, runs_dir: Path, options: TrackingOptions, *, is_new: bool
) -> Run:
    """Train with several processes; on GPUs, each has one of its own.

    Args:
        config: says how many.
        runs_dir: where the run goes; the others keep theirs in `.processes` there.
        options: of the training, with a name.
        is_new: whether nothing is there to go on from.
    """
    from telic.tracking.train import train_tracker

    assert options.name is not None
    place = runs_dir / ".processes" / options.name
    make_folder(place)
    with tempfile.TemporaryDirectory() as meeting:
        SharedMemory.make(Path(meeting), config.trainer.processes)
        helpers = [
            _start(
                HelperOrder(
                    config=config,
                    runs_dir=str(place),
                    seeds=tuple(options.seeds),
                    device=f"cuda:{rank}" if options.device.startswith("cuda") else options.device,
                    threads=options.threads,
                    evaluations=options.evaluations,
                    fresh=is_new,
                    save_every_s=options.save_every_s,
                    rank=rank,
                    meeting=meeting,
                ),
                place / f"process-{rank}.log",
            )
            for rank in range(1, config.trainer.processes)
        ]

        def require_helpers() -> None:
            for rank, helper in enumerate(helpers, 1):
                if helper.code is not None:
                    raise TrainingFailed(
                        f"Process {rank + 1} of {len(helpers) + 1} that train together ended with "
                        f"exit code {helper.code}; its log is "
                        f"{place / f'process-{rank}.log'}.",
                        hint="Run the same command again: it goes on from the last save.",
                    )

        try:
            size = config.trainer.processes
            group = open_group(0, size, Path(meeting), options.device, require_helpers)
            try:
                return train_tracker(config, runs_dir, options._replace(group=group))
            finally:
                group.close()
        finally:
            for helper in helpers:
                if helper.wait(_GOODBYE_S) is None:
                    helper.kill()


def _start(order: HelperOrder, log: Path) -> Process:
    command = [sys.executable, "-m", "telic.tracking.processes", order.model_dump_json()]
    with log.open("wb") as out:
        return Process(command, stdout=out, own_group=False)


if __name__ == "__main__":
    HelperOrder.model_validate_json(sys.argv[1]).do()
