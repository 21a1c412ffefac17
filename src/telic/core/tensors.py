"""Typed wrappers for torch functions without annotated results."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_torch: Any = torch
_linalg: Any = torch.linalg


def from_numpy(array: np.ndarray) -> Tensor:
    """Return a tensor that shares the array's memory."""
    return _torch.from_numpy(array)


def norm(vectors: Any, dim: int = -1, *, keepdim: bool = False) -> Tensor:
    """Return the Euclidean norm along a dimension."""
    return _linalg.vector_norm(vectors, dim=dim, keepdim=keepdim)


def cross(left: Tensor, right: Tensor) -> Tensor:
    """Return the cross product of vectors (..., 3)."""
    return _linalg.cross(left, right)


def broadcast(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Expand two tensors to their common shape."""
    return _torch.broadcast_tensors(left, right)


def split(tensor: Any, sizes: list[int], dim: int) -> tuple[Tensor, ...]:
    """Split a tensor into views of the given sizes."""
    return tensor.split(sizes, dim=dim)


def integers(tensor: Any) -> list[int]:
    """Return integers (N,) as a list."""
    return tensor.tolist()


def flags(tensor: Any) -> list[bool]:
    """Return booleans (N,) as a list."""
    return tensor.tolist()


def numbers(tensor: Any) -> list[float]:
    """Return numbers (N,) as a list."""
    return tensor.tolist()


def table(tensor: Any) -> list[list[float]]:
    """Return numbers (N, k) as a list of lists."""
    return tensor.tolist()


def use_one_thread() -> None:
    """Limit torch to one thread.

    For small batches, additional threads would mostly wait for cores and for each other.
    """
    torch.set_num_threads(1)


def use_simulation_threads() -> None:
    """Configure torch for small networks while other cores simulate.

    torch is limited to one thread. oneDNN is disabled, because on ARM it repacks the weights for
    every small matrix product, which takes longer than the product itself.
    """
    torch.set_num_threads(1)
    mkldnn: Any = torch.backends.mkldnn
    mkldnn.set_flags(False)
