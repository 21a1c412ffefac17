"""Functions of torch whose results torch itself does not type, each with its type."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

_torch: Any = torch
_linalg: Any = torch.linalg


def from_numpy(array: np.ndarray) -> Tensor:
    """Return an array as a tensor that shares its memory."""
    return _torch.from_numpy(array)


def norm(vectors: Any, dim: int = -1, *, keepdim: bool = False) -> Tensor:
    """Return the length of vectors that lie along a dimension."""
    return _linalg.vector_norm(vectors, dim=dim, keepdim=keepdim)


def cross(left: Tensor, right: Tensor) -> Tensor:
    """Return the cross product of vectors (..., 3)."""
    return _linalg.cross(left, right)


def broadcast(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tensors expanded to their common shape."""
    return _torch.broadcast_tensors(left, right)


def split(tensor: Any, sizes: list[int], dim: int) -> tuple[Tensor, ...]:
    """Cut a tensor into views of these sizes."""
    return tensor.split(sizes, dim=dim)


def integers(tensor: Any) -> list[int]:
    """Return whole numbers (N,) as a list."""
    return tensor.tolist()


def flags(tensor: Any) -> list[bool]:
    """Return truth values (N,) as a list."""
    return tensor.tolist()


def numbers(tensor: Any) -> list[float]:
    """Return numbers (N,) as a list."""
    return tensor.tolist()


def table(tensor: Any) -> list[list[float]]:
    """Return numbers (N, k) as a list of lists."""
    return tensor.tolist()


def use_one_thread() -> None:
    """Compute on one thread from now on.

    For work on a few rows during a training: its threads would spend their time waiting for each
    other, each of them for a processor.
    """
    torch.set_num_threads(1)


def learn_beside_simulation() -> None:
    """Compute as suits small networks while the other cores simulate.

    On one thread, and without oneDNN: on ARM it prepares every product of small matrices again,
    which takes longer than the product; elsewhere such products do not come to it.
    """
    torch.set_num_threads(1)
    mkldnn: Any = torch.backends.mkldnn
    mkldnn.set_flags(False)
