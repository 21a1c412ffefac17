"""One training by several processes: each has environments of its own, all have the same weights.

    train_in_processes   the first process is this one and keeps the run; others have their own
      TrainingGroup      sums numbers of all processes (torch.distributed: gloo, or nccl on GPUs)
      share              makes a training part of a group

Gradients, losses and KL are means over processes, so every process takes the same step; statistics
of inputs and returns are those of all samples, merged exactly; failures are counted together. Each
process normalises advantages over its own samples.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from telic.core.config import Record
from telic.core.seeds import derive
from telic.core.tensors import numbers
from telic.errors import TrainingFailed
from telic.storage.files import make_folder
from telic.tracking.config import TrackingConfig
from telic.tracking.task import TrackingTask
from telic.tracking.tokens import TokenNetworks
from telic.training.population import Actor, Moments, Population
from telic.training.rollout import Batch, Collector
from telic.training.run import Run
from telic.training.setup import Setup

if TYPE_CHECKING:
    from telic.tracking.train import TrackingOptions

_PATIENCE = timedelta(minutes=10)
_GOODBYE_S = 20.0
_distributed: Any = torch.distributed


class TrainingGroup:
    """Processes that train together."""

    def __init__(self, rank: int, size: int, meeting: Path, device: str) -> None:
        """Meet the other processes in a file that all of them can write."""
        self.rank, self.size = rank, size
        kind = "nccl" if device.startswith("cuda") else "gloo"
        where = f"file://{meeting.absolute()}"
        _distributed.init_process_group(
            kind, init_method=where, rank=rank, world_size=size, timeout=_PATIENCE
        )
        # The thread that collects has a channel of its own: two threads on one would cross.
        self._collecting = _distributed.new_group(timeout=_PATIENCE)

    def sum_(self, numbers: Tensor, *, collecting: bool = False) -> Tensor:
        """Replace numbers by their sum over processes."""
        _distributed.all_reduce(numbers, group=self._collecting if collecting else None)
        return numbers

    def any(self, flag: bool) -> bool:
        """Say whether a flag is set in any process."""
        return bool(self.sum_(torch.tensor(float(flag))).item() > 0.0)

    def require_same(self, number: float, what: str) -> None:
        """Raise TrainingFailed where processes differ in a number."""
        total = self.sum_(torch.tensor([number, number * number], dtype=torch.float64))
        mean, square = numbers(total / self.size)
        if abs(square - mean * mean) > 1e-12:
            raise TrainingFailed(
                f"The processes of this training differ in {what}: one of them was interrupted "
                "while it was saved.",
                hint="Start anew with --fresh.",
            )

    def close(self) -> None:
        """Leave the group."""
        _distributed.destroy_process_group()


class SharedMoments(Moments):
    """Mean and variance of what all processes see: sums are exchanged, so the merge is exact."""

    def __init__(self, own: Moments, total: Callable[[Tensor], Tensor]) -> None:
        self.count, self.mean, self.var = own.count, own.mean, own.var
        self._total = total

    def update(self, batch: Tensor, alive: Tensor) -> None:
        """Take in the batches (P, n, size) of all processes."""
        wide = batch.double()
        count = torch.full_like(wide[:, :1, :1].squeeze(1), batch.shape[1])
        first = self._total(torch.cat((count, wide.sum(1)), dim=1))
        n, mean = first[:, :1], first[:, 1:] / first[:, :1]
        var = self._total((wide - mean.unsqueeze(1)).square().sum(1)) / n
        delta, total = mean - self.mean, self.count + n
        m2 = self.var * self.count + var * n + delta.square() * (self.count * n / total)
        alive = alive.unsqueeze(1)
        self.mean.copy_(torch.where(alive, self.mean + delta * (n / total), self.mean))
        self.var.copy_(torch.where(alive, m2 / total, self.var))
        self.count.copy_(torch.where(alive, total, self.count))


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
    population, collector = setup.population, setup.collector
    networks = population.networks
    assert isinstance(networks, TokenNetworks) and isinstance(collector, SharedCollector)
    networks.exchange = partial(_exchange, population, group)
    population.moments = SharedMoments(population.moments, group.sum_)
    scale = population.return_scale
    scale.moments = SharedMoments(scale.moments, group.sum_)
    # Weights are the same; noise, shuffles and starts are each process's own.
    population.seeds = [derive(seed, "process", group.rank) for seed in population.seeds]
    collector.join(group, task)
    scheduled = population.on_anneal

    def anneal(progress: float) -> None:
        group.require_same(progress, "how far they are")
        if scheduled is not None:
            scheduled(progress)

    population.on_anneal = anneal


def _exchange(population: Population, group: TrainingGroup, losses: Any) -> Any:
    """Make gradient and losses those of all processes."""
    group.sum_(population.grad).div_(group.size)
    if losses is None:
        return None
    return losses._make(group.sum_(torch.stack(list(losses))).div_(group.size))


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

        size = self.config.trainer.processes
        group = TrainingGroup(self.rank, size, Path(self.meeting), self.device)
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
    with tempfile.TemporaryDirectory() as folder:
        meeting = Path(folder) / "group"
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
                    meeting=str(meeting),
                ),
                place / f"process-{rank}.log",
            )
            for rank in range(1, config.trainer.processes)
        ]
        try:
            group = TrainingGroup(0, config.trainer.processes, meeting, options.device)
            try:
                return train_tracker(config, runs_dir, options._replace(group=group))
            finally:
                group.close()
        finally:
            for helper in helpers:
                _end(helper)


def _start(order: HelperOrder, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "telic.tracking.processes", order.model_dump_json()]
    with log.open("wb") as out:
        return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT)


def _end(helper: subprocess.Popen[bytes]) -> None:
    """Wait for a process that has nothing left to do; one that hangs is ended."""
    try:
        helper.wait(timeout=_GOODBYE_S)
    except subprocess.TimeoutExpired:
        helper.kill()
        helper.wait()


if __name__ == "__main__":
    HelperOrder.model_validate_json(sys.argv[1]).do()
