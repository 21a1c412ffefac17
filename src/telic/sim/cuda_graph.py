"""CUDA graphs: record torch operations and physics once, replay them without Python in between.

On a GPU, a control step is hundreds of small operations, and launching each would take longer than
running it. A graph holds them all. Physics has loops whose length only the GPU knows,
which torch cannot record, so it keeps graphs of its own: a recording is cut wherever physics is
launched, and replays torch's parts and physics in turn.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import Tensor

from telic.errors import TelicError

Result = TypeVar("Result")

_current: CudaGraph[Any] | None = None


def is_recording() -> bool:
    """Say whether what is done now is recorded instead of executed."""
    return _current is not None


def launch_physics(physics: Callable[[], None]) -> None:
    """Launch physics now, or as the next part of the recording in progress."""
    if _current is None:
        physics()
    else:
        _current.insert(physics)


class CudaGraph(Generic[Result]):
    """The GPU work of a function. Nothing is executed while it is recorded.

    Whatever memory the function read is read again, and whatever it wrote is written again, by
    every replay. It must not look at values (`item`, `bool`, `nonzero`): torch raises RuntimeError.
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        """Record a call of `function`; its result is in `result`, filled by each replay."""
        self._parts: list[Callable[[], Any]] = []
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._graph: torch.cuda.CUDAGraph | None = None
        torch.cuda.synchronize()
        gc.collect()  # garbage collected during a recording could free memory it uses
        global _current
        with torch.cuda.stream(self._stream):
            _current = self
            try:
                self._begin()
                self.result = function()
                self._end()
            except BaseException:
                self._abandon()
                raise
            finally:
                _current = None

    def insert(self, physics: Callable[[], None]) -> None:
        """Cut the recording and put a launch between the two parts."""
        self._end()
        self._parts.append(physics)
        self._begin()

    def replay(self) -> None:
        """Do it again; returns before the GPU is done."""
        for part in self._parts:
            part()

    def _begin(self) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")

    def _end(self) -> None:
        graph, self._graph = self._graph, None
        assert graph is not None
        graph.capture_end()
        self._parts.append(graph.replay)

    def _abandon(self) -> None:
        """End a recording that failed, so that the GPU can be used again."""
        if self._graph is not None:
            with contextlib.suppress(RuntimeError):  # the same failure again
                self._graph.capture_end()
        self._parts = []


class Carrier(Protocol):
    """Something that replaces its tensors as it goes, such as an environment or a reward."""

    def carried(self) -> dict[str, Tensor]:
        """Return those tensors by name."""
        ...

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Continue with other tensors."""
        ...


class GraphedCallable(Generic[Result]):
    """A function without arguments whose work is recorded at its second call.

    What varies between calls must lie in tensors that keep their place, and results are overwritten
    by the next call. The first call runs as it is: libraries set themselves up, rewards decide how
    they are run, lazy fields are found. Where recording is impossible, every call runs as it is
    and `obstacle` says why.
    """

    def __init__(
        self, function: Callable[[], Result], carriers: Sequence[Carrier], device: torch.device
    ) -> None:
        """Wrap a function that also changes what `carriers` hold."""
        self._function = function
        self._carriers = carriers
        self._graph: CudaGraph[Result] | None = None
        self._homes: list[dict[str, Tensor]] = []  # where the recording finds what is carried
        self._is_warm = False
        self.obstacle: str | None = None
        if device.type != "cuda":
            self.obstacle = "only a GPU gains from it"

    @property
    def is_recorded(self) -> bool | None:
        """True if calls replay a recording; None: not known before the second call."""
        if self.obstacle is not None:
            return False
        return None if self._graph is None else True

    def __call__(self) -> Result:
        """Do the work; on a GPU, returns before it is done."""
        if self.obstacle is None and self._is_warm and self._graph is None:
            self._record()
        self._is_warm = True
        if self._graph is None:
            return self._function()
        self._bring_home()  # a reset or a restored state has put new tensors in their place
        self._graph.replay()
        return self._graph.result

    def _record(self) -> None:
        self._homes = [carrier.carried() for carrier in self._carriers]
        try:
            self._graph = CudaGraph(self._recorded)
        except (RuntimeError, TelicError) as error:
            self.obstacle = str(error).splitlines()[0]
        # Nothing was executed: the tensors from before hold the present.
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            carrier.carry(home)

    def _recorded(self) -> Result:
        result = self._function()
        self._bring_home()
        return result

    def _bring_home(self) -> None:
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            now = carrier.carried()
            away = [name for name, value in now.items() if value is not home[name]]
            for name in away:
                home[name].copy_(now[name])
            if away:
                carrier.carry(home)
