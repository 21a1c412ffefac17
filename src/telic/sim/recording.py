"""Record torch operations and physics once, replay them without Python in between.

On a GPU, a control step is hundreds of small operations, and telling the GPU to do each would take
longer than doing it. A recording holds them as CUDA graphs. Physics has loops whose length only the
GPU knows, which torch cannot record, so it keeps graphs of its own: a recording is cut wherever
physics is launched, and replays torch's parts and physics in turn.
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import torch

Result = TypeVar("Result")

_current: Recording[Any] | None = None


def is_recording() -> bool:
    """Say whether what is done now is recorded instead of executed."""
    return _current is not None


def launch(physics: Callable[[], None]) -> None:
    """Launch physics now, or as the next part of the recording in progress."""
    if _current is None:
        physics()
    else:
        _current.insert(physics)


class Recording(Generic[Result]):
    """What a function did on the GPU. Nothing is executed while it is recorded.

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
            with contextlib.suppress(RuntimeError):  # the failure that brought us here, once more
                self._graph.capture_end()
        self._parts = []
