"""One training by several processes: each has environments of its own, all have the same weights.

    TrainingGroup     sums numbers of all processes
      SharedMemory    through memory of one machine that they all see

Gradients, losses and KL are means over processes, so every process takes the same step; statistics
of inputs, returns and advantages are those of all samples (`Population.join`). So several processes
learn what one would learn from the same samples in the same minibatches, up to rounding.
"""

from __future__ import annotations

import mmap
import os
import select
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from telic.core.seeds import derive
from telic.core.tensors import from_numpy, numbers
from telic.errors import TrainingFailed
from telic.sim.cuda_graph import launch

_PATIENCE_S = 600.0
_LOOK_S = 1.0
"""between two looks at whether the others are still there"""
_CHANNELS = 2
"""threads that exchange: the one that learns and the one that collects, on one would cross"""
_SLAB = 1 << 20
"""bytes of a process that are exchanged at once"""


class TrainingGroup:
    """Processes that train together; the first of them keeps the run."""

    def __init__(self, rank: int, size: int, sums: SharedMemory) -> None:
        self.rank, self.size = rank, size
        self._sums = sums

    @property
    def leads(self) -> bool:
        """True in the process that evaluates, reports and records."""
        return self.rank == 0

    def sum_(self, numbers: Tensor, *, collecting: bool = False) -> Tensor:
        """Replace numbers by their sum over processes."""
        self._sums.sum_(numbers, int(collecting))
        return numbers

    def mean_(self, numbers: Tensor) -> Tensor:
        """Replace numbers by their mean over processes."""
        return self.sum_(numbers).div_(self.size)

    def any(self, flags: Tensor) -> Tensor:
        """Return where a flag is set in any process."""
        return self.sum_(flags.float()) > 0.0

    def meet(self) -> None:
        """Wait until all processes are here."""
        self.sum_(torch.zeros(1))

    def from_first(self, number: int) -> int:
        """Return the number that the first process has."""
        own = torch.tensor([float(number) if self.leads else 0.0], dtype=torch.float64)
        return round(numbers(self.sum_(own))[0])

    def close(self) -> None:
        """Leave the group."""
        self._sums.close()


class SampleSpread(NamedTuple):
    """Mean and spread of samples, per member."""

    mean: Tensor
    """(P, 1)"""
    deviation: Tensor
    """(P, 1)"""
    variance: Tensor
    """(P,)"""


def spread_of(samples: Tensor, group: TrainingGroup | None) -> SampleSpread:
    """Return how the samples (P, B) of all processes are spread."""
    if group is None:
        return SampleSpread(
            samples.mean(1, keepdim=True), samples.std(1, keepdim=True), samples.var(1)
        )
    count = samples.shape[1] * group.size
    mean = group.sum_(samples.sum(1, keepdim=True, dtype=torch.float64)) / count
    squares = group.sum_((samples - mean).square().sum(1, keepdim=True)) / (count - 1)
    return SampleSpread(mean.float(), squares.sqrt().float(), squares[:, 0].float())


def process_seed(seed: int, rank: int) -> int:
    """Return the seed of a member's noise, shuffles and starts in one of the processes."""
    return derive(seed, "process", rank) if rank else seed


class SharedMemory:
    """Sums through memory that processes of one machine share, whatever device they compute on.

    It needs neither sockets nor threads, which a confined process has not: it opens its files
    before it is confined. Numbers of a GPU pass through the processor's memory, and a recording for
    the GPU is cut where they do. A process waits in `select`, so it takes no processor from others.
    """

    def __init__(
        self, folder: Path, rank: int, size: int, while_waiting: Callable[[], None] = lambda: None
    ) -> None:
        """Open what `make` left in a folder.

        Args:
            folder: the same for all processes.
            rank: which of them this is, from 0.
            size: how many there are.
            while_waiting: called about once a second; raises where waiting has no use.
        """
        self._rank, self._size = rank, size
        self._while_waiting = while_waiting
        handle = os.open(folder / _NUMBERS, os.O_RDWR)
        self._memory = mmap.mmap(handle, 0)
        os.close(handle)
        shape = _CHANNELS, 2, size, _SLAB
        self._slabs = np.frombuffer(self._memory, np.uint8).reshape(shape)
        flags = os.O_RDWR | os.O_NONBLOCK
        self._inboxes = [
            [os.open(folder / _inbox(channel, rank), flags) for rank in range(size)]
            for channel in range(_CHANNELS)
        ]
        self._arrived = [[0] * size for _ in range(_CHANNELS)]
        self._turn = [0] * _CHANNELS

    @staticmethod
    def make(folder: Path, size: int) -> None:
        """Make the files that as many processes meet in."""
        with (folder / _NUMBERS).open("wb") as file:
            file.truncate(_CHANNELS * 2 * size * _SLAB)
        for channel in range(_CHANNELS):
            for rank in range(size):
                os.mkfifo(folder / _inbox(channel, rank))

    def sum_(self, numbers: Tensor, channel: int) -> None:
        """Replace numbers by their sum, now or whenever the recording in progress is replayed."""
        if numbers.device.type == "cpu":
            self._sum(numbers, channel)
        else:
            launch(lambda: self._sum_elsewhere(numbers, channel))

    def _sum_elsewhere(self, numbers: Tensor, channel: int) -> None:
        here = numbers.cpu()  # waits until they are computed
        self._sum(here, channel)
        numbers.copy_(here)

    def _sum(self, numbers: Tensor, channel: int) -> None:
        flat = numbers.contiguous().view(-1)
        values: np.ndarray = flat.numpy()
        step = _SLAB // values.itemsize
        for start in range(0, len(values), step):
            self._sum_part(values[start : start + step], channel)
        if flat.data_ptr() != numbers.data_ptr():
            numbers.copy_(from_numpy(values).view_as(numbers))

    def _sum_part(self, values: np.ndarray, channel: int) -> None:
        # Of two slabs in turn: a process that is one exchange ahead writes where no other reads.
        slabs = self._slabs[channel, self._turn[channel] % 2, :, : values.nbytes].view(values.dtype)
        self._turn[channel] += 1
        slabs[self._rank] = values
        self._meet(channel)
        # In the order of processes everywhere, so that all get the same bits.
        values[:] = slabs[0]
        for other in slabs[1:]:
            values += other

    def _meet(self, channel: int) -> None:
        """Wait until every process has written what it has to this exchange."""
        inboxes, arrived = self._inboxes[channel], self._arrived[channel]
        others = [rank for rank in range(self._size) if rank != self._rank]
        for rank in others:
            os.write(inboxes[rank], bytes([self._rank]))
        looks = 0  # not by a clock: who must stand still for a while has not waited
        while any(arrived[rank] == 0 for rank in others):
            if select.select([inboxes[self._rank]], [], [], _LOOK_S)[0]:
                for rank in os.read(inboxes[self._rank], 4096):
                    arrived[rank] += 1
                continue
            self._while_waiting()
            looks += 1
            if looks * _LOOK_S > _PATIENCE_S:
                raise TrainingFailed(
                    f"A process that trains together with others waited {_PATIENCE_S:.0f} s for "
                    "them.",
                    hint="Run the same command again: it resumes from the last save.",
                )
        for rank in others:
            arrived[rank] -= 1

    def close(self) -> None:
        """Close the files; the memory is freed with its last reader."""
        for inboxes in self._inboxes:
            for inbox in inboxes:
                os.close(inbox)
        self._inboxes = []


_NUMBERS = "numbers"


def _inbox(channel: int, rank: int) -> str:
    return f"inbox-{channel}-{rank}"
