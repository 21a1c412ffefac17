"""CUDA graphs: record torch operations and physics once, then replay without Python overhead.

On a GPU, a control step consists of hundreds of small operations that take longer to launch than to
execute. A graph launches them together. Physics has data-dependent loops, which torch cannot
record, so it uses separate graphs: a recording is split at each physics launch, and a replay
alternates between torch and physics.
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
    """Return whether operations are currently being recorded instead of executed."""
    return _current is not None


def launch_physics(physics: Callable[[], None]) -> None:
    """Launch physics, or append it to the current recording."""
    if _current is None:
        physics()
    else:
        _current.insert(physics)


class CudaGraph(Generic[Result]):
    """GPU operations recorded from a function. Recording does not execute the operations.

    Every replay reads and writes the same memory as the recorded call. The function must not depend
    on tensor values (`item`, `bool`, `nonzero`), or else torch raises RuntimeError.
    """

    def __init__(self, function: Callable[[], Result]) -> None:
        """Record a call of `function`. Each replay overwrites `result`."""
        self._parts: list[Callable[[], Any]] = []
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._graph: torch.cuda.CUDAGraph | None = None
        torch.cuda.synchronize()
        gc.collect()  # a collection during recording could free memory in use
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
        """Split the recording and insert a physics launch."""
        self._end()
        self._parts.append(physics)
        self._begin()

    def replay(self) -> None:
        """Replay the recording asynchronously."""
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
        """End a failed recording so that the GPU remains usable."""
        if self._graph is not None:
            with contextlib.suppress(RuntimeError):  # repeats the failure
                self._graph.capture_end()
        self._parts = []


class Carrier(Protocol):
    """Object, such as an environment or a reward, that replaces its tensors in each step."""

    def carried(self) -> dict[str, Tensor]:
        """Return a dictionary of the replaced tensors."""
        ...

    def carry(self, tensors: dict[str, Tensor]) -> None:
        """Replace the carried tensors with the given ones."""
        ...


class GraphedCallable(Generic[Result]):
    """Function without arguments that is recorded as a CUDA graph at its second call.

    Inputs must be tensors at fixed addresses, and results are overwritten by the next call. The
    first call is executed normally as a warm-up, in which libraries initialize, rewards choose
    their execution mode and lazy fields are bound. If recording is impossible, all calls are
    executed normally, and `obstacle` states the reason.
    """

    def __init__(
        self, function: Callable[[], Result], carriers: Sequence[Carrier], device: torch.device
    ) -> None:
        """Wrap a function that also replaces the tensors of `carriers`."""
        self._function = function
        self._carriers = carriers
        self._graph: CudaGraph[Result] | None = None
        self._homes: list[dict[str, Tensor]] = []  # input tensors of the recording
        self._is_warm = False
        self.obstacle: str | None = None
        if device.type != "cuda":
            self.obstacle = "only GPUs use it"

    @property
    def is_recorded(self) -> bool | None:
        """True if calls replay a recording, or None before the second call."""
        if self.obstacle is not None:
            return False
        return None if self._graph is None else True

    def __call__(self) -> Result:
        """Call the function. On a GPU, the call is asynchronous."""
        if self.obstacle is None and self._is_warm and self._graph is None:
            self._record()
        self._is_warm = True
        if self._graph is None:
            return self._function()
        self._copy_back()  # a reset or a restored state may have replaced the tensors
        self._graph.replay()
        return self._graph.result

    def _record(self) -> None:
        self._homes = [carrier.carried() for carrier in self._carriers]
        try:
            self._graph = CudaGraph(self._recorded)
        except (RuntimeError, TelicError) as error:
            self.obstacle = str(error).splitlines()[0]
        # Nothing was executed, so restore the tensors from before the recording.
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            carrier.carry(home)

    def _recorded(self) -> Result:
        result = self._function()
        self._copy_back()
        return result

    def _copy_back(self) -> None:
        for carrier, home in zip(self._carriers, self._homes, strict=True):
            now = carrier.carried()
            away = [name for name, value in now.items() if value is not home[name]]
            for name in away:
                home[name].copy_(now[name])
            if away:
                carrier.carry(home)
